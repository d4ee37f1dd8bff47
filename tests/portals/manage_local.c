/* Offsets that the target manages: one for puts and gets, min_free, alignment as the
 * implementation likes it, and headers that came before. */
#include "harness.h"

enum { PT = 4, LEN = 100, OUT = 200 };

static ptl_handle_eq_t target, initiator;
static ptl_handle_md_t md;
static uint8_t *in, *out;

static ptl_me_t local(unsigned int options, size_t min_free)
{
    ptl_me_t what = entry(in, LEN, PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_MANAGE_LOCAL | options);
    what.min_free = min_free;
    return what;
}

/* A put whose offset must not matter; gives the target's event. */
static ptl_event_t put(size_t len, size_t at, size_t expected)
{
    static uint64_t number;
    number++;
    fill(out, len, seed_of(rank, rank_next(), number));
    BARRIER();
    OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[rank_next()], PT, 0, 12345, NULL, 0));
    ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
    CHECK_EQ(event.rlength, len);
    CHECK_EQ(event.mlength, expected);
    CHECK_EQ(event.remote_offset, 12345);
    if (expected) {
        CHECK(event.start == in + at);
        VERIFY(in + at, expected, seed_of(rank_before(), rank, number));
    }
    ptl_event_t ack = PUT_DONE(initiator);
    CHECK_EQ(ack.mlength, expected);
    if (expected)
        CHECK_EQ(ack.remote_offset, at);
    CHECK_GUARD(in, LEN);
    BARRIER();
    return event;
}

static void get(size_t len, size_t at, size_t expected)
{
    BARRIER();
    memset(out, 0, OUT);
    OK(PtlGet(md, 0, len, peers[rank_next()], PT, 0, 777, NULL));
    ptl_event_t event = EXPECT(target, PTL_EVENT_GET);
    CHECK_EQ(event.mlength, expected);
    ptl_event_t reply = EXPECT(initiator, PTL_EVENT_REPLY);
    CHECK_EQ(reply.mlength, expected);
    if (expected) {
        CHECK(event.start == in + at);
        CHECK_EQ(reply.remote_offset, at);
    }
    BARRIER();
}

static void put_dropped(size_t len)
{
    BARRIER();
    OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
    EXPECT(initiator, PTL_EVENT_SEND);
    EXPECT_FAIL(initiator, PTL_EVENT_ACK, PTL_NI_DROPPED);
    BARRIER();
}

static void one_offset(void)
{
    ptl_me_t what = local(0, 0);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    put(10, 0, 10);
    get(20, 10, 20);
    put(0, 30, 0);
    put(30, 30, 30);
    get(5, 60, 5);
    /* Truncated: what is left is 35. */
    put(50, 65, 35);
    /* Nothing is left, but min_free of zero lets it stay. */
    put(1, 100, 0);
    get(7, 100, 0);
    put(0, 100, 0);
    UNLINK(element);
}

static void min_free(void)
{
    ptl_me_t what = local(0, 30);
    APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, in);
    put(40, 0, 40);
    /* Exactly as much as must be free is enough. */
    put(30, 40, 30);
    put(0, 70, 0);
    EXPECT_NOTHING(target);
    put(1, 70, 1);
    ptl_event_t event = EXPECT(target, PTL_EVENT_AUTO_UNLINK);
    CHECK(event.user_ptr == in);
    put_dropped(1);

    /* A get may be the last, too. */
    what = local(0, 100);
    APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    get(1, 0, 1);
    EXPECT(target, PTL_EVENT_AUTO_UNLINK);

    /* The next in the list takes over where the first ends. */
    what = local(PTL_ME_NO_TRUNCATE, 0);
    ptl_handle_me_t first = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, in);
    what = local(0, 0);
    ptl_handle_me_t second = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, out);
    CHECK(put(60, 0, 60).user_ptr == in);
    CHECK(put(60, 0, 60).user_ptr == out);
    CHECK(put(40, 60, 40).user_ptr == in);
    UNLINK(first);
    UNLINK(second);
}

