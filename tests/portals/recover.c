/* Recovery (PTL_RECOVERY, beyond the specification): a program that knows nothing of disabled
 * portal table entries puts to queues that are much too short, and loses nothing. */
#include "harness.h"

enum { PT = 4, ROUNDS = 100, EVENTS = 8 };

static uint64_t out[ROUNDS], in[ROUNDS], sums, before;

/* All ranks, this one too, aim at rank 0, which looks only when it has issued its own. */
static void all_to_one(void)
{
    ptl_handle_eq_t eq = EQ_NEW(EVENTS);
    PT_NEW(PTL_PT_FLOWCTRL, eq, PT);
    ptl_me_t what = entry(in, sizeof in, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_ct_t done;
    OK(PtlCTAlloc(ni, &done));
    ptl_md_t memory = {
        .start = out, .length = sizeof out, .eq_handle = PTL_EQ_NONE, .ct_handle = done,
        .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY,
    };
    ptl_handle_md_t md;
    OK(PtlMDBind(ni, &memory, &md));
    memory = (ptl_md_t){ .start = &before, .length = sizeof before, .eq_handle = PTL_EQ_NONE,
                         .ct_handle = done, .options = PTL_MD_EVENT_CT_REPLY };
    ptl_handle_md_t back;
    OK(PtlMDBind(ni, &memory, &back));
    BARRIER();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        out[i] = 1000 + i;
        OK(PtlPut(md, i * 8, 8, PTL_CT_ACK_REQ, peers[0], PT, 0, i * 8, NULL, 3 * i));
        uint64_t *one = &out[i];
        OK(PtlAtomic(md, (uint64_t)((char *)one - (char *)out), 8, PTL_NO_ACK_REQ, peers[0], PT,
                     0, i * 8, NULL, 3 * i + 1, PTL_MAX, PTL_UINT64_T));
        OK(PtlFetchAtomic(back, 0, md, i * 8, 8, peers[0], PT, 0, i * 8, NULL, 3 * i + 2,
                          PTL_MAX, PTL_UINT64_T));
    }
    if (rank == 0) {
        uint64_t *next = calloc((size_t)nprocs, sizeof *next);
        for (int i = 0; i < nprocs * 3 * ROUNDS; i++) {
            ptl_event_t event = NEXT(eq);
            CHECK(event.type == PTL_EVENT_PUT || event.type == PTL_EVENT_ATOMIC ||
                  event.type == PTL_EVENT_FETCH_ATOMIC);
            CHECK_EQ(event.ni_fail_type, PTL_NI_OK);
            int from = 0;
            while (!same_process(peers[from], event.initiator))
                from++;
            CHECK_EQ(event.hdr_data, next[from]);
            next[from]++;
        }
        for (uint64_t i = 0; i < ROUNDS; i++) {
            CHECK_EQ(in[i], 1000 + i);
            sums += in[i];
        }
        EXPECT_NOTHING(eq);
        free(next);
    }
    ptl_ct_event_t counted;
    OK(PtlCTWait(done, 2 * ROUNDS, &counted));
    CHECK_EQ(counted.success, 2 * ROUNDS);
    CHECK_EQ(counted.failure, 0);
    BARRIER();
    OK(PtlMDRelease(back));
    OK(PtlMDRelease(md));
    OK(PtlCTFree(done));
    UNLINK(element);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(eq));
}

int main(int argc, char **argv)
{
    /* The runner may say which scheme. */
    setenv("PTL_RECOVERY", "1", 0);
    test_begin(argc, argv);
    for (int turn = 0; turn < 3; turn++) {
        memset(in, 0, sizeof in);
        all_to_one();
    }
    return test_end();
}
