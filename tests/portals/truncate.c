/* More than fits: the part that fits is moved and the rest never lands anywhere; beyond the
 * end nothing is; NO_TRUNCATE lets the walk go on. */
#include "harness.h"

enum { PT = 4, LEN = 100 };

static ptl_handle_eq_t target, initiator;
static uint8_t *in, *out;

static void put(size_t len, uint64_t remote, size_t expected)
{
    memset(in, CANARY, LEN);
    fill(out, len, seed_of(rank, rank_next(), len));
    BARRIER();
    ptl_handle_md_t md = MD_NEW(out, len, 0, initiator, PTL_CT_NONE);
    OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[rank_next()], PT, 0, remote, NULL, 0));
    ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
    CHECK_EQ(event.rlength, len);
    CHECK_EQ(event.mlength, expected);
    CHECK_EQ(event.remote_offset, remote);
    if (expected)
        CHECK(event.start == in + remote);
    size_t at = expected ? (size_t)remote : LEN;
    CHECK_UNTOUCHED(in, at);
    VERIFY(in + at, expected, seed_of(rank_before(), rank, len));
    CHECK_UNTOUCHED(in + at + expected, LEN - at - expected);
    ptl_event_t ack = PUT_DONE(initiator);
    CHECK_EQ(ack.mlength, expected);
    MD_RELEASE(md);
    BARRIER();
    CHECK_GUARD(in, LEN);
}

static void get(size_t len, uint64_t remote, size_t expected)
{
    uint8_t *back = guarded(len);
    fill(in, LEN, seed_of(rank, rank, 1));
    BARRIER();
    ptl_handle_md_t md = MD_NEW(back, len, 0, initiator, PTL_CT_NONE);
    OK(PtlGet(md, 0, len, peers[rank_next()], PT, 0, remote, NULL));
    ptl_event_t event = EXPECT(target, PTL_EVENT_GET);
    CHECK_EQ(event.rlength, len);
    CHECK_EQ(event.mlength, expected);
    ptl_event_t reply = EXPECT(initiator, PTL_EVENT_REPLY);
    CHECK_EQ(reply.mlength, expected);
    uint8_t whole[LEN];
    fill(whole, LEN, seed_of(rank_next(), rank_next(), 1));
    if (expected)
        CHECK(memcmp(back, whole + remote, expected) == 0);
    CHECK_UNTOUCHED(back + expected, len - expected);
    CHECK_GUARD(back, len);
    MD_RELEASE(md);
    guarded_free(back);
    BARRIER();
}

/* With NO_TRUNCATE what does not fit goes on to the next entry, also for the offset's sake. */
static void no_truncate(void)
{
    enum { PT2 = 6 };
    PT_NEW(0, target, PT2);
    uint8_t *narrow = guarded(10), *wide = guarded(LEN);
    ptl_me_t first = entry(narrow, 10, PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_NO_TRUNCATE);
    ptl_me_t second = entry(wide, LEN, PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_NO_TRUNCATE);
    ptl_handle_me_t a = APPEND_QUIET(PT2, &first, PTL_PRIORITY_LIST, narrow);
    ptl_handle_me_t b = APPEND_QUIET(PT2, &second, PTL_PRIORITY_LIST, wide);
    ptl_handle_md_t md = MD_NEW(out, LEN, 0, initiator, PTL_CT_NONE);
    struct {
        size_t len, offset;
        uint8_t *where;
    } each[] = {{10, 0, narrow}, {11, 0, wide}, {5, 5, narrow}, {6, 5, wide}, {0, 10, narrow},
                {LEN, 0, wide}, {LEN, 1, NULL}, {1, LEN, NULL}};
    BARRIER();
    for (size_t i = 0; i < ARRAY_COUNT(each); i++) {
        OK(PtlPut(md, 0, each[i].len, PTL_ACK_REQ, peers[rank_next()], PT2, 0, each[i].offset,
                  NULL, 0));
        if (each[i].where) {
            ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
            CHECK(event.user_ptr == each[i].where);
            CHECK_EQ(event.mlength, each[i].len);
            PUT_DONE(initiator);
        } else {
            EXPECT(initiator, PTL_EVENT_SEND);
            EXPECT_FAIL(initiator, PTL_EVENT_ACK, PTL_NI_DROPPED);
        }
    }
    OK(PtlGet(md, 0, 11, peers[rank_next()], PT2, 0, 0, NULL));
    ptl_event_t event = EXPECT(target, PTL_EVENT_GET);
    CHECK(event.user_ptr == wide);
    EXPECT(initiator, PTL_EVENT_REPLY);
    BARRIER();
    CHECK_GUARD(narrow, 10);
    CHECK_GUARD(wide, LEN);
    UNLINK(a);
    UNLINK(b);
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT2));
    guarded_free(narrow), guarded_free(wide);
}

/* An entry without a buffer takes everything as zero bytes. */
static void no_buffer(void)
{
    enum { PT3 = 7 };
    PT_NEW(0, target, PT3);
    ptl_me_t what = entry(NULL, 0, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND_QUIET(PT3, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, 5000, 0, initiator, PTL_CT_NONE);
    BARRIER();
    for (size_t len = 0; len <= 5000; len += 2500) {
        OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[rank_next()], PT3, 0, 0, NULL, 0));
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
        CHECK_EQ(event.rlength, len);
        CHECK_EQ(event.mlength, 0);
        ptl_event_t ack = PUT_DONE(initiator);
        CHECK_EQ(ack.mlength, 0);
        OK(PtlGet(md, 0, len, peers[rank_next()], PT3, 0, 0, NULL));
        EXPECT(target, PTL_EVENT_GET);
        ptl_event_t reply = EXPECT(initiator, PTL_EVENT_REPLY);
        CHECK_EQ(reply.mlength, 0);
    }
    BARRIER();
    UNLINK(element);
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT3));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    size_t largest = limits.max_msg_size < MIB ? (size_t)limits.max_msg_size : MIB;
    target = EQ_NEW(64), initiator = EQ_NEW(64);
    in = guarded(LEN), out = guarded(largest);
    PT_NEW(0, target, PT);
    ptl_me_t what = entry(in, LEN, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    uint64_t far = (uint64_t)1 << 63;
    size_t lengths[] = {1, 50, LEN, LEN + 1, 2 * LEN, 4096, 5000, 65536, 70001, largest};
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
        size_t len = lengths[i];
        put(len, 0, len < LEN ? len : LEN);
        put(len, 60, len < 40 ? len : 40);
        put(len, LEN - 1, 1);
        put(len, LEN, 0);
        put(len, LEN + 1, 0);
        put(len, 1000000, 0);
        put(len, far, 0);
        put(len, PTL_SIZE_MAX, 0);
        get(len, 0, len < LEN ? len : LEN);
        get(len, 99, 1);
        get(len, LEN, 0);
        get(len, far, 0);
        get(len, PTL_SIZE_MAX, 0);
    }
    if (matching)
        no_truncate();
    no_buffer();
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);
    UNLINK(element);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(in), guarded_free(out);
    return test_end();
}