static void may_align(void)
{
    ptl_me_t what = local(PTL_ME_MAY_ALIGN, 0);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    uint8_t *end = in;
    for (int i = 0; i < 3; i++) {
        fill(out, 9, seed_of(rank, rank_next(), (uint64_t)i));
        BARRIER();
        OK(PtlPut(md, 0, 9, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
        ptl_event_t ack = PUT_DONE(initiator);
        uint8_t *start = event.start;
        CHECK(start >= end && start <= in + LEN);
        CHECK_EQ(ack.mlength, 9);
        VERIFY(start, event.mlength, seed_of(rank_before(), rank, (uint64_t)i));
        end = start + event.mlength;
        CHECK(end <= in + LEN);
        BARRIER();
    }
    CHECK_GUARD(in, LEN);
    UNLINK(element);
}

/* Headers that came before move the offset by what they asked for. */
static void headers_before(size_t min, unsigned int more, int headers, int taken, bool links)
{
    ptl_me_t catcher = entry(NULL, 0, PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE);
    ptl_handle_me_t overflow = APPEND_QUIET(PT, &catcher, PTL_OVERFLOW_LIST, NULL);
    BARRIER();
    for (int i = 0; i < headers; i++) {
        OK(PtlPut(md, 0, 16, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, (unsigned)i));
        CHECK_EQ(PUT_DONE(initiator).mlength, 0);
    }
    BARRIER();
    ptl_me_t what = local(more, min);
    ptl_handle_me_t element = APPEND(PT, &what, PTL_PRIORITY_LIST, in);
    for (int i = 0; i < taken; i++) {
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT_OVERFLOW);
        CHECK_EQ(event.rlength, 16);
        CHECK_EQ(event.mlength, 0);
        CHECK_EQ(event.hdr_data, i);
        CHECK(event.user_ptr == in);
    }
    if (links) {
        EXPECT(target, PTL_EVENT_LINK);
        size_t at = more & PTL_ME_LOCAL_INC_UH_RLENGTH ? (size_t)taken * 16 : 0;
        put(8, at, 8);
        if (LEN - at - 8 < min)
            EXPECT(target, PTL_EVENT_AUTO_UNLINK);
        else
            UNLINK(element);
    } else {
        ptl_event_t event = EXPECT(target, PTL_EVENT_AUTO_UNLINK);
        CHECK(event.user_ptr == in);
        EXPECT_NOTHING(target);
        CHECK_CODE(unlink_code(element), PTL_ARG_INVALID);
    }
    /* What it did not take is still there. */
    ptl_me_t seek = entry(NULL, 0, PTL_ME_OP_PUT | PTL_ME_USE_ONCE);
    for (int i = taken; i < headers; i++) {
        SEARCH(PT, &seek, PTL_SEARCH_DELETE, NULL);
        CHECK_EQ(EXPECT(target, PTL_EVENT_PUT_OVERFLOW).hdr_data, i);
    }
    SEARCH(PT, &seek, PTL_SEARCH_DELETE, NULL);
    EXPECT_FAIL(target, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH);
    BARRIER();
    UNLINK(overflow);
}

int main(int argc, char **argv)
{
    test_join(argc, argv);
    if (!matching)
        test_skip("offsets are managed only where there is matching");
    test_open(NULL);
    target = EQ_NEW(64), initiator = EQ_NEW(64);
    in = guarded(LEN), out = guarded(OUT);
    PT_NEW(0, target, PT);
    md = MD_NEW(out, OUT, 0, initiator, PTL_CT_NONE);
    one_offset();
    min_free();
    may_align();
    headers_before(0, 0, 3, 3, true);
    headers_before(0, PTL_ME_LOCAL_INC_UH_RLENGTH, 3, 3, true);
    headers_before(52, PTL_ME_LOCAL_INC_UH_RLENGTH, 3, 3, true);
    headers_before(53, PTL_ME_LOCAL_INC_UH_RLENGTH, 3, 3, false);
    headers_before(60, PTL_ME_LOCAL_INC_UH_RLENGTH, 5, 3, false);
    headers_before(0, PTL_ME_LOCAL_INC_UH_RLENGTH | PTL_ME_MAY_ALIGN, 3, 3, true);
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(in), guarded_free(out);
    return test_end();
}
