/* Messages that come before their entry: the overflow list, what an append then finds, and
 * when the overflow memory is free again. */
#include "harness.h"

enum { PT = 4, LEN = 64, ROOM = 4096 };

static ptl_handle_eq_t target, initiator;
static ptl_handle_md_t md;
static uint8_t *pool, *in;
static uint64_t out[ROOM / 8];
static char mine, theirs;
static unsigned int ops = PTL_ME_OP_PUT | PTL_ME_OP_GET;

static void put(ptl_match_bits_t bits, size_t len, ptl_hdr_data_t data)
{
    OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[rank_next()], PT, matching ? bits : 0, 0, NULL, data));
    PUT_DONE(initiator);
}

static ptl_handle_me_t catcher(size_t len, unsigned int more)
{
    ptl_me_t what = entry(pool, len, ops | more);
    what.ignore_bits = ~(ptl_match_bits_t)0;
    return APPEND_QUIET(PT, &what, PTL_OVERFLOW_LIST, &theirs);
}

static ptl_me_t taker(ptl_match_bits_t bits, unsigned int more)
{
    ptl_me_t what = entry(in, LEN, ops | more);
    what.match_bits = bits;
    return what;
}

/* One header, taken by one entry that is used once. */
static void one(unsigned int more)
{
    ptl_handle_me_t overflow = catcher(ROOM, more);
    BARRIER();
    put(7, 100, 42);
    if (!(more & PTL_ME_EVENT_COMM_DISABLE)) {
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
        CHECK_EQ(event.ptl_list, PTL_OVERFLOW_LIST);
        CHECK(event.user_ptr == &theirs);
        CHECK(event.start == pool);
        CHECK_EQ(event.mlength, 100);
    }
    BARRIER();
    EXPECT_NOTHING(target);
    if (matching) {
        /* Another's bits find nothing. */
        ptl_me_t other = taker(8, PTL_ME_USE_ONCE);
        ptl_handle_me_t element = APPEND(PT, &other, PTL_PRIORITY_LIST, &mine);
        EXPECT(target, PTL_EVENT_LINK);
        UNLINK(element);
    }
    /* Another overflow entry does not search. */
    ptl_me_t what = taker(7, 0);
    ptl_handle_me_t second = APPEND(PT, &what, PTL_OVERFLOW_LIST, &mine);
    EXPECT(target, PTL_EVENT_LINK);
    UNLINK(second);
    /* This one finds it; it is not linked, and says that it is gone. Nobody asks whether the
     * user was admitted. */
    what = taker(7, PTL_ME_USE_ONCE);
    OK(PtlGetUid(ni, &what.uid));
    what.uid++;
    ptl_handle_me_t element = APPEND(PT, &what, PTL_PRIORITY_LIST, &mine);
    ptl_event_t event = EXPECT_BOTH(target, PTL_EVENT_PUT_OVERFLOW, PTL_EVENT_AUTO_UNLINK);
    CHECK(event.user_ptr == &mine);
    CHECK(event.start == pool);
    CHECK_EQ(event.rlength, 100);
    CHECK_EQ(event.mlength, 100);
    CHECK_EQ(event.hdr_data, 42);
    CHECK_FROM(event, rank_before());
    CHECK_EQ(event.pt_index, PT);
    if (matching)
        CHECK_EQ(event.match_bits, 7);
    VERIFY(event.start, 100, seed_of(0, 0, 0));
    EXPECT_NOTHING(target);
    CHECK_CODE(unlink_code(element), PTL_ARG_INVALID);
    BARRIER();
    UNLINK(overflow);
}

/* An entry that stays takes all of them, in the order of their arrival, and is then linked. */
static void several(void)
{
    ptl_handle_me_t overflow = catcher(ROOM, PTL_ME_EVENT_COMM_DISABLE);
    BARRIER();
    for (int i = 0; i < 6; i++)
        put(matching && i % 3 == 2 ? 9 : 7, (size_t)i, (ptl_hdr_data_t)i);
    BARRIER();
    ptl_me_t what = taker(7, 0);
    ptl_handle_me_t element = APPEND(PT, &what, PTL_PRIORITY_LIST, &mine);
    for (int i = 0; i < 6; i++) {
        if (matching && i % 3 == 2)
            continue;
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT_OVERFLOW);
        CHECK_EQ(event.hdr_data, i);
        CHECK_EQ(event.mlength, i);
    }
    EXPECT(target, PTL_EVENT_LINK);
    BARRIER();
    put(7, 8, 77);
    ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
    CHECK_EQ(event.ptl_list, PTL_PRIORITY_LIST);
    CHECK(event.user_ptr == &mine);
    BARRIER();
    UNLINK(element);
    what = taker(9, 0);
    element = APPEND(PT, &what, PTL_PRIORITY_LIST, &mine);
    if (matching) {
        CHECK_EQ(EXPECT(target, PTL_EVENT_PUT_OVERFLOW).hdr_data, 2);
        CHECK_EQ(EXPECT(target, PTL_EVENT_PUT_OVERFLOW).hdr_data, 5);
    }
    EXPECT(target, PTL_EVENT_LINK);
    UNLINK(element);
    UNLINK(overflow);
    BARRIER();
}

