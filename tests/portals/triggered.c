/* Triggered operations: all seven kinds, thresholds reached before and after, their order,
 * chains, cancelling, failures that count, and more than there is space for. */
#include "harness.h"

enum { PT = 4, CELLS = 16 };

static ptl_handle_eq_t target, initiator;
static uint64_t cells[CELLS], out[CELLS], got[CELLS];
static ptl_handle_md_t md, back;
static ptl_handle_ct_t trigger;

static ptl_ct_event_t pair(ptl_size_t success, ptl_size_t failure)
{
    ptl_ct_event_t value = {success, failure};
    return value;
}

static void increase(ptl_size_t by) { OK(PtlCTInc(trigger, pair(by, 0))); }
static void reset(void) { OK(PtlCTSet(trigger, pair(0, 0))); }

static void each_kind(bool late)
{
    ptl_process_t to = peers[rank_next()];
    ptl_handle_ct_t other = CT_NEW();
    uint64_t operand = 7;
    for (int i = 0; i < CELLS; i++)
        cells[i] = (uint64_t)(100 * rank + i), out[i] = 0, got[i] = 0;
    reset();
    BARRIER();
    if (late)
        increase(5);
    /* The buffer's contents count when it begins, not now; the operand is taken now. */
    for (int i = 0; late && i < CELLS; i++)
        out[i] = 1000 + (uint64_t)(rank + i);
    OK(PtlTriggeredPut(md, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, 1, trigger, 1));
    OK(PtlTriggeredGet(back, 8, 8, to, PT, 0, 8, NULL, trigger, 2));
    OK(PtlTriggeredAtomic(md, 16, 8, PTL_ACK_REQ, to, PT, 0, 16, NULL, 2, PTL_SUM, PTL_UINT64_T,
                          trigger, 3));
    OK(PtlTriggeredFetchAtomic(back, 24, md, 24, 8, to, PT, 0, 24, NULL, 3, PTL_SUM, PTL_UINT64_T,
                               trigger, 4));
    operand = (uint64_t)(100 * rank_next() + 4);
    OK(PtlTriggeredSwap(back, 32, md, 32, 8, to, PT, 0, 32, NULL, 4, &operand, PTL_CSWAP,
                        PTL_UINT64_T, trigger, 5));
    operand = 0;
    OK(PtlTriggeredCTInc(other, pair(3, 0), trigger, 1));
    OK(PtlTriggeredCTSet(other, pair(50, 2), trigger, 5));
    if (!late) {
        EXPECT_NOTHING(target);
        EXPECT_NOTHING(initiator);
        CT_IS(other, 0, 0);
        for (int i = 0; i < CELLS; i++)
            out[i] = 1000 + (uint64_t)(rank + i);
        BARRIER();
        increase(1);
        EXPECT_CT(other, 3, 0);
        EXPECT(target, PTL_EVENT_PUT);
        PUT_DONE(initiator);
        EXPECT_NOTHING(target);
        BARRIER();
        increase(1);
        EXPECT(target, PTL_EVENT_GET);
        increase(1);
        EXPECT(target, PTL_EVENT_ATOMIC);
        increase(2);
        EXPECT(target, PTL_EVENT_FETCH_ATOMIC);
        EXPECT(target, PTL_EVENT_FETCH_ATOMIC);
    } else {
        static const int kinds[] = {PTL_EVENT_PUT, PTL_EVENT_GET, PTL_EVENT_ATOMIC,
                                    PTL_EVENT_FETCH_ATOMIC, PTL_EVENT_FETCH_ATOMIC};
        for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
            EXPECT(target, kinds[i]);
    }
    /* REPLY of the get, SEND and ACK of the atomic (and the put), SEND and REPLY of two more. */
    for (int i = 0; i < (late ? 9 : 7); i++)
        CHECK_EQ(NEXT(initiator).ni_fail_type, PTL_NI_OK);
    EXPECT_CT(other, 50, 2);
    BARRIER();
    OK(PtlAtomicSync());
    uint64_t sent = 1000 + (uint64_t)rank_before(), mine = (uint64_t)(100 * rank);
    uint64_t theirs = (uint64_t)(100 * rank_next());
    CHECK_EQ(cells[0], sent);
    CHECK_EQ(cells[1], mine + 1);
    CHECK_EQ(cells[2], mine + 2 + sent + 2);
    CHECK_EQ(cells[3], mine + 3 + sent + 3);
    CHECK_EQ(cells[4], sent + 4);
    CHECK_EQ(got[1], theirs + 1);
    CHECK_EQ(got[3], theirs + 3);
    CHECK_EQ(got[4], theirs + 4);
    OK(PtlCTFree(other));
    BARRIER();
}

