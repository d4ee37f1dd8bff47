/* Gets of many lengths and offsets, from everybody: the bytes, nothing but the bytes, and
 * every field of both sides' events. */
#include "harness.h"

enum { PT = 4, MARGIN = 256 };

static const size_t SIZES[] = {0,    1,     2,     7,     8,       63,      64,     65,
                               1000, 4095,  4096,  4097,  65535,   65536,   65537,  300001,
                               1048576, 1048577, 8388608};

static ptl_handle_eq_t target, initiator;
static uint8_t *in, *out;
static size_t room;

/* Every byte that a rank offers is known by its place alone. */
static uint8_t offered(int who, size_t at) { return (uint8_t)(at * 7 + at / 251 + (size_t)who * 31); }

static void one(int shift, size_t len, size_t local, size_t remote, uint64_t number)
{
    int to = (rank + shift) % nprocs, from = (rank + nprocs - shift) % nprocs;
    size_t before = local < MARGIN ? local : MARGIN;
    static int cookie;
    memset(in + local - before, CANARY, before + len + MARGIN);
    ptl_match_bits_t bits = matching ? number : 0;
    BARRIER();
    ptl_handle_md_t md = MD_NEW(in, room, 0, initiator, PTL_CT_NONE);
    OK(PtlGet(md, local, len, peers[to], PT, bits, remote, &cookie));
    ptl_event_t reply = EXPECT(initiator, PTL_EVENT_REPLY);
    CHECK_EQ(reply.mlength, len);
    CHECK_EQ(reply.remote_offset, remote);
    CHECK(reply.user_ptr == &cookie);
    for (size_t i = 0; i < len; i++)
        if (in[local + i] != offered(to, remote + i))
            FAIL("byte %zu of a get of %zu bytes is wrong", i, len);
    for (size_t i = 1; i <= before; i++)
        CHECK_EQ(in[local - i], CANARY);
    for (size_t i = 0; i < MARGIN; i++)
        CHECK_EQ(in[local + len + i], CANARY);

    ptl_event_t event = EXPECT(target, PTL_EVENT_GET);
    CHECK_FROM(event, from);
    if (matching)
        CHECK_EQ(event.match_bits, bits);
    CHECK_EQ(event.rlength, len);
    CHECK_EQ(event.mlength, len);
    CHECK_EQ(event.remote_offset, remote);
    CHECK(event.start == out + remote);
    CHECK(event.user_ptr == &out);
    CHECK_EQ(event.pt_index, PT);
    CHECK_EQ(event.ptl_list, PTL_PRIORITY_LIST);
    MD_RELEASE(md);
    BARRIER();
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    room = SIZES[ARRAY_COUNT(SIZES) - 1] + 3 * MARGIN;
    in = guarded(room), out = guarded(room);
    for (size_t i = 0; i < room; i++)
        out[i] = offered(rank, i);
    target = EQ_NEW(128), initiator = EQ_NEW(128);
    PT_NEW(0, target, PT);
    ptl_me_t what = entry(out, room, PTL_ME_OP_GET);
    what.ignore_bits = ~(ptl_match_bits_t)0;
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, &out);

    uint64_t number = 1;
    for (int shift = 0; shift < nprocs; shift++)
        for (size_t i = 0; i < ARRAY_COUNT(SIZES); i++) {
            if (SIZES[i] > limits.max_msg_size || (shift > 1 && SIZES[i] > 65536))
                continue;
            one(shift, SIZES[i], 0, 0, number++);
            one(shift, SIZES[i], MARGIN, 5, number++);
            if (SIZES[i] <= 65537) {
                one(shift, SIZES[i], 3, 0, number++);
                one(shift, SIZES[i], 1, 13, number++);
            }
        }
    CHECK_GUARD(in, room);

    /* Many under way at once, each into its own place. */
    enum { FLIGHT = 32, EACH = 5000 };
    memset(in, CANARY, FLIGHT * EACH);
    BARRIER();
    ptl_handle_ct_t ct = CT_NEW();
    ptl_handle_md_t md = MD_NEW(in, room, PTL_MD_EVENT_CT_REPLY, initiator, ct);
    for (int i = 0; i < FLIGHT; i++)
        OK(PtlGet(md, (ptl_size_t)(FLIGHT - 1 - i) * EACH, EACH, peers[rank_next()], PT, 0,
                  (ptl_size_t)i * EACH, (void *)(uintptr_t)(i + 1)));
    EXPECT_CT(ct, FLIGHT, 0);
    unsigned long long seen = 0;
    for (int i = 0; i < FLIGHT; i++) {
        ptl_event_t reply = EXPECT(initiator, PTL_EVENT_REPLY);
        uintptr_t which = (uintptr_t)reply.user_ptr - 1;
        CHECK(which < FLIGHT && !(seen >> which & 1));
        seen |= 1ull << which;
    }
    for (int i = 0; i < FLIGHT; i++)
        for (size_t j = 0; j < EACH; j++)
            if (in[(size_t)(FLIGHT - 1 - i) * EACH + j] !=
                offered(rank_next(), (size_t)i * EACH + j))
                FAIL("byte %zu of get %d is wrong", j, i);
    for (int i = 0; i < FLIGHT; i++)
        EXPECT(target, PTL_EVENT_GET);
    /* What was offered is as it was. */
    for (size_t i = 0; i < room; i++)
        if (out[i] != offered(rank, i))
            FAIL("byte %zu of what is offered was overwritten", i);
    BARRIER();
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);
    MD_RELEASE(md);
    OK(PtlCTFree(ct));
    UNLINK(element);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(in), guarded_free(out);
    return test_end();
}
