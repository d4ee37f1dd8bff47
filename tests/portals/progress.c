/* Progress without calls: operations complete while their target waits in a barrier, sleeps or
 * computes. Whether they did is asked before the target calls Portals again. */
#include "harness.h"

enum { PT = 4, TURNS = 6 };

static ptl_handle_eq_t initiator;
static ptl_handle_ct_t ct;
static uint8_t *in, *out, *back;
static size_t room;

static void operate(int to, size_t len)
{
    ptl_handle_md_t md = MD_NEW(out, room, PTL_MD_EVENT_SEND_DISABLE, initiator, PTL_CT_NONE);
    ptl_handle_md_t into = MD_NEW(back, room, PTL_MD_EVENT_CT_REPLY, initiator, ct);
    fill(out, len, seed_of(rank, to, len));
    ptl_size_t at = (ptl_size_t)rank * room;
    OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[to], PT, 0, at, NULL, 0));
    CHECK_EQ(EXPECT(initiator, PTL_EVENT_ACK).mlength, len);
    memset(back, 0, len);
    OK(PtlGet(into, 0, len, peers[to], PT, 0, at, NULL));
    CHECK_EQ(EXPECT(initiator, PTL_EVENT_REPLY).mlength, len);
    VERIFY(back, len, seed_of(rank, to, len));
    OK(PtlAtomic(md, 0, 8, PTL_ACK_REQ, peers[to], PT, 0, at, NULL, 0, PTL_BXOR, PTL_UINT64_T));
    EXPECT(initiator, PTL_EVENT_ACK);
    MD_RELEASE(md);
    MD_RELEASE(into);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    room = limits.max_msg_size < MIB ? (size_t)limits.max_msg_size : MIB;
    in = calloc((size_t)nprocs, room), out = guarded(room), back = guarded(room);
    initiator = EQ_NEW(64), ct = CT_NEW();
    PT_NEW(0, PTL_EQ_NONE, PT);
    ptl_me_t what = entry(in, (size_t)nprocs * room, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND(PT, &what, PTL_PRIORITY_LIST, NULL);
    static const size_t lengths[] = {8, 4096, 70000, 1048576};
    BARRIER();
    /* One after another is the target; it does nothing that would help. */
    for (int who = 0; who < nprocs; who++)
        for (int turn = 0; turn < TURNS; turn++) {
            if (rank != who || nprocs == 1) {
                for (size_t i = 0; i < ARRAY_COUNT(lengths); i++)
                    if (lengths[i] <= room)
                        operate(who, lengths[i]);
            } else if (turn == 1) {
                spin_ms(100);
            } else if (turn == 2) {
                sleep_ms(100);
            }
            BARRIER();
        }

    /* A triggered operation goes off, and its chain runs, while everybody is elsewhere. */
    ptl_handle_ct_t arrived = CT_NEW();
    PT_NEW(0, PTL_EQ_NONE, PT + 1);
    what = entry(NULL, 0, PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM);
    what.ct_handle = arrived;
    ptl_handle_me_t bell = APPEND(PT + 1, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, room, 0, PTL_EQ_NONE, PTL_CT_NONE);
    for (int i = 1; i <= 5; i++)
        if (rank != 0 || i < 5)
            OK(PtlTriggeredPut(md, 0, 0, PTL_NO_ACK_REQ, peers[rank_next()], PT + 1, 0, 0, NULL, 0,
                               arrived, (ptl_size_t)i));
    BARRIER();
    if (rank == 0) {
        OK(PtlPut(md, 0, 0, PTL_NO_ACK_REQ, peers[rank_next()], PT + 1, 0, 0, NULL, 0));
        EXPECT_CT(arrived, 5, 0);
    }
    BARRIER();
    EXPECT_CT(arrived, 5, 0);
    UNLINK(bell);
    UNLINK(element);
    MD_RELEASE(md);
    OK(PtlCTFree(arrived));
    OK(PtlCTFree(ct));
    OK(PtlPTFree(ni, PT));
    OK(PtlPTFree(ni, PT + 1));
    OK(PtlEQFree(initiator));
    guarded_free(out), guarded_free(back), free(in);
    return test_end();
}
