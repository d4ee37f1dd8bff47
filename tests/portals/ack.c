/* The four kinds of acknowledgement: what each brings as events and as counts, when the
 * operation succeeds, is truncated, and fails. */
#include "harness.h"

enum { PT = 4, PT_EMPTY = 5, LEN = 100 };

static ptl_handle_eq_t target, initiator;
static ptl_handle_ct_t ct;
static uint8_t in[LEN], out[4 * LEN];

static void zero(void)
{
    ptl_ct_event_t none = {0, 0};
    OK(PtlCTSet(ct, none));
}

/* What one put brings with a queue and a counter of sends and acknowledgements. */
static void kinds(void)
{
    unsigned int both = PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK;
    ptl_handle_md_t md = MD_NEW(out, sizeof out, both, initiator, ct);
    ptl_ack_req_t each[] = {PTL_NO_ACK_REQ, PTL_ACK_REQ, PTL_CT_ACK_REQ, PTL_OC_ACK_REQ};
    for (size_t i = 0; i < ARRAY_COUNT(each); i++) {
        zero();
        BARRIER();
        OK(PtlPut(md, 0, LEN, each[i], peers[rank_next()], PT, 0, 0, &in, 0));
        if (each[i] == PTL_ACK_REQ) {
            ptl_event_t ack = PUT_DONE(initiator);
            CHECK(ack.user_ptr == &in);
            CHECK_EQ(ack.mlength, LEN);
        } else {
            ptl_event_t send = EXPECT(initiator, PTL_EVENT_SEND);
            CHECK(send.user_ptr == &in);
        }
        EXPECT_CT(ct, each[i] == PTL_NO_ACK_REQ ? 1 : 2, 0);
        EXPECT(target, PTL_EVENT_PUT);
        EXPECT_NOTHING(initiator);
        CT_IS(ct, each[i] == PTL_NO_ACK_REQ ? 1 : 2, 0);
    }
    MD_RELEASE(md);

    /* Without a queue, counting is all there is. */
    md = MD_NEW(out, sizeof out, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    for (size_t i = 0; i < ARRAY_COUNT(each); i++) {
        if (each[i] == PTL_ACK_REQ)
            continue;
        zero();
        OK(PtlPut(md, 0, LEN, each[i], peers[rank_next()], PT, 0, 0, NULL, 0));
        EXPECT(target, PTL_EVENT_PUT);
        if (each[i] != PTL_NO_ACK_REQ)
            EXPECT_CT(ct, 1, 0);
        BARRIER();
        CT_IS(ct, each[i] != PTL_NO_ACK_REQ, 0);
    }
    MD_RELEASE(md);
}

/* Bytes: the length asked for a send, the length done for an acknowledgement. */
static void bytes(void)
{
    ptl_handle_md_t sends = MD_NEW(out, sizeof out, PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_BYTES,
                                   PTL_EQ_NONE, ct);
    ptl_handle_md_t acks = MD_NEW(out, sizeof out, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES,
                                  PTL_EQ_NONE, ct);
    zero();
    OK(PtlPut(sends, 0, 3 * LEN, PTL_NO_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
    EXPECT_CT(ct, 3 * LEN, 0);
    ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
    CHECK_EQ(event.mlength, LEN);
    zero();
    OK(PtlPut(acks, 0, 3 * LEN, PTL_CT_ACK_REQ, peers[rank_next()], PT, 0, LEN - 10, NULL, 0));
    EXPECT_CT(ct, 10, 0);
    OK(PtlPut(acks, 0, 7, PTL_CT_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
    EXPECT_CT(ct, 17, 0);
    EXPECT(target, PTL_EVENT_PUT);
    EXPECT(target, PTL_EVENT_PUT);

    /* A failure is one, also when bytes are counted. */
    OK(PtlPut(acks, 0, 7, PTL_CT_ACK_REQ, peers[rank_next()], PT_EMPTY, 0, 0, NULL, 0));
    EXPECT_CT(ct, 17, 1);
    MD_RELEASE(sends);
    MD_RELEASE(acks);
}

/* A put that nothing takes: the send comes first, then the failing acknowledgement. */
static void failing(size_t len)
{
    uint8_t *buffer = calloc(1, len ? len : 1);
    ptl_handle_md_t md = MD_NEW(buffer, len, PTL_MD_EVENT_CT_ACK, initiator, ct);
    zero();
    OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[rank_next()], PT_EMPTY, 0, 0, &out, 0));
    EXPECT(initiator, PTL_EVENT_SEND);
    ptl_event_t ack = EXPECT_FAIL(initiator, PTL_EVENT_ACK, PTL_NI_DROPPED);
    CHECK(ack.user_ptr == &out);
    EXPECT_CT(ct, 0, 1);

    zero();
    OK(PtlPut(md, 0, len, PTL_CT_ACK_REQ, peers[rank_next()], PT_EMPTY, 0, 0, NULL, 0));
    EXPECT(initiator, PTL_EVENT_SEND);
    EXPECT_CT(ct, 0, 1);

    /* This one says only that the operation is over. */
    zero();
    OK(PtlPut(md, 0, len, PTL_OC_ACK_REQ, peers[rank_next()], PT_EMPTY, 0, 0, NULL, 0));
    EXPECT(initiator, PTL_EVENT_SEND);
    ptl_size_t one = 1;
    ptl_ct_event_t value;
    unsigned int which;
    OK(PtlCTPoll(&ct, &one, 1, WAIT_MS, &value, &which));
    CHECK_EQ(value.success + value.failure, 1);

    zero();
    OK(PtlPut(md, 0, len, PTL_NO_ACK_REQ, peers[rank_next()], PT_EMPTY, 0, 0, NULL, 0));
    EXPECT(initiator, PTL_EVENT_SEND);
    EXPECT_NOTHING(initiator);
    CT_IS(ct, 0, 0);
    MD_RELEASE(md);

    /* Failures are reported although successes are not. */
    md = MD_NEW(buffer, len, PTL_MD_EVENT_SUCCESS_DISABLE, initiator, PTL_CT_NONE);
    OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[rank_next()], PT_EMPTY, 0, 0, NULL, 0));
    EXPECT_FAIL(initiator, PTL_EVENT_ACK, PTL_NI_DROPPED);
    MD_RELEASE(md);
    free(buffer);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(64), initiator = EQ_NEW(64), ct = CT_NEW();
    PT_NEW(0, target, PT);
    PT_NEW(0, PTL_EQ_NONE, PT_EMPTY);
    ptl_me_t what = entry(in, LEN, PTL_ME_OP_PUT);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    int drops = sr_value(PTL_SR_DROP_COUNT);
    BARRIER();
    kinds();
    BARRIER();
    bytes();
    failing(0);
    failing(8);
    failing(5000);
    if (limits.max_msg_size >= MIB)
        failing(MIB);
    BARRIER();
    CHECK(sr_value(PTL_SR_DROP_COUNT) > drops);
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);
    UNLINK(element);
    OK(PtlPTFree(ni, PT));
    OK(PtlPTFree(ni, PT_EMPTY));
    OK(PtlCTFree(ct));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    return test_end();
}