/* Those with one threshold begin in the order in which they were issued. */
static void order(void)
{
    enum { PUTS = 10 };
    reset();
    for (int i = 0; i < PUTS; i++)
        OK(PtlTriggeredPut(md, 0, (ptl_size_t)(i % 3) * 8, PTL_NO_ACK_REQ, peers[rank_next()], PT,
                           0, 0, NULL, (unsigned)(100 + i), trigger, 4));
    for (int i = 0; i < PUTS; i++)
        OK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL,
                           (unsigned)i, trigger, 2));
    increase(2);
    for (int i = 0; i < PUTS; i++)
        CHECK_EQ(EXPECT(target, PTL_EVENT_PUT).hdr_data, i);
    EXPECT_NOTHING(target);
    BARRIER();
    /* A set triggers, too; a set to less does not take anything back, nor repeat it. */
    OK(PtlCTSet(trigger, pair(1, 0)));
    OK(PtlCTSet(trigger, pair(4, 0)));
    for (int i = 0; i < PUTS; i++)
        CHECK_EQ(EXPECT(target, PTL_EVENT_PUT).hdr_data, 100 + i);
    reset();
    increase(10);
    for (int i = 0; i < 2 * PUTS; i++)
        EXPECT(initiator, PTL_EVENT_SEND);
    EXPECT_NOTHING(target);
}

static void chain(void)
{
    enum { LINKS = 40 };
    ptl_handle_ct_t ct[LINKS];
    for (int i = 0; i < LINKS; i++)
        ct[i] = CT_NEW();
    for (int i = LINKS - 2; i >= 0; i--)
        OK(PtlTriggeredCTInc(ct[i + 1], pair((ptl_size_t)i + 2, 0), ct[i], (ptl_size_t)i + 1));
    OK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 31,
                       ct[LINKS - 1], LINKS));
    OK(PtlCTInc(ct[0], pair(1, 0)));
    CHECK_EQ(EXPECT(target, PTL_EVENT_PUT).hdr_data, 31);
    EXPECT(initiator, PTL_EVENT_SEND);
    for (int i = 0; i < LINKS; i++) {
        CT_IS(ct[i], (ptl_size_t)i + 1, 0);
        OK(PtlCTFree(ct[i]));
    }
}

/* A failure counts towards the threshold as a success does. */
static void failures(void)
{
    reset();
    OK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 32, trigger, 2));
    OK(PtlCTInc(trigger, pair(0, 1)));
    EXPECT_NOTHING(target);
    BARRIER();
    OK(PtlCTInc(trigger, pair(1, 0)));
    CHECK_EQ(EXPECT(target, PTL_EVENT_PUT).hdr_data, 32);
    EXPECT(initiator, PTL_EVENT_SEND);
    OK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 33, trigger, 5));
    OK(PtlCTInc(trigger, pair(0, 3)));
    CHECK_EQ(EXPECT(target, PTL_EVENT_PUT).hdr_data, 33);
    EXPECT(initiator, PTL_EVENT_SEND);
}

static void cancel(void)
{
    ptl_handle_ct_t other = CT_NEW();
    reset();
    increase(1);
    for (int i = 0; i < 5; i++)
        OK(PtlTriggeredPut(md, 0, 8, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 34, trigger,
                           (ptl_size_t)i + 2));
    OK(PtlTriggeredCTInc(other, pair(1, 0), trigger, 2));
    OK(PtlCTCancelTriggered(trigger));
    CT_IS(trigger, 1, 0);
    increase(100);
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);
    CT_IS(other, 0, 0);
    BARRIER();
    /* The counter is as good as new. */
    reset();
    OK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 35, trigger, 1));
    increase(1);
    CHECK_EQ(EXPECT(target, PTL_EVENT_PUT).hdr_data, 35);
    EXPECT(initiator, PTL_EVENT_SEND);
    OK(PtlCTCancelTriggered(trigger));
    /* Freed with operations that wait, it takes them along. */
    OK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 36, other, 1));
    OK(PtlCTFree(other));
    EXPECT_NOTHING(target);
}

