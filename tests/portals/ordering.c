/* Messages of one process to another match in the order in which they were sent, whatever
 * their lengths and kinds; and small data is in order, too. */
#include "harness.h"

enum { PT = 4, COUNT = 48, ROUNDS = 4 };

static const size_t LENGTHS[] = {8, 300000, 0, 64, 5000, 1, 70000, 2000, 4096, 40000, 16};

static ptl_handle_eq_t target, initiator;

/* Each message finds the entry of its number, for the entries are taken in their order. */
static void in_entries(int round)
{
    uint8_t *out[COUNT], *in[COUNT];
    size_t len[COUNT];
    uint64_t seed = (uint64_t)round;
    for (int i = 0; i < COUNT; i++) {
        len[i] = LENGTHS[mix64(seed * COUNT + (uint64_t)i) % ARRAY_COUNT(LENGTHS)];
        if (len[i] > limits.max_msg_size)
            len[i] = 64;
        out[i] = guarded(len[i]), in[i] = guarded(len[i]);
        fill(out[i], len[i], seed_of(rank, rank_next(), seed * COUNT + (uint64_t)i));
        ptl_me_t what = entry(in[i], len[i], PTL_ME_OP_PUT | PTL_ME_USE_ONCE |
                                                 PTL_ME_EVENT_UNLINK_DISABLE);
        APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, in[i]);
    }
    ptl_handle_md_t md = MD_NEW(NULL, PTL_SIZE_MAX, PTL_MD_EVENT_SEND_DISABLE, initiator,
                                PTL_CT_NONE);
    BARRIER();
    for (int i = 0; i < COUNT; i++)
        OK(PtlPut(md, (ptl_size_t)(uintptr_t)out[i], len[i], PTL_ACK_REQ, peers[rank_next()], PT, 0,
                  0, NULL, (unsigned)i));
    for (int i = 0; i < COUNT; i++) {
        /* Events may come in another order, but never with another entry's message. */
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
        CHECK(event.hdr_data < COUNT);
        int number = (int)event.hdr_data;
        if (event.user_ptr != in[number])
            FAIL("message %d did not match the entry of its number", number);
        CHECK_EQ(event.rlength, len[number]);
        VERIFY(in[number], len[number],
               seed_of(rank_before(), rank, seed * COUNT + (uint64_t)number));
        CHECK_GUARD(in[number], len[number]);
    }
    for (int i = 0; i < COUNT; i++)
        EXPECT(initiator, PTL_EVENT_ACK);
    MD_RELEASE(md);
    for (int i = 0; i < COUNT; i++)
        guarded_free(in[i]), guarded_free(out[i]);
}

/* Puts, atomics and gets share one order; unexpected ones are found in it. */
static void kinds(void)
{
    static uint64_t pool[8], out[8], back[8];
    ptl_me_t what = entry(pool, sizeof pool, PTL_ME_OP_PUT | PTL_ME_OP_GET |
                                                 PTL_ME_EVENT_COMM_DISABLE);
    ptl_handle_me_t overflow = APPEND_QUIET(PT, &what, PTL_OVERFLOW_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, sizeof out, PTL_MD_EVENT_SEND_DISABLE, initiator, PTL_CT_NONE);
    ptl_handle_md_t into = MD_NEW(back, sizeof back, 0, initiator, PTL_CT_NONE);
    ptl_process_t to = peers[rank_next()];
    BARRIER();
    for (int i = 0; i < 12; i++) {
        if (i % 3 == 0)
            OK(PtlPut(md, 0, 64, PTL_ACK_REQ, to, PT, 0, 0, NULL, (unsigned)i));
        else if (i % 3 == 1)
            OK(PtlAtomic(md, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, (unsigned)i, PTL_SUM,
                         PTL_UINT64_T));
        else
            OK(PtlGet(into, 0, 64, to, PT, 0, 0, NULL));
    }
    for (int i = 0; i < 12; i++)
        CHECK_EQ(NEXT(initiator).ni_fail_type, PTL_NI_OK);
    BARRIER();
    what = entry(pool, sizeof pool, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    for (int i = 0; i < 12; i++) {
        static const int kind[] = {PTL_EVENT_PUT_OVERFLOW, PTL_EVENT_ATOMIC_OVERFLOW,
                                   PTL_EVENT_GET_OVERFLOW};
        ptl_event_t event = EXPECT(target, kind[i % 3]);
        if (i % 3 < 2)
            CHECK_EQ(event.hdr_data, i);
    }
    UNLINK(element);
    UNLINK(overflow);
    MD_RELEASE(md);
    MD_RELEASE(into);
    BARRIER();
}

/* Small writes to one place: the last stays, and a read that follows sees it. */
static void data(void)
{
    static uint64_t cell[16], out[200], back[200];
    ptl_handle_ct_t ct = CT_NEW();
    PT_NEW(0, PTL_EQ_NONE, PT + 1);
    ptl_me_t what = entry(cell, sizeof cell, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND(PT + 1, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, sizeof out, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    ptl_handle_md_t into = MD_NEW(back, sizeof back, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
    ptl_process_t to = peers[rank_next()];
    BARRIER();
    for (ptl_size_t i = 0; i < 200; i++) {
        out[i] = i + 1;
        OK(PtlPut(md, i * 8, 8, PTL_CT_ACK_REQ, to, PT + 1, 0, 0, NULL, 0));
        OK(PtlGet(into, i * 8, 8, to, PT + 1, 0, 0, NULL));
    }
    EXPECT_CT(ct, 400, 0);
    for (uint64_t i = 0; i < 200; i++)
        CHECK_EQ(back[i], i + 1);
    BARRIER();
    CHECK_EQ(cell[0], 200);
    UNLINK(element);
    MD_RELEASE(md);
    MD_RELEASE(into);
    OK(PtlCTFree(ct));
    OK(PtlPTFree(ni, PT + 1));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(256), initiator = EQ_NEW(256);
    PT_NEW(0, target, PT);
    for (int round = 0; round < ROUNDS; round++) {
        BARRIER();
        in_entries(round);
    }
    BARRIER();
    kinds();
    data();
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    return test_end();
}
