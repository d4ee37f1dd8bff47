/* I/O vectors on either side and on both, with pieces of odd lengths and empty ones: puts,
 * gets, offsets, truncation, atomics, and a large message over many pieces. */
#include "harness.h"

enum { PT = 4, PIECES = 16 };

static ptl_handle_eq_t target, initiator;

/* A region of `total` bytes in pieces that are apart from one another. */
struct region {
    uint8_t *memory;
    ptl_iovec_t piece[PIECES];
    size_t total;
};

static struct region scatter(size_t total, uint64_t seed)
{
    struct region r = {guarded(2 * total + 64 * PIECES), {{NULL, 0}}, total};
    size_t left = total, at = 0;
    for (int i = 0; i < PIECES; i++) {
        size_t len = i == PIECES - 1 ? left : (size_t)(mix64(seed + (uint64_t)i) % (total / 8 + 2));
        if (i % 5 == 3)
            len = 0;
        if (len > left)
            len = left;
        if (i == PIECES - 1)
            len = left;
        r.piece[i].iov_base = r.memory + at;
        r.piece[i].iov_len = len;
        at += len + 1 + (size_t)i % 7;
        left -= len;
    }
    return r;
}

static uint8_t *place(struct region *r, size_t at)
{
    for (int i = 0; i < PIECES; i++) {
        if (at < r->piece[i].iov_len)
            return (uint8_t *)r->piece[i].iov_base + at;
        at -= r->piece[i].iov_len;
    }
    FAIL("there is no such place");
}

static void region_fill(struct region *r, uint64_t seed)
{
    for (size_t i = 0; i < r->total; i++)
        *place(r, i) = (uint8_t)mix64(seed + i);
}

/* Whether `len` bytes at `at` are those of the seed from `from`, and the rest untouched. */
static void region_check(struct region *r, size_t at, size_t len, uint64_t seed, size_t from)
{
    size_t index = 0;
    uint8_t *next = r->memory;
    for (int i = 0; i < PIECES; i++) {
        uint8_t *base = r->piece[i].iov_base;
        for (; next < base; next++)
            CHECK_EQ(*next, CANARY);
        for (size_t j = 0; j < r->piece[i].iov_len; j++, index++, next++) {
            bool within = index >= at && index < at + len;
            uint8_t expected = within ? (uint8_t)mix64(seed + from + index - at) : CANARY;
            if (*next != expected)
                FAIL("byte %zu of %zu is 0x%02x, expected 0x%02x", index, r->total, *next, expected);
        }
    }
    CHECK_EQ(*next, CANARY);
    CHECK_GUARD(r->memory, 2 * r->total + 64 * PIECES);
}

static void region_clear(struct region *r)
{
    memset(r->memory, CANARY, 2 * r->total + 64 * PIECES);
}

static void one(size_t total, size_t len, size_t local, size_t remote)
{
    struct region in = scatter(total, 100 + total), out = scatter(total, 200 + total);
    size_t done = remote >= total ? 0 : len < total - remote ? len : total - remote;
    uint64_t mine = seed_of(rank, 1, total), theirs = seed_of(rank_before(), 1, total);
    ptl_me_t what = entry(in.piece, PIECES, PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_IOVEC);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out.piece, PIECES, PTL_IOVEC, initiator, PTL_CT_NONE);
    region_fill(&out, mine);
    BARRIER();
    OK(PtlPut(md, local, len, PTL_ACK_REQ, peers[rank_next()], PT, 0, remote, NULL, 0));
    CHECK_EQ(PUT_DONE(initiator).mlength, done);
    CHECK_EQ(EXPECT(target, PTL_EVENT_PUT).mlength, done);
    region_check(&in, remote, done, theirs, local);
    BARRIER();

    region_fill(&in, mine + 1);
    region_clear(&out);
    BARRIER();
    OK(PtlGet(md, local, len, peers[rank_next()], PT, 0, remote, NULL));
    CHECK_EQ(EXPECT(initiator, PTL_EVENT_REPLY).mlength, done);
    EXPECT(target, PTL_EVENT_GET);
    region_check(&out, local, done, seed_of(rank_next(), 1, total) + 1, remote);
    BARRIER();
    MD_RELEASE(md);
    UNLINK(element);
    guarded_free(in.memory), guarded_free(out.memory);
}

/* Items of an atomic that lie in different pieces. */
static void atomics(void)
{
    static uint32_t cells[8], adds[8];
    ptl_iovec_t in[4] = {{&cells[0], 4}, {&cells[2], 8}, {NULL, 0}, {&cells[5], 12}};
    ptl_iovec_t out[3] = {{(char *)adds, 6}, {(char *)adds + 6, 1}, {(char *)adds + 7, 17}};
    for (uint32_t i = 0; i < 8; i++)
        cells[i] = 100 * i, adds[i] = i + 1;
    ptl_me_t what = entry(in, 4, PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_IOVEC);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, 3, PTL_IOVEC, initiator, PTL_CT_NONE);
    BARRIER();
    OK(PtlAtomic(md, 0, 24, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0, PTL_SUM,
                 PTL_UINT32_T));
    CHECK_EQ(PUT_DONE(initiator).mlength, 24);
    CHECK_EQ(EXPECT(target, PTL_EVENT_ATOMIC).mlength, 24);
    OK(PtlAtomicSync());
    static const uint32_t expected[8] = {1, 100, 202, 303, 400, 504, 605, 706};
    for (int i = 0; i < 8; i++)
        CHECK_EQ(cells[i], expected[i]);
    BARRIER();
    UNLINK(element);
    MD_RELEASE(md);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(64), initiator = EQ_NEW(64);
    PT_NEW(0, target, PT);
    if (limits.max_iovecs < PIECES)
        test_skip("fewer elements of an I/O vector than this needs");
    static const size_t totals[] = {1, 17, 100, 4096, 5001, 70000};
    for (size_t i = 0; i < ARRAY_COUNT(totals); i++) {
        size_t total = totals[i];
        one(total, total, 0, 0);
        one(total, total / 2, total / 3, total / 4);
        one(total, total - total / 3, total / 3, total / 2);
        one(total, total, 0, total - 1);
        one(total, total, 0, total);
        one(total, 0, 0, 0);
    }
    if (limits.max_msg_size >= MIB) {
        one(MIB, MIB, 0, 0);
        one(MIB, MIB - 777, 777, 300);
    }
    atomics();
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);

    /* The longest there may be, and one more. */
    int most = limits.max_iovecs < 1000 ? limits.max_iovecs : 1000;
    static uint8_t bytes[1001];
    ptl_iovec_t *each = calloc((size_t)most + 1, sizeof *each);
    for (int i = 0; i <= most; i++)
        each[i].iov_base = &bytes[i], each[i].iov_len = 1;
    ptl_handle_md_t md = MD_NEW(each, (ptl_size_t)most, PTL_IOVEC, initiator, PTL_CT_NONE);
    MD_RELEASE(md);
    if (most == limits.max_iovecs) {
        ptl_md_t long_one = {each, (ptl_size_t)most + 1, PTL_IOVEC, PTL_EQ_NONE, PTL_CT_NONE};
        CHECK_CODE(PtlMDBind(ni, &long_one, &md), PTL_ARG_INVALID);
    }
    free(each);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    return test_end();
}
