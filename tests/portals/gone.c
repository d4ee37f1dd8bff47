/* A process that dies: what is under way with it ends with PTL_NI_UNDELIVERABLE, as does what
 * is begun later, events and counters alike; the others go on with each other, and nothing
 * hangs. The last rank ends by SIGKILL, which the runner expects. */
#include "harness.h"

#include <signal.h>
#include <unistd.h>

enum { PT = 4, LONG = 4 * 1048576, FLIGHT = 8 };
/* From the death to the last of what it ends. */
enum { SOON_MS = 10000 };

static ptl_handle_eq_t target, initiator;
static ptl_handle_ct_t ct;
static ptl_handle_md_t md, counted;
static uint8_t *in, *out;
static ptl_process_t victim;

/* The next event, which is of an operation that the death has ended or will end. */
static bool failed(uint64_t until)
{
    ptl_event_t event;
    unsigned int which;
    uint64_t now = now_ms();
    int code = PtlEQPoll(&initiator, 1, now < until ? (ptl_time_t)(until - now) : 1, &event,
                         &which);
    if (code != PTL_OK)
        FAIL("no end of an operation within %d ms: %s", SOON_MS, code_name(code));
    if (event.ni_fail_type != PTL_NI_OK && event.ni_fail_type != PTL_NI_UNDELIVERABLE)
        FAIL("%s with %s", event_name(event.type), fail_name(event.ni_fail_type));
    return event.ni_fail_type != PTL_NI_OK;
}

/* Keeps operations of many lengths under way until one fails. */
static void until_it_dies(void)
{
    static const size_t lengths[] = {0, 8, 4096, 4097, 65536, LONG};
    uint64_t until = now_ms() + SOON_MS;
    for (size_t i = 0;; i++) {
        size_t len = lengths[i % ARRAY_COUNT(lengths)];
        if (i % 3 == 2) {
            OK(PtlGet(md, 0, len, victim, PT, 0, 0, NULL));
        } else {
            OK(PtlPut(md, 0, len, PTL_ACK_REQ, victim, PT, 0, 0, NULL, 0));
            if (failed(until))
                return;
        }
        /* As many events as operations come before the next few. */
        if (failed(until))
            return;
    }
}

/* The events of `count` operations, each of which has one that says that it failed. */
static void all_fail(const char *what, int count)
{
    uint64_t until = now_ms() + SOON_MS;
    while (count > 0)
        count -= failed(until);
    ptl_event_t event;
    unsigned int which;
    while (PtlEQPoll(&initiator, 1, QUIET_MS, &event, &which) == PTL_OK)
        if (event.ni_fail_type == PTL_NI_OK && event.type != PTL_EVENT_SEND)
            FAIL("%s with a dead process succeeds: %s", what, event_name(event.type));
}

static void operations_fail(void)
{
    for (int i = 0; i < FLIGHT; i++)
        OK(PtlPut(md, 0, i % 2 ? 64 : LONG, PTL_ACK_REQ, victim, PT, 0, 0, NULL, 0));
    all_fail("a put", FLIGHT);
    for (int i = 0; i < FLIGHT; i++)
        OK(PtlGet(md, 0, i % 2 ? 64 : LONG, victim, PT, 0, 0, NULL));
    all_fail("a get", FLIGHT);
    OK(PtlAtomic(md, 0, 8, PTL_ACK_REQ, victim, PT, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
    all_fail("an atomic", 1);
    OK(PtlFetchAtomic(md, 64, md, 0, 8, victim, PT, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
    all_fail("a fetching atomic", 1);
    OK(PtlSwap(md, 64, md, 0, 8, victim, PT, 0, 0, NULL, 0, NULL, PTL_SWAP, PTL_UINT64_T));
    all_fail("a swap", 1);

    /* Counters count failures, also of what a counter started. */
    ptl_ct_event_t value = {0, 0}, one = {1, 0};
    OK(PtlCTSet(ct, value));
    OK(PtlGet(counted, 0, 64, victim, PT, 0, 0, NULL));
    EXPECT_CT(ct, 0, 1);
    ptl_handle_ct_t trigger = CT_NEW();
    OK(PtlTriggeredGet(counted, 0, LONG, victim, PT, 0, 0, NULL, trigger, 1));
    OK(PtlTriggeredPut(counted, 0, 64, PTL_CT_ACK_REQ, victim, PT, 0, 0, NULL, 0, trigger, 1));
    CT_IS(ct, 0, 1);
    OK(PtlCTInc(trigger, one));
    EXPECT_CT(ct, 0, 3);
    OK(PtlCTFree(trigger));
}

/* A token, by which a neighbour says that it has looked at what it was sent. */
static const ptl_hdr_data_t TOKEN = UINT64_MAX;

/* Waits for so many messages of the one neighbour and tokens of the other, in all. */
static void heard(int from, uint64_t messages, int to, uint64_t tokens)
{
    static uint64_t got_messages, got_tokens;
    while (got_messages < messages || got_tokens < tokens) {
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
        if (event.hdr_data == TOKEN) {
            CHECK_FROM(event, to);
            got_tokens++;
        } else {
            CHECK_FROM(event, from);
            CHECK_EQ(event.hdr_data, got_messages++);
        }
    }
}

/* The survivors in a ring, as if nothing had been. */
static void others_go_on(void)
{
    int left = nprocs - 1, to = (rank + 1) % left, from = (rank + left - 1) % left;
    for (uint64_t number = 0; number < 4; number++) {
        size_t len = number % 2 ? LONG : 100;
        fill(out, len, seed_of(rank, to, number));
        OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[to], PT, 0, 0, NULL, number));
        PUT_DONE(initiator);
        heard(from, number + 1, to, number);
        VERIFY(in, len, seed_of(from, rank, number));
        OK(PtlPut(md, 0, 0, PTL_ACK_REQ, peers[from], PT, 0, 0, NULL, TOKEN));
        PUT_DONE(initiator);
        heard(from, number + 1, to, number + 1);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    in = guarded(LONG), out = guarded(LONG);
    victim = peers[nprocs - 1];
    target = EQ_NEW(256), initiator = EQ_NEW(1024), ct = CT_NEW();
    PT_NEW(0, target, PT);
    md = MD_NEW(out, LONG, 0, initiator, PTL_CT_NONE);
    counted = MD_NEW(out, LONG, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
    unsigned int quiet = rank == nprocs - 1 ? PTL_ME_EVENT_COMM_DISABLE : 0;
    ptl_me_t what = entry(in, LONG, PTL_ME_OP_PUT | PTL_ME_OP_GET | quiet);
    APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    BARRIER();
    if (rank == nprocs - 1) {
        sleep_ms(300);
        kill(getpid(), SIGKILL);
    }
    until_it_dies();
    /* What else was under way. */
    all_fail("what was under way", 0);
    operations_fail();
    others_go_on();
    MD_RELEASE(md);
    MD_RELEASE(counted);
    OK(PtlNIFini(ni));
    PtlFini();
    guarded_free(in), guarded_free(out);
    return 0;
}
