/* More processes than cores: everybody with everybody, in lockstep and all at once. */
#include "harness.h"

enum { PT = 4, ROUNDS = 20, LEN = 3000 };

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    ptl_handle_eq_t target = EQ_NEW(4096), initiator = EQ_NEW(4096);
    uint8_t *in = guarded((size_t)nprocs * LEN), *out = guarded((size_t)nprocs * LEN);
    PT_NEW(0, target, PT);
    ptl_me_t what = entry(in, (size_t)nprocs * LEN, PTL_ME_OP_PUT);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, (size_t)nprocs * LEN, PTL_MD_EVENT_SEND_DISABLE, initiator,
                                PTL_CT_NONE);
    for (int round = 0; round < ROUNDS; round++) {
        size_t len = round % 3 == 0 ? 8 : round % 3 == 1 ? 500 : LEN;
        for (int to = 0; to < nprocs; to++)
            fill(out + to * LEN, len, seed_of(rank, to, (uint64_t)round));
        BARRIER();
        for (int i = 0; i < nprocs; i++) {
            int to = (rank + i) % nprocs;
            OK(PtlPut(md, (ptl_size_t)to * LEN, len, PTL_ACK_REQ, peers[to], PT, 0,
                      (ptl_size_t)rank * LEN, NULL, (ptl_hdr_data_t)rank));
        }
        for (int i = 0; i < nprocs; i++) {
            ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
            CHECK(event.hdr_data < (ptl_hdr_data_t)nprocs);
            CHECK_FROM(event, event.hdr_data);
            VERIFY(in + event.hdr_data * LEN, len,
                   seed_of((int)event.hdr_data, rank, (uint64_t)round));
        }
        for (int i = 0; i < nprocs; i++)
            EXPECT(initiator, PTL_EVENT_ACK);
    }

    /* A message that each hands on, one at a time: a wait must not cost a time slice. */
    ptl_handle_ct_t ct = CT_NEW();
    PT_NEW(0, PTL_EQ_NONE, PT + 1);
    what = entry(NULL, 0, PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM);
    what.ct_handle = ct;
    ptl_handle_me_t bell = APPEND(PT + 1, &what, PTL_PRIORITY_LIST, NULL);
    BARRIER();
    for (int round = 1; round <= 50; round++) {
        if (rank == 0)
            OK(PtlPut(md, 0, 0, PTL_NO_ACK_REQ, peers[rank_next()], PT + 1, 0, 0, NULL, 0));
        EXPECT_CT(ct, (ptl_size_t)round, 0);
        if (rank != 0)
            OK(PtlPut(md, 0, 0, PTL_NO_ACK_REQ, peers[rank_next()], PT + 1, 0, 0, NULL, 0));
    }
    BARRIER();
    UNLINK(bell);
    UNLINK(element);
    MD_RELEASE(md);
    OK(PtlCTFree(ct));
    OK(PtlPTFree(ni, PT));
    OK(PtlPTFree(ni, PT + 1));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(in), guarded_free(out);
    return test_end();
}
