/* Memory descriptors: bounds, the whole address space in one, release, stale handles, and
 * several that share queue and counter. */
#include "harness.h"

enum { PT = 4, LEN = 4096 };

static ptl_handle_eq_t target, initiator;
static uint8_t *in, *out;

static void send_and_check(ptl_handle_md_t md, ptl_size_t offset, const uint8_t *from, size_t len)
{
    fill((void *)(uintptr_t)from, len, seed_of(rank, rank_next(), offset));
    BARRIER();
    OK(PtlPut(md, offset, len, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, offset));
    PUT_DONE(initiator);
    ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
    CHECK_EQ(event.mlength, len);
    VERIFY(in, len, seed_of(rank_before(), rank, event.hdr_data));
    BARRIER();
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(64), initiator = EQ_NEW(64);
    in = guarded(LEN), out = guarded(LEN);
    PT_NEW(0, target, PT);
    ptl_me_t what = entry(in, LEN, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);

    /* An ordinary one, and its last bytes. */
    ptl_handle_md_t md = MD_NEW(out, LEN, 0, initiator, PTL_CT_NONE);
    send_and_check(md, 0, out, LEN);
    send_and_check(md, LEN - 5, out + LEN - 5, 5);

    /* Everything: the address is the offset. */
    ptl_handle_md_t all = MD_NEW(NULL, PTL_SIZE_MAX, 0, initiator, PTL_CT_NONE);
    send_and_check(all, (ptl_size_t)(uintptr_t)out, out, LEN);
    uint8_t on_stack[100];
    send_and_check(all, (ptl_size_t)(uintptr_t)on_stack, on_stack, sizeof on_stack);
    static uint8_t in_data[333];
    send_and_check(all, (ptl_size_t)(uintptr_t)in_data, in_data, sizeof in_data);
    /* A get into it. */
    BARRIER();
    memset(on_stack, 0, sizeof on_stack);
    OK(PtlGet(all, (ptl_size_t)(uintptr_t)on_stack, sizeof on_stack, peers[rank_next()], PT, 0, 0,
              NULL));
    ptl_event_t reply = EXPECT(initiator, PTL_EVENT_REPLY);
    CHECK_EQ(reply.mlength, sizeof on_stack);
    EXPECT(target, PTL_EVENT_GET);
    VERIFY(on_stack, sizeof on_stack,
           seed_of(rank, rank_next(), (ptl_size_t)(uintptr_t)in_data));
    BARRIER();

    /* Outside of a descriptor is an error, at once; nothing is sent. */
    CHECK_CODE(PtlPut(md, 1, LEN, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0),
               PTL_ARG_INVALID);
    CHECK_CODE(PtlPut(md, LEN + 1, 0, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0),
               PTL_ARG_INVALID);
    CHECK_CODE(PtlGet(md, LEN, 1, peers[rank_next()], PT, 0, 0, NULL), PTL_ARG_INVALID);
    CHECK_CODE(PtlPut(md, PTL_SIZE_MAX, 2, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0),
               PTL_ARG_INVALID);
    EXPECT_NOTHING(initiator);
    /* Its very end is not outside. */
    send_and_check(md, LEN, out + LEN, 0);

    /* Nothing at all to send from. */
    ptl_handle_md_t empty = MD_NEW(NULL, 0, 0, initiator, PTL_CT_NONE);
    send_and_check(empty, 0, out, 0);

    /* Counters instead of events; two descriptors share one. */
    ptl_handle_ct_t ct = CT_NEW();
    ptl_handle_md_t counted = MD_NEW(out, LEN, PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK,
                                     PTL_EQ_NONE, ct);
    ptl_handle_md_t other = MD_NEW(out, 16, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    CHECK(!PtlHandleIsEqual(counted, other));
    OK(PtlPut(counted, 0, LEN, PTL_CT_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
    EXPECT_CT(ct, 2, 0);
    OK(PtlPut(other, 0, 16, PTL_CT_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
    EXPECT_CT(ct, 3, 0);
    EXPECT(target, PTL_EVENT_PUT);
    EXPECT(target, PTL_EVENT_PUT);

    /* No events of success, none of sending, only the acknowledgement. */
    ptl_handle_md_t silent = MD_NEW(out, LEN, PTL_MD_EVENT_SUCCESS_DISABLE, initiator,
                                    PTL_CT_NONE);
    ptl_handle_md_t half = MD_NEW(out, LEN, PTL_MD_EVENT_SEND_DISABLE, initiator, PTL_CT_NONE);
    OK(PtlPut(silent, 0, 8, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
    OK(PtlPut(half, 0, 8, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
    EXPECT(initiator, PTL_EVENT_ACK);
    EXPECT(target, PTL_EVENT_PUT);
    EXPECT(target, PTL_EVENT_PUT);
    EXPECT_NOTHING(initiator);
    BARRIER();

    /* Released, a handle is stale, also when new ones come. */
    ptl_handle_md_t each[] = {md, all, empty, counted, other, silent, half};
    for (size_t i = 0; i < ARRAY_COUNT(each); i++) {
        MD_RELEASE(each[i]);
        CHECK_CODE(PtlMDRelease(each[i]), PTL_ARG_INVALID);
        CHECK_CODE(PtlPut(each[i], 0, 0, PTL_NO_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0),
                   PTL_ARG_INVALID);
    }
    ptl_handle_md_t fresh = MD_NEW(out, LEN, 0, initiator, PTL_CT_NONE);
    CHECK_CODE(PtlMDRelease(md), PTL_ARG_INVALID);
    MD_RELEASE(fresh);

    /* As many as the limits promise, up to a thousand. */
    enum { MANY_MAX = 1000 };
    static ptl_handle_md_t many[MANY_MAX];
    int count = limits.max_mds < MANY_MAX ? limits.max_mds : MANY_MAX;
    for (int i = 0; i < count; i++)
        many[i] = MD_NEW(out, (ptl_size_t)i, 0, initiator, PTL_CT_NONE);
    for (int i = 0; i < count; i++)
        MD_RELEASE(many[i]);

    UNLINK(element);
    OK(PtlPTFree(ni, PT));
    OK(PtlCTFree(ct));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(in), guarded_free(out);
    return test_end();
}
