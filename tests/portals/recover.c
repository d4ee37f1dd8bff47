/* Recovery (PTL_RECOVERY, beyond the specification): a program that knows nothing of disabled
 * portal table entries puts to queues that are much too short, and loses nothing. */
#include "harness.h"

enum { PT = 4, ROUNDS = 100, EVENTS = 8 };

static uint64_t out[ROUNDS], in[ROUNDS], sums, before;

/* Operations that this process has refused. */
static uint64_t refused(void) { return (uint64_t)sr_value(PTL_SR_DROP_COUNT); }

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
    uint64_t refused_before = refused();
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
        /* Else nothing has been tried. */
        CHECK(refused() > refused_before);
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

enum { ENTRIES = 3, EACH = 60, BEFORE = 7 };

/* The paper's scheme stops all that a process sends to rank 0 until one entry has places
 * again, so rank 0 must look at all of them. */
static bool one_at_a_time(void) { return strcmp(getenv("PTL_RECOVERY"), "pause") != 0; }

/* Takes what all ranks have done to entries of these queues: in order, each once. */
static void take_all(ptl_handle_eq_t *eq, int count)
{
    uint64_t *next = calloc((size_t)(nprocs * count), sizeof *next);
    for (int i = 0; i < nprocs * count * EACH; i++) {
        ptl_event_t event;
        unsigned int which = 0;
        OK(PtlEQPoll(eq, (unsigned int)count, 20000, &event, &which));
        CHECK_EQ(event.ni_fail_type, PTL_NI_OK);
        int who = 0;
        while (!same_process(peers[who], event.initiator))
            who++;
        uint64_t *number = &next[(int)which * nprocs + who];
        CHECK_EQ(event.remote_offset / 8 - (uint64_t)who * EACH, *number);
        (*number)++;
    }
    for (int at = 0; at < count; at++)
        EXPECT_NOTHING(eq[at]);
    free(next);
}

/* Several entries of rank 0, each with a short queue of its own, run out at once: of puts,
 * atomic operations with and without answers, swaps and gets, issued at once or triggered.
 * Rank 0 looks at the last entry first. */
static void entries_at_once(bool is_triggered)
{
    size_t cells = (size_t)nprocs * EACH;
    uint64_t *memory[ENTRIES], values[EACH], got[ENTRIES][EACH];
    ptl_handle_eq_t eq[ENTRIES];
    ptl_handle_me_t element[ENTRIES];
    for (int at = 0; at < ENTRIES; at++) {
        memory[at] = malloc(cells * 8);
        for (size_t i = 0; i < cells; i++)
            memory[at][i] = BEFORE;
        eq[at] = EQ_NEW(2 + at);
        PT_NEW(PTL_PT_FLOWCTRL, eq[at], PT + at);
        ptl_me_t what = entry(memory[at], cells * 8, PTL_ME_OP_PUT | PTL_ME_OP_GET);
        element[at] = APPEND_QUIET(PT + at, &what, PTL_PRIORITY_LIST, NULL);
    }
    ptl_handle_ct_t done = CT_NEW(), start = CT_NEW();
    ptl_handle_md_t from =
        MD_NEW(values, sizeof values, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, done);
    ptl_handle_md_t back = MD_NEW(got, sizeof got, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, done);
    for (uint64_t i = 0; i < EACH; i++)
        values[i] = 1000 + i;
    memset(got, 0, sizeof got);
    uint64_t refused_before = refused();
    BARRIER();
    ptl_process_t to = peers[0];
    for (uint64_t i = 0; i < EACH; i++) {
        for (unsigned int at = 0; at < ENTRIES; at++) {
            uint64_t there = ((uint64_t)rank * EACH + i) * 8, here = i * 8;
            uint64_t into = (at * EACH + i) * 8;
            ptl_pt_index_t pt = PT + at;
            switch ((is_triggered ? 5 : 0) + i % 5) {
            case 0:
                OK(PtlPut(from, here, 8, PTL_CT_ACK_REQ, to, pt, 0, there, NULL, i));
                break;
            case 1:
                OK(PtlAtomic(from, here, 8, PTL_CT_ACK_REQ, to, pt, 0, there, NULL, i, PTL_SUM,
                             PTL_UINT64_T));
                break;
            case 2:
                OK(PtlFetchAtomic(back, into, from, here, 8, to, pt, 0, there, NULL, i, PTL_SUM,
                                  PTL_UINT64_T));
                break;
            case 3:
                OK(PtlSwap(back, into, from, here, 8, to, pt, 0, there, NULL, i, NULL, PTL_SWAP,
                           PTL_UINT64_T));
                break;
            case 4:
                OK(PtlGet(back, into, 8, to, pt, 0, there, NULL));
                break;
            case 5:
                OK(PtlTriggeredPut(from, here, 8, PTL_CT_ACK_REQ, to, pt, 0, there, NULL, i,
                                   start, 1));
                break;
            case 6:
                OK(PtlTriggeredAtomic(from, here, 8, PTL_CT_ACK_REQ, to, pt, 0, there, NULL, i,
                                      PTL_SUM, PTL_UINT64_T, start, 1));
                break;
            case 7:
                OK(PtlTriggeredFetchAtomic(back, into, from, here, 8, to, pt, 0, there, NULL, i,
                                           PTL_SUM, PTL_UINT64_T, start, 1));
                break;
            case 8:
                OK(PtlTriggeredSwap(back, into, from, here, 8, to, pt, 0, there, NULL, i, NULL,
                                    PTL_SWAP, PTL_UINT64_T, start, 1));
                break;
            case 9:
                OK(PtlTriggeredGet(back, into, 8, to, pt, 0, there, NULL, start, 1));
                break;
            }
        }
    }
    ptl_ct_event_t one = { .success = 1, .failure = 0 };
    OK(PtlCTInc(start, one));
    if (rank == 0 && !one_at_a_time())
        take_all(eq, ENTRIES);
    for (int at = ENTRIES - 1; rank == 0 && one_at_a_time() && at >= 0; at--)
        take_all(&eq[at], 1);
    EXPECT_CT(done, ENTRIES * EACH, 0);
    for (uint64_t i = 0; i < EACH; i++)
        for (int at = 0; at < ENTRIES; at++)
            CHECK_EQ(got[at][i], i % 5 >= 2 ? BEFORE : 0);
    BARRIER();
    for (int at = 0; at < ENTRIES; at++) {
        for (size_t i = 0; rank == 0 && i < cells; i++) {
            uint64_t value = 1000 + i % EACH, kind = i % EACH % 5;
            uint64_t after = kind == 4 ? BEFORE : kind == 1 || kind == 2 ? BEFORE + value : value;
            CHECK_EQ(memory[at][i], after);
        }
    }
    if (rank == 0)
        CHECK(refused() >= refused_before + ENTRIES);
    BARRIER();
    MD_RELEASE(back);
    MD_RELEASE(from);
    OK(PtlCTFree(start));
    OK(PtlCTFree(done));
    for (int at = 0; at < ENTRIES; at++) {
        UNLINK(element[at]);
        OK(PtlPTFree(ni, PT + at));
        OK(PtlEQFree(eq[at]));
        free(memory[at]);
    }
}

