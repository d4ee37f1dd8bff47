/* Unlinking: at rest, with headers that wait, in the middle of traffic, and stale handles. */
#include "harness.h"

enum { PT = 4, ROOM = 1 << 18, PUTS = 40 };

static ptl_handle_eq_t target, initiator;
static uint8_t *in, *out;

/* The race: whatever the unlink says, what was acknowledged has arrived and nothing else. */
static void race(int round)
{
    ptl_me_t what = entry(in, ROOM, PTL_ME_OP_PUT);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    size_t len = round % 2 ? ROOM : 64;
    if (len > limits.max_msg_size)
        len = (size_t)limits.max_msg_size;
    ptl_handle_md_t md = MD_NEW(out, ROOM, PTL_MD_EVENT_SEND_DISABLE, initiator, PTL_CT_NONE);
    BARRIER();
    for (int i = 0; i < PUTS; i++)
        OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, (unsigned)i));
    int code, tries = 0;
    while ((code = unlink_code(element)) == PTL_IN_USE && tries++ < WAIT_MS)
        sleep_ms(1);
    CHECK_CODE(code, PTL_OK);
    int good = 0, *every = calloc((size_t)nprocs, sizeof *every);
    for (int i = 0; i < PUTS; i++) {
        ptl_event_t event = NEXT(initiator);
        CHECK_EQ(event.type, PTL_EVENT_ACK);
        if (event.ni_fail_type == PTL_NI_OK)
            good++;
        else
            CHECK_EQ(event.ni_fail_type, PTL_NI_DROPPED);
    }
    EXCHANGE(&good, sizeof good, every);
    for (int i = 0; i < every[rank_before()]; i++) {
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
        /* Those that matched are the first ones, in their order. */
        if (round % 2 == 0)
            CHECK_EQ(event.hdr_data, i);
    }
    EXPECT_NOTHING(target);
    MD_RELEASE(md);
    free(every);
    CHECK_GUARD(in, ROOM);
}

static void at_rest(void)
{
    ptl_handle_md_t md = MD_NEW(out, 64, 0, initiator, PTL_CT_NONE);
    for (int list = PTL_PRIORITY_LIST; list <= PTL_OVERFLOW_LIST; list++)
        for (int i = 0; i < 3; i++) {
            ptl_me_t what = entry(in, 64, PTL_ME_OP_PUT | PTL_ME_OP_GET |
                                              PTL_ME_UNEXPECTED_HDR_DISABLE);
            ptl_handle_me_t element = APPEND_QUIET(PT, &what, (ptl_list_t)list, NULL);
            BARRIER();
            if (i > 0) {
                OK(PtlPut(md, 0, 64, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
                PUT_DONE(initiator);
                EXPECT(target, PTL_EVENT_PUT);
            }
            if (i > 1) {
                OK(PtlGet(md, 0, 64, peers[rank_next()], PT, 0, 0, NULL));
                EXPECT(initiator, PTL_EVENT_REPLY);
                EXPECT(target, PTL_EVENT_GET);
            }
            BARRIER();
            /* All is over: it is in use no more. */
            UNLINK(element);
            CHECK_CODE(unlink_code(element), PTL_ARG_INVALID);
            EXPECT_NOTHING(target);
            /* A new one does not revive the old handle. */
            ptl_handle_me_t fresh = APPEND_QUIET(PT, &what, (ptl_list_t)list, NULL);
            CHECK(!PtlHandleIsEqual(fresh, element));
            CHECK_CODE(unlink_code(element), PTL_ARG_INVALID);
            UNLINK(fresh);
            BARRIER();
        }
    MD_RELEASE(md);
}

/* An overflow entry whose headers wait may or may not be unlinked; once they are taken, it
 * must be possible, and what they point to stays good until then. */
static void with_headers(void)
{
    ptl_handle_md_t md = MD_NEW(out, 64, 0, initiator, PTL_CT_NONE);
    ptl_me_t what = entry(in, 64, PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_OVERFLOW_LIST, NULL);
    BARRIER();
    OK(PtlPut(md, 0, 64, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 5));
    PUT_DONE(initiator);
    BARRIER();
    int code = unlink_code(element);
    CHECK(code == PTL_OK || code == PTL_IN_USE);
    ptl_me_t seek = entry(NULL, 0, PTL_ME_OP_PUT | PTL_ME_USE_ONCE);
    SEARCH(PT, &seek, PTL_SEARCH_DELETE, NULL);
    ptl_event_t event = EXPECT(target, PTL_EVENT_PUT_OVERFLOW);
    CHECK_EQ(event.hdr_data, 5);
    CHECK(event.start == in);
    if (code == PTL_IN_USE)
        OK(unlink_code(element));
    EXPECT_NOTHING(target);
    MD_RELEASE(md);
    BARRIER();
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(256), initiator = EQ_NEW(256);
    in = guarded(ROOM), out = guarded(ROOM);
    PT_NEW(0, target, PT);
    at_rest();
    with_headers();
    for (int round = 0; round < 12; round++)
        race(round);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(in), guarded_free(out);
    return test_end();
}
