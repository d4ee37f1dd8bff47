/* Searches of the unexpected headers: looking only, taking, one or all, and nothing found. */
#include "harness.h"

enum { PT = 4, ROOM = 1024 };

static ptl_handle_eq_t target, initiator;
static ptl_handle_md_t md;
static uint8_t pool[ROOM], out[ROOM];
static char mine;
static ptl_handle_me_t overflow;

static void send(int count)
{
    BARRIER();
    for (int i = 0; i < count; i++) {
        OK(PtlPut(md, 0, 20, PTL_ACK_REQ, peers[rank_next()], PT, matching ? 7 : 0, 0, NULL,
                  (ptl_hdr_data_t)i));
        PUT_DONE(initiator);
    }
    BARRIER();
}

static ptl_me_t seeker(ptl_match_bits_t bits, unsigned int options)
{
    ptl_me_t what = entry(NULL, 0, PTL_ME_OP_PUT | options);
    what.match_bits = bits;
    return what;
}

static void nothing(const ptl_me_t *what, ptl_search_op_t op)
{
    SEARCH(PT, what, op, &mine);
    ptl_event_t event = EXPECT_FAIL(target, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH);
    CHECK(event.user_ptr == &mine);
}

static void found(int kind, int data)
{
    ptl_event_t event = EXPECT(target, kind);
    CHECK(event.user_ptr == &mine);
    CHECK_EQ(event.hdr_data, data);
    CHECK_EQ(event.rlength, 20);
    CHECK_EQ(event.mlength, 20);
    CHECK(event.start == pool);
    CHECK_EQ(event.pt_index, PT);
    CHECK_FROM(event, rank_before());
    if (matching)
        CHECK_EQ(event.match_bits, 7);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(128), initiator = EQ_NEW(128);
    PT_NEW(0, target, PT);
    md = MD_NEW(out, ROOM, 0, initiator, PTL_CT_NONE);
    ptl_me_t what = entry(pool, ROOM, PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE);
    what.ignore_bits = ~(ptl_match_bits_t)0;
    overflow = APPEND_QUIET(PT, &what, PTL_OVERFLOW_LIST, NULL);
    ptl_me_t once = seeker(7, PTL_ME_USE_ONCE), all = seeker(7, 0), other = seeker(8, PTL_ME_USE_ONCE);

    /* Nothing there. */
    nothing(&once, PTL_SEARCH_ONLY);
    nothing(&once, PTL_SEARCH_DELETE);
    nothing(&all, PTL_SEARCH_ONLY);
    nothing(&all, PTL_SEARCH_DELETE);

    /* Looking changes nothing; taking takes the oldest. */
    send(3);
    for (int i = 0; i < 3; i++) {
        SEARCH(PT, &once, PTL_SEARCH_ONLY, &mine);
        found(PTL_EVENT_SEARCH, 0);
    }
    EXPECT_NOTHING(target);
    if (matching) {
        nothing(&other, PTL_SEARCH_ONLY);
        nothing(&other, PTL_SEARCH_DELETE);
        ptl_me_t wild = other;
        wild.ignore_bits = 0xf;
        SEARCH(PT, &wild, PTL_SEARCH_ONLY, &mine);
        found(PTL_EVENT_SEARCH, 0);
        ptl_me_t sourced = once;
        sourced.match_id = peers[rank_before()];
        SEARCH(PT, &sourced, PTL_SEARCH_ONLY, &mine);
        found(PTL_EVENT_SEARCH, 0);
        if (nprocs > 1) {
            sourced.match_id = peers[rank];
            nothing(&sourced, PTL_SEARCH_ONLY);
        }
    }
    for (int i = 0; i < 3; i++) {
        SEARCH(PT, &once, PTL_SEARCH_DELETE, &mine);
        found(PTL_EVENT_PUT_OVERFLOW, i);
    }
    nothing(&once, PTL_SEARCH_DELETE);

    /* One that would stay finds each. It is never linked. */
    send(3);
    SEARCH(PT, &all, PTL_SEARCH_ONLY, &mine);
    for (int i = 0; i < 3; i++)
        found(PTL_EVENT_SEARCH, i);
    EXPECT_NOTHING(target);
    SEARCH(PT, &all, PTL_SEARCH_DELETE, &mine);
    for (int i = 0; i < 3; i++)
        found(PTL_EVENT_PUT_OVERFLOW, i);
    EXPECT_NOTHING(target);
    send(1);
    SEARCH(PT, &once, PTL_SEARCH_DELETE, &mine);
    found(PTL_EVENT_PUT_OVERFLOW, 0);

    /* Counted without an event, and no register moves, whatever it may not do. */
    int registers[] = {sr_value(PTL_SR_DROP_COUNT), sr_value(PTL_SR_PERMISSION_VIOLATIONS),
                       sr_value(PTL_SR_OPERATION_VIOLATIONS)};
    send(4);
    ptl_handle_ct_t ct = CT_NEW();
    ptl_me_t counted = seeker(7, PTL_ME_USE_ONCE | PTL_ME_EVENT_OVER_DISABLE |
                                     PTL_ME_EVENT_CT_OVERFLOW);
    counted.ct_handle = ct;
    SEARCH(PT, &counted, PTL_SEARCH_DELETE, &mine);
    EXPECT_CT(ct, 1, 0);
    EXPECT_NOTHING(target);
    counted.options |= PTL_ME_EVENT_CT_BYTES;
    SEARCH(PT, &counted, PTL_SEARCH_DELETE, &mine);
    EXPECT_CT(ct, 21, 0);
    EXPECT_NOTHING(target);
    ptl_me_t barred = seeker(7, PTL_ME_USE_ONCE);
    barred.options &= ~(unsigned int)PTL_ME_OP_PUT;
    OK(PtlGetUid(ni, &barred.uid));
    barred.uid++;
    SEARCH(PT, &barred, PTL_SEARCH_DELETE, &mine);
    found(PTL_EVENT_PUT_OVERFLOW, 2);
    SEARCH(PT, &barred, PTL_SEARCH_DELETE, &mine);
    found(PTL_EVENT_PUT_OVERFLOW, 3);
    nothing(&barred, PTL_SEARCH_DELETE);
    nothing(&barred, PTL_SEARCH_ONLY);
    CHECK_EQ(sr_value(PTL_SR_DROP_COUNT), registers[0]);
    CHECK_EQ(sr_value(PTL_SR_PERMISSION_VIOLATIONS), registers[1]);
    CHECK_EQ(sr_value(PTL_SR_OPERATION_VIOLATIONS), registers[2]);

    /* A table entry without a queue: it works and says nothing. */
    PT_NEW(0, PTL_EQ_NONE, PT + 1);
    SEARCH(PT + 1, &once, PTL_SEARCH_ONLY, NULL);
    SEARCH(PT + 1, &once, PTL_SEARCH_DELETE, NULL);
    OK(PtlPTFree(ni, PT + 1));

    BARRIER();
    EXPECT_NOTHING(target);
    UNLINK(overflow);
    OK(PtlCTFree(ct));
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    return test_end();
}
