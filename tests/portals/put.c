/* Puts of many lengths and offsets, from everybody to everybody: the bytes, nothing but the
 * bytes, and every field of both sides' events. */
#include "harness.h"

enum { PT = 4, MARGIN = 256 };

static const size_t SIZES[] = {0,    1,    2,        7,         8,         63,       64,
                               65,   255,  511,      1000,      4095,      4096,     4097,
                               8191, 65535, 65536,   65537,     300001,    1048576,  1048577,
                               8388608};

static ptl_handle_eq_t target, initiator;
static uint8_t *in, *out;
static size_t room;

static void one(int shift, size_t len, size_t local, size_t remote, uint64_t number)
{
    int to = (rank + shift) % nprocs, from = (rank + nprocs - shift) % nprocs;
    ptl_match_bits_t bits = matching ? 0xabcd000000000000u | number : 0;
    static int cookie;
    memset(in + (remote < MARGIN ? 0 : remote - MARGIN), CANARY,
           len + (remote < MARGIN ? remote : MARGIN) + MARGIN);
    fill(out + local, len, seed_of(rank, to, number));
    BARRIER();
    ptl_handle_md_t md = MD_NEW(out, room, 0, initiator, PTL_CT_NONE);
    OK(PtlPut(md, local, len, PTL_ACK_REQ, peers[to], PT, bits, remote, &cookie, ~number));

    ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
    CHECK_FROM(event, from);
    if (matching)
        CHECK_EQ(event.match_bits, bits);
    CHECK_EQ(event.rlength, len);
    CHECK_EQ(event.mlength, len);
    CHECK_EQ(event.remote_offset, remote);
    CHECK(event.start == in + remote);
    CHECK(event.user_ptr == &in);
    CHECK_EQ(event.hdr_data, ~number);
    CHECK_EQ(event.pt_index, PT);
    CHECK_EQ(event.ptl_list, PTL_PRIORITY_LIST);
    ptl_uid_t uid;
    OK(PtlGetUid(ni, &uid));
    CHECK_EQ(event.uid, uid);
    VERIFY(in + remote, len, seed_of(from, rank, number));
    for (size_t i = 1; i <= MARGIN && i <= remote; i++)
        CHECK_EQ(in[remote - i], CANARY);
    for (size_t i = 0; i < MARGIN; i++)
        CHECK_EQ(in[remote + len + i], CANARY);

    ptl_event_t ack = PUT_DONE(initiator);
    CHECK_EQ(ack.mlength, len);
    CHECK_EQ(ack.remote_offset, remote);
    CHECK(ack.user_ptr == &cookie);
    MD_RELEASE(md);
    BARRIER();
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    size_t largest = SIZES[ARRAY_COUNT(SIZES) - 1];
    room = largest + 3 * MARGIN;
    in = guarded(room), out = guarded(room);
    target = EQ_NEW(64), initiator = EQ_NEW(64);
    PT_NEW(0, target, PT);
    ptl_me_t what = entry(in, room, PTL_ME_OP_PUT);
    what.ignore_bits = ~(ptl_match_bits_t)0;
    ptl_handle_me_t element = APPEND(PT, &what, PTL_PRIORITY_LIST, &in);
    ptl_event_t link = EXPECT(target, PTL_EVENT_LINK);
    CHECK(link.user_ptr == &in);
    CHECK_EQ(link.pt_index, PT);
    CHECK_EQ(link.ptl_list, PTL_PRIORITY_LIST);

    uint64_t number = 1;
    for (int shift = 0; shift < nprocs; shift++)
        for (size_t i = 0; i < ARRAY_COUNT(SIZES); i++) {
            if (SIZES[i] > limits.max_msg_size || (shift > 1 && SIZES[i] > 65536))
                continue;
            one(shift, SIZES[i], 0, 0, number++);
            one(shift, SIZES[i], 0, MARGIN, number++);
            if (SIZES[i] <= 65537) {
                one(shift, SIZES[i], 3, 0, number++);
                one(shift, SIZES[i], 1, 13, number++);
            }
        }
    /* Right up to the end. */
    one(1 % nprocs, 100, room - 100, room - 100 - MARGIN, number++);
    CHECK_GUARD(in, room);
    CHECK_GUARD(out, room);
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);

    /* A flight of them, all under way at once. */
    enum { FLIGHT = 24, EACH = 4096 };
    BARRIER();
    ptl_handle_md_t md = MD_NEW(out, room, 0, initiator, PTL_CT_NONE);
    for (int i = 0; i < FLIGHT; i++) {
        fill(out + i * EACH, EACH, seed_of(rank, rank_next(), (uint64_t)i));
        OK(PtlPut(md, (ptl_size_t)i * EACH, EACH, PTL_ACK_REQ, peers[rank_next()], PT, 0,
                  (ptl_size_t)i * EACH, NULL, (uint64_t)i));
    }
    for (int i = 0; i < FLIGHT; i++) {
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
        VERIFY(in + event.remote_offset, EACH, seed_of(rank_before(), rank, event.hdr_data));
    }
    int sends = 0, acks = 0;
    for (int i = 0; i < 2 * FLIGHT; i++) {
        ptl_event_t event = NEXT(initiator);
        sends += event.type == PTL_EVENT_SEND;
        acks += event.type == PTL_EVENT_ACK;
        CHECK(acks <= sends);
        CHECK_EQ(event.ni_fail_type, PTL_NI_OK);
    }
    CHECK_EQ(sends, FLIGHT);
    CHECK_EQ(acks, FLIGHT);
    MD_RELEASE(md);
    UNLINK(element);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(in), guarded_free(out);
    return test_end();
}
