/* Four threads of each process at once, each with a queue, a counter and descriptors of its
 * own; then all of them at one queue. */
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PT = 8, THREADS = 4, TURNS = 60, LEN = 20000 };

static pthread_barrier_t linked;

static void *work(void *argument)
{
    int me = (int)(intptr_t)argument;
    ptl_pt_index_t pt = PT + (unsigned)me;
    /* The one before may be ahead by all its turns. */
    ptl_handle_eq_t target = EQ_NEW(4 * TURNS), initiator = EQ_NEW(64);
    ptl_handle_ct_t ct = CT_NEW();
    uint8_t *in = guarded(LEN), *out = guarded(LEN), *back = guarded(LEN);
    uint64_t cell = 0, add = 1;
    PT_NEW(0, target, pt);
    PT_NEW(0, PTL_EQ_NONE, pt + THREADS);
    ptl_me_t what = entry(in, LEN, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    what.match_bits = (ptl_match_bits_t)me;
    ptl_handle_me_t element = APPEND_QUIET(pt, &what, PTL_PRIORITY_LIST, NULL);
    what = entry(&cell, 8, PTL_ME_OP_PUT);
    ptl_handle_me_t counter = APPEND(pt + THREADS, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, LEN, PTL_MD_EVENT_SEND_DISABLE, initiator, PTL_CT_NONE);
    ptl_process_t to = peers[rank_next()];
    pthread_barrier_wait(&linked);
    if (me == 0)
        BARRIER();
    pthread_barrier_wait(&linked);
    for (int turn = 0; turn < TURNS; turn++) {
        size_t len = turn % 3 == 0 ? LEN : turn % 3 == 1 ? 8 : 1500;
        uint64_t number = (uint64_t)(turn * THREADS + me);
        ptl_handle_md_t into = MD_NEW(back, LEN, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
        ptl_handle_md_t adds = MD_NEW(&add, 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
        fill(out, len, seed_of(rank, rank_next(), number));
        OK(PtlPut(md, 0, len, PTL_ACK_REQ, to, pt, (ptl_match_bits_t)me, 0, NULL, number));
        CHECK_EQ(EXPECT(initiator, PTL_EVENT_ACK).mlength, len);
        OK(PtlGet(into, 0, len, to, pt, (ptl_match_bits_t)me, 0, NULL));
        EXPECT_CT(ct, (ptl_size_t)(2 * turn + 1), 0);
        VERIFY(back, len, seed_of(rank, rank_next(), number));
        OK(PtlAtomic(adds, 0, 8, PTL_CT_ACK_REQ, to, pt + THREADS, 0, 0, NULL, 0, PTL_SUM,
                     PTL_UINT64_T));
        EXPECT_CT(ct, (ptl_size_t)(2 * turn + 2), 0);
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
        CHECK_EQ(event.hdr_data, number);
        EXPECT(target, PTL_EVENT_GET);
        MD_RELEASE(into);
        MD_RELEASE(adds);
        OK(PtlCTFree(CT_NEW()));
    }
    pthread_barrier_wait(&linked);
    if (me == 0)
        BARRIER();
    pthread_barrier_wait(&linked);
    OK(PtlAtomicSync());
    CHECK_EQ(cell, TURNS);
    UNLINK(element);
    UNLINK(counter);
    MD_RELEASE(md);
    OK(PtlCTFree(ct));
    OK(PtlPTFree(ni, pt));
    OK(PtlPTFree(ni, pt + THREADS));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(in), guarded_free(out), guarded_free(back);
    return NULL;
}

static ptl_handle_eq_t shared;
static atomic_int got, stop;
static atomic_char seen[4096];

static void *consume(void *argument)
{
    (void)argument;
    while (!atomic_load(&stop)) {
        ptl_event_t event;
        unsigned int which;
        int code = PtlEQPoll(&shared, 1, 20, &event, &which);
        if (code == PTL_EQ_EMPTY)
            continue;
        CHECK_CODE(code, PTL_OK);
        CHECK_EQ(event.type, PTL_EVENT_PUT);
        CHECK(event.hdr_data < sizeof seen);
        CHECK_EQ(atomic_fetch_add(&seen[event.hdr_data], 1), 0);
        atomic_fetch_add(&got, 1);
    }
    return NULL;
}

/* Each event goes to exactly one of those that wait. */
static void one_queue(void)
{
    enum { PUTS = 1000 };
    shared = EQ_NEW(PUTS + 8);
    PT_NEW(0, shared, PT);
    ptl_me_t what = entry(NULL, 0, PTL_ME_OP_PUT);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_ct_t ct = CT_NEW();
    ptl_handle_md_t md = MD_NEW(NULL, 0, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, consume, NULL) == 0);
    BARRIER();
    for (unsigned int i = 0; i < PUTS; i++)
        OK(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, i));
    EXPECT_CT(ct, PUTS, 0);
    BARRIER();
    for (int i = 0; i < WAIT_MS && atomic_load(&got) < PUTS; i++)
        sleep_ms(1);
    CHECK_EQ(atomic_load(&got), PUTS);
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    UNLINK(element);
    MD_RELEASE(md);
    OK(PtlCTFree(ct));
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(shared));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    CHECK(pthread_barrier_init(&linked, NULL, THREADS) == 0);
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    one_queue();
    return test_end();
}