/* The overflow memory is free only when it is unlinked and its last header is taken. */
static void freed(void)
{
    ptl_handle_me_t overflow = catcher(ROOM, PTL_ME_USE_ONCE);
    BARRIER();
    put(1, 16, 1);
    ptl_event_t event = EXPECT_BOTH(target, PTL_EVENT_AUTO_UNLINK, PTL_EVENT_PUT);
    CHECK(event.user_ptr == &theirs);
    EXPECT_NOTHING(target);
    CHECK_CODE(unlink_code(overflow), PTL_ARG_INVALID);
    ptl_me_t what = taker(1, PTL_ME_USE_ONCE);
    APPEND(PT, &what, PTL_PRIORITY_LIST, &mine);
    int seen = 0;
    for (int i = 0; i < 3; i++) {
        event = NEXT(target);
        CHECK(!(seen & 1 << event.type));
        seen |= 1 << event.type;
        if (event.type == PTL_EVENT_AUTO_FREE) {
            CHECK(seen & 1 << PTL_EVENT_PUT_OVERFLOW);
            CHECK(event.user_ptr == &theirs);
        } else {
            CHECK(event.user_ptr == &mine);
        }
    }
    CHECK_EQ(seen, 1 << PTL_EVENT_AUTO_FREE | 1 << PTL_EVENT_PUT_OVERFLOW |
                       1 << PTL_EVENT_AUTO_UNLINK);
    if (!matching)
        return;

    /* Two headers in one slab that unlinks when it is nearly full. */
    what = entry(pool, 100, PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL);
    what.ignore_bits = ~(ptl_match_bits_t)0;
    what.min_free = 40;
    APPEND_QUIET(PT, &what, PTL_OVERFLOW_LIST, &theirs);
    BARRIER();
    put(1, 40, 1);
    EXPECT(target, PTL_EVENT_PUT);
    put(2, 40, 2);
    event = EXPECT_BOTH(target, PTL_EVENT_PUT, PTL_EVENT_AUTO_UNLINK);
    CHECK(event.start == pool + 40);
    for (int i = 2; i > 0; i--) {
        EXPECT_NOTHING(target);
        what = taker((ptl_match_bits_t)i, PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE);
        APPEND(PT, &what, PTL_PRIORITY_LIST, &mine);
        event = EXPECT(target, PTL_EVENT_PUT_OVERFLOW);
        CHECK(event.start == pool + 40 * (i - 1));
    }
    event = EXPECT(target, PTL_EVENT_AUTO_FREE);
    CHECK(event.user_ptr == &theirs);
    BARRIER();
}

/* An overflow entry that keeps no headers; elsewhere the option means nothing. */
static void no_headers(void)
{
    ptl_handle_me_t overflow = catcher(ROOM, PTL_ME_UNEXPECTED_HDR_DISABLE);
    BARRIER();
    put(7, 8, 1);
    EXPECT(target, PTL_EVENT_PUT);
    BARRIER();
    ptl_me_t what = taker(7, PTL_ME_UNEXPECTED_HDR_DISABLE);
    ptl_handle_me_t element = APPEND(PT, &what, PTL_PRIORITY_LIST, &mine);
    EXPECT(target, PTL_EVENT_LINK);
    BARRIER();
    put(7, 8, 2);
    EXPECT(target, PTL_EVENT_PUT);
    BARRIER();
    UNLINK(element);
    UNLINK(overflow);
}

/* No event, but counted; also in bytes. */
static void counted(void)
{
    ptl_handle_ct_t ct = CT_NEW();
    ptl_handle_me_t overflow = catcher(ROOM, PTL_ME_EVENT_COMM_DISABLE);
    unsigned int quiet = PTL_ME_EVENT_OVER_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE |
                         PTL_ME_EVENT_CT_OVERFLOW | PTL_ME_USE_ONCE;
    BARRIER();
    put(7, 30, 1);
    put(7, 40, 2);
    put(7, 50, 3);
    BARRIER();
    ptl_me_t what = taker(7, quiet);
    what.ct_handle = ct;
    APPEND(PT, &what, PTL_PRIORITY_LIST, &mine);
    EXPECT_CT(ct, 1, 0);
    what.options |= PTL_ME_EVENT_CT_BYTES;
    APPEND(PT, &what, PTL_PRIORITY_LIST, &mine);
    EXPECT_CT(ct, 41, 0);
    /* Counting communication is not counting this. */
    what.options = ops | PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_UNLINK_DISABLE;
    APPEND(PT, &what, PTL_PRIORITY_LIST, &mine);
    CHECK_EQ(EXPECT(target, PTL_EVENT_PUT_OVERFLOW).hdr_data, 3);
    EXPECT_NOTHING(target);
    CT_IS(ct, 41, 0);
    UNLINK(overflow);
    OK(PtlCTFree(ct));
}