/* One short queue for what a process does itself and for what others do to it; entries that
 * take one operation each, appended as they are used up. */
static void one_queue(void)
{
    uint64_t from[EACH], to[EACH];
    ptl_handle_eq_t eq = EQ_NEW(3);
    PT_NEW(PTL_PT_FLOWCTRL, eq, PT);
    ptl_handle_md_t md = MD_NEW(from, sizeof from, 0, eq, PTL_CT_NONE);
    memset(to, 0, sizeof to);
    for (uint64_t i = 0; i < EACH; i++)
        from[i] = 100 * (uint64_t)rank + i;
    ptl_me_t what = entry(to, 8, PTL_ME_OP_PUT | PTL_ME_USE_ONCE);
    ptl_handle_me_t element = append_at(__FILE__, __LINE__, PT, &what, PTL_PRIORITY_LIST, NULL);
    (void)element;
    BARRIER();
    for (uint64_t i = 0; i < EACH; i++)
        OK(PtlPut(md, i * 8, 8, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, i));
    int links = 0, puts = 0, unlinks = 0, sends = 0, acks = 0;
    while (links + puts + unlinks + sends + acks < 5 * EACH) {
        ptl_event_t event = NEXT(eq);
        if (event.type != PTL_EVENT_LINK && event.type != PTL_EVENT_AUTO_UNLINK)
            CHECK_EQ(event.ni_fail_type, PTL_NI_OK);
        switch (event.type) {
        case PTL_EVENT_LINK:
            links++;
            break;
        case PTL_EVENT_PUT:
            CHECK_EQ(event.hdr_data, puts);
            puts++;
            break;
        case PTL_EVENT_AUTO_UNLINK:
            unlinks++;
            if (unlinks < EACH) {
                what.start = &to[unlinks];
                append_at(__FILE__, __LINE__, PT, &what, PTL_PRIORITY_LIST, NULL);
            }
            break;
        case PTL_EVENT_SEND:
            sends++;
            break;
        case PTL_EVENT_ACK:
            acks++;
            break;
        default:
            FAIL("a %s", event_name(event.type));
        }
    }
    CHECK(links == EACH && puts == EACH && unlinks == EACH && sends == EACH && acks == EACH);
    for (uint64_t i = 0; i < EACH; i++)
        CHECK_EQ(to[i], 100 * (uint64_t)rank_before() + i);
    EXPECT_NOTHING(eq);
    BARRIER();
    MD_RELEASE(md);
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
    entries_at_once(false);
    entries_at_once(true);
    one_queue();
    return test_end();
}
