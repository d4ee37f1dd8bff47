/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Two processes: each puts a greeting into the other's memory, then gets the
 * other's rank from there. As README.md shows it. */
#include <portals4.h>
#include <sluice_job.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(call)                                                                   \
    do {                                                                           \
        int code_ = (call);                                                        \
        if (code_ != PTL_OK) {                                                     \
            fprintf(stderr, "%s: %d %s\n", #call, code_, SluiceJobError());        \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

struct board {
    char greeting[56];
    long rank;
};

int main(void)
{
    int rank, size;
    OK(SluiceJobInit(&rank, &size));
    OK(PtlInit());
    ptl_handle_ni_t ni;
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &ni));
    OK(SluiceJobMap(ni));

    /* What the others may reach: this board, through portal table entry 7. */
    struct board mine = {.rank = rank};
    ptl_handle_ct_t arrived, done;
    OK(PtlCTAlloc(ni, &arrived));
    OK(PtlCTAlloc(ni, &done));
    ptl_pt_index_t pt;
    OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 7, &pt));
    ptl_me_t me = {
        .start = &mine,
        .length = sizeof mine,
        .ct_handle = arrived,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_CT_COMM,
        .match_id.rank = PTL_RANK_ANY,
        .match_bits = 42,
    };
    ptl_handle_me_t entry;
    OK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
    OK(SluiceJobBarrier());

    /* What this process sends from and receives into. */
    struct board local;
    snprintf(local.greeting, sizeof local.greeting, "hello from rank %d of %d", rank, size);
    ptl_md_t md = {
        .start = &local,
        .length = sizeof local,
        .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY,
        .eq_handle = PTL_EQ_NONE,
        .ct_handle = done,
    };
    ptl_handle_md_t memory;
    OK(PtlMDBind(ni, &md, &memory));

    ptl_process_t other = {.rank = (ptl_rank_t)((rank + 1) % size)};
    OK(PtlPut(memory, 0, sizeof local.greeting, PTL_CT_ACK_REQ, other, pt, 42, 0, NULL, 0));
    OK(PtlGet(memory, offsetof(struct board, rank), sizeof local.rank, other, pt, 42,
              offsetof(struct board, rank), NULL));
    ptl_ct_event_t count;
    OK(PtlCTWait(done, 2, &count));    /* the acknowledgment and the reply */
    OK(PtlCTWait(arrived, 2, &count)); /* the other's put and get */
    printf("rank %d: \"%s\"; its neighbour is rank %ld\n", rank, mine.greeting, local.rank);

    OK(SluiceJobBarrier());
    OK(PtlMDRelease(memory));
    OK(PtlMEUnlink(entry));
    OK(PtlNIFini(ni));
    PtlFini();
    OK(SluiceJobFini());
    return count.failure != 0;
}