static void no_space(void)
{
    enum { MOST = 5000 };
    if (limits.max_triggered_ops > MOST)
        return;
    ptl_process_t to = peers[rank_next()];
    ptl_handle_ct_t other = CT_NEW();
    reset();
    for (int i = 0; i < limits.max_triggered_ops; i++)
        OK(PtlTriggeredCTInc(other, pair(1, 0), trigger, 1));
    CHECK_CODE(PtlTriggeredCTInc(other, pair(1, 0), trigger, 1), PTL_NO_SPACE);
    CHECK_CODE(PtlTriggeredCTSet(other, pair(1, 0), trigger, 1), PTL_NO_SPACE);
    CHECK_CODE(PtlTriggeredPut(md, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0, trigger, 1), PTL_NO_SPACE);
    CHECK_CODE(PtlTriggeredGet(back, 0, 8, to, PT, 0, 0, NULL, trigger, 1), PTL_NO_SPACE);
    CHECK_CODE(PtlTriggeredAtomic(md, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0, PTL_SUM,
                                  PTL_UINT64_T, trigger, 1),
               PTL_NO_SPACE);
    CHECK_CODE(PtlTriggeredFetchAtomic(back, 0, md, 0, 8, to, PT, 0, 0, NULL, 0, PTL_SUM,
                                       PTL_UINT64_T, trigger, 1),
               PTL_NO_SPACE);
    CHECK_CODE(PtlTriggeredSwap(back, 0, md, 0, 8, to, PT, 0, 0, NULL, 0, NULL, PTL_SWAP,
                                PTL_UINT64_T, trigger, 1),
               PTL_NO_SPACE);
    CT_IS(other, 0, 0);
    CT_IS(trigger, 0, 0);
    /* What was accepted is done, and then there is space again. */
    increase(1);
    EXPECT_CT(other, (ptl_size_t)limits.max_triggered_ops, 0);
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);
    OK(PtlTriggeredCTInc(other, pair(1, 0), trigger, 2));
    increase(1);
    EXPECT_CT(other, (ptl_size_t)limits.max_triggered_ops + 1, 0);
    /* Cancelling gives space, too. */
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < limits.max_triggered_ops; i++)
            OK(PtlTriggeredCTInc(other, pair(1, 0), trigger, 1000));
        OK(PtlCTCancelTriggered(trigger));
    }
    OK(PtlCTFree(other));
}

/* What arrives triggers the next: a token goes round the ring without anybody's help. */
static void token(void)
{
    enum { PT2 = 9, ROUNDS = 10 };
    ptl_handle_ct_t arrived = CT_NEW();
    PT_NEW(0, PTL_EQ_NONE, PT2);
    ptl_me_t what = entry(NULL, 0, PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM);
    what.ct_handle = arrived;
    ptl_handle_me_t element = APPEND(PT2, &what, PTL_PRIORITY_LIST, NULL);
    for (int i = 1; i <= ROUNDS; i++)
        if (rank != 0 || i < ROUNDS)
            OK(PtlTriggeredPut(md, 0, 0, PTL_NO_ACK_REQ, peers[rank_next()], PT2, 0, 0, NULL, 0,
                               arrived, (ptl_size_t)i));
    BARRIER();
    if (rank == 0)
        OK(PtlPut(md, 0, 0, PTL_NO_ACK_REQ, peers[rank_next()], PT2, 0, 0, NULL, 0));
    EXPECT_CT(arrived, ROUNDS, 0);
    for (int i = 0; i < ROUNDS; i++)
        EXPECT(initiator, PTL_EVENT_SEND);
    BARRIER();
    UNLINK(element);
    OK(PtlCTFree(arrived));
    OK(PtlPTFree(ni, PT2));
}

int main(int argc, char **argv)
{
    test_join(argc, argv);
    ptl_ni_limits_t desired = limits_all(512);
    desired.max_msg_size = MIB;
    test_open(&desired);
    target = EQ_NEW(128), initiator = EQ_NEW(128), trigger = CT_NEW();
    PT_NEW(0, target, PT);
    md = MD_NEW(out, sizeof out, 0, initiator, PTL_CT_NONE);
    back = MD_NEW(got, sizeof got, 0, initiator, PTL_CT_NONE);
    ptl_me_t what = entry(cells, sizeof cells, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    each_kind(false);
    each_kind(true);
    order();
    BARRIER();
    chain();
    BARRIER();
    failures();
    BARRIER();
    cancel();
    BARRIER();
    no_space();
    BARRIER();
    token();
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);
    BARRIER();
    UNLINK(element);
    MD_RELEASE(md);
    MD_RELEASE(back);
    OK(PtlCTFree(trigger));
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    return test_end();
}