/* Gets and atomics, too, are done with the overflow entry's memory and found later. */
static void others(void)
{
    ptl_handle_me_t overflow = catcher(ROOM, PTL_ME_EVENT_COMM_DISABLE);
    uint64_t *cell = (uint64_t *)(void *)pool;
    cell[0] = 1000, cell[1] = 2000;
    uint64_t got[2] = {0, 0}, add = 5;
    ptl_handle_md_t back = MD_NEW(got, 16, 0, initiator, PTL_CT_NONE);
    ptl_handle_md_t one_md = MD_NEW(&add, 8, PTL_MD_EVENT_SEND_DISABLE, initiator, PTL_CT_NONE);
    ptl_process_t to = peers[rank_next()];
    ptl_match_bits_t bits = matching ? 3 : 0;
    BARRIER();
    OK(PtlGet(back, 0, 16, to, PT, bits, 0, NULL));
    EXPECT(initiator, PTL_EVENT_REPLY);
    CHECK_EQ(got[0], 1000);
    CHECK_EQ(got[1], 2000);
    OK(PtlAtomic(one_md, 0, 8, PTL_ACK_REQ, to, PT, bits, 0, NULL, 2, PTL_SUM, PTL_UINT64_T));
    EXPECT(initiator, PTL_EVENT_ACK);
    OK(PtlFetchAtomic(back, 0, one_md, 0, 8, to, PT, bits, 8, NULL, 3, PTL_SUM, PTL_UINT64_T));
    EXPECT(initiator, PTL_EVENT_REPLY);
    CHECK_EQ(got[0], 2000);
    BARRIER();
    OK(PtlAtomicSync());
    CHECK_EQ(cell[0], 1005);
    CHECK_EQ(cell[1], 2005);
    ptl_me_t what = taker(3, 0);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, &mine);
    CHECK_EQ(EXPECT(target, PTL_EVENT_GET_OVERFLOW).mlength, 16);
    ptl_event_t event = EXPECT(target, PTL_EVENT_ATOMIC_OVERFLOW);
    CHECK_EQ(event.atomic_operation, PTL_SUM);
    CHECK_EQ(event.atomic_type, PTL_UINT64_T);
    CHECK_EQ(event.hdr_data, 2);
    event = EXPECT(target, PTL_EVENT_FETCH_ATOMIC_OVERFLOW);
    CHECK(event.start == &cell[1]);
    UNLINK(element);
    UNLINK(overflow);
    MD_RELEASE(back);
    MD_RELEASE(one_md);
    BARRIER();
}

static void many(void)
{
    int count = limits.max_unexpected_headers < 300 ? limits.max_unexpected_headers : 300;
    ptl_handle_me_t overflow = catcher(8, PTL_ME_EVENT_COMM_DISABLE);
    BARRIER();
    for (int i = 0; i < count; i++)
        put((ptl_match_bits_t)i, 100, (ptl_hdr_data_t)i);
    BARRIER();
    for (int i = 0; i < count; i++) {
        int bits = matching ? count - 1 - i : i;
        ptl_me_t what = taker((ptl_match_bits_t)bits, PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE);
        APPEND(PT, &what, PTL_PRIORITY_LIST, &mine);
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT_OVERFLOW);
        CHECK_EQ(event.hdr_data, bits);
        CHECK_EQ(event.rlength, 100);
        CHECK_EQ(event.mlength, 8);
    }
    UNLINK(overflow);
    BARRIER();
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(512), initiator = EQ_NEW(512);
    pool = guarded(ROOM), in = guarded(LEN);
    fill(out, ROOM, seed_of(0, 0, 0));
    PT_NEW(0, target, PT);
    md = MD_NEW(out, ROOM, 0, initiator, PTL_CT_NONE);
    one(0);
    one(PTL_ME_EVENT_COMM_DISABLE);
    several();
    freed();
    no_headers();
    counted();
    others();
    many();
    EXPECT_NOTHING(target);
    CHECK_GUARD(pool, ROOM);
    CHECK_GUARD(in, LEN);
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(pool), guarded_free(in);
    return test_end();
}
