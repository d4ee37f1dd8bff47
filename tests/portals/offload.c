/* A rendezvous without its receiver (docs/offload.md): receives from a known source prepare
 * their gets when they are posted. From then on the receiver computes and looks at nothing but
 * its own memory until all data is there; it makes no call. Who matches what is worked out
 * naively, as MPI has it. */
#include "harness.h"

/* Messages of up to EAGER bytes are one put; a longer one sends one byte more, which sets off
 * the get that its receive has prepared. */
enum { MESSAGES = 4, DATA = 5, EAGER = 4095, FIRST = EAGER + 1, COUNT = 6, OVERFLOWS = 2 };
/* A tag is a word of so many ones; any tag is the word zero. */
enum { ONES = 18, BITS = 36 };

static const struct {
    uint32_t tag;
    size_t len;
} sends[COUNT] = {{7, MIB},  {7, 100},          {1000000007, 300000},
                  {3, FIRST}, {UINT32_MAX, EAGER}, {7, 70001}};

static const struct {
    bool any;
    uint32_t tag;
} receives[COUNT] = {{false, UINT32_MAX}, {true, 0}, {false, 7},
                     {false, 3},          {true, 0}, {false, 7}};

static ptl_handle_eq_t arrivals;
static ptl_handle_ct_t fetched[COUNT], counted[COUNT];
static uint8_t *data[COUNT], *in[COUNT], *expected[COUNT];

static size_t min(size_t a, size_t b) { return a < b ? a : b; }

/* The word of a tag, by the combinatorial number system. */
static uint64_t word(uint32_t tag)
{
    static uint64_t choose[BITS + 1][ONES + 1];
    for (int n = 0; n <= BITS; n++) {
        choose[n][0] = 1;
        for (int k = 1; n > 0 && k <= ONES; k++)
            choose[n][k] = choose[n - 1][k - 1] + choose[n - 1][k];
    }
    uint64_t bits = 0, rest = tag;
    for (int k = ONES, place = BITS - 1; k > 0; k--, place--) {
        while (choose[place][k] > rest)
            place--;
        bits |= 1ull << place;
        rest -= choose[place][k];
    }
    return bits;
}

/* The message that each receive gets: the oldest that it accepts and no older receive has. */
static void match(int message_of[COUNT])
{
    bool used[COUNT] = {false};
    for (int r = 0; r < COUNT; r++) {
        message_of[r] = -1;
        for (int m = 0; m < COUNT && message_of[r] < 0; m++)
            if (!used[m] && (receives[r].any || receives[r].tag == sends[m].tag))
                used[message_of[r] = m] = true;
        CHECK(message_of[r] >= 0);
    }
}

static void send_all(ptl_handle_md_t md, uint8_t *base)
{
    for (int m = 0; m < COUNT; m++) {
        size_t len = sends[m].len;
        if (len > EAGER) {
            ptl_me_t what = entry(data[m], len, PTL_ME_OP_GET | PTL_ME_USE_ONCE |
                                                    PTL_ME_EVENT_CT_COMM);
            what.match_bits = what.ignore_bits = word(sends[m].tag);
            what.match_id = peers[rank_next()];
            what.ct_handle = counted[m];
            APPEND_QUIET(DATA, &what, PTL_PRIORITY_LIST, NULL);
        }
        OK(PtlPut(md, (ptl_size_t)(data[m] - base), min(len, FIRST), PTL_NO_ACK_REQ,
                  peers[rank_next()], MESSAGES, word(sends[m].tag), 0, NULL, len));
    }
}

/* Posts every receive, its get first. */
static void receive_all(ptl_handle_md_t md, uint8_t *base, const int message_of[COUNT])
{
    for (int r = 0; r < COUNT; r++) {
        size_t len = sends[message_of[r]].len;
        uint64_t bits = receives[r].any ? 0 : word(receives[r].tag);
        ptl_me_t what = entry(in[r], MIB, PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_COMM |
                                              PTL_ME_EVENT_CT_OVERFLOW | PTL_ME_EVENT_CT_BYTES |
                                              PTL_ME_EVENT_UNLINK_DISABLE);
        what.match_bits = bits;
        what.ignore_bits = receives[r].any ? ~0ull : 0;
        what.match_id = peers[rank_before()];
        what.ct_handle = fetched[r];
        fill(expected[r], len, seed_of(rank_before(), rank, (uint64_t)message_of[r]));
        memset(in[r], CANARY, MIB);
        OK(PtlTriggeredGet(md, (ptl_size_t)(in[r] + FIRST - base), MIB - FIRST,
                           peers[rank_before()], DATA, bits, FIRST, NULL, fetched[r], FIRST));
        APPEND_QUIET(MESSAGES, &what, PTL_PRIORITY_LIST, (void *)(intptr_t)r);
    }
}

/* Computes until bytes from `from` on are those of the message. Each byte is read once, and again
 * until it is right: memcmp may read a byte twice, and where that changed in between it says
 * "equal" of all the bytes that it has not seen. */
static void await_bytes(int r, size_t from, size_t len)
{
    const volatile uint8_t *arriving = in[r];
    for (uint64_t until = now_ms() + WAIT_MS; from < len;) {
        if (arriving[from] == expected[r][from])
            from++;
        else if (now_ms() > until)
            FAIL("receive %d lacks byte %zu of its %zu without a call", r, from, len);
    }
}

/* What the events say, after the data is there. */
static void finish(bool unexpected, const int message_of[COUNT])
{
    for (int i = 0; i < COUNT; i++) {
        ptl_event_t event =
            EXPECT(arrivals, unexpected ? PTL_EVENT_PUT_OVERFLOW : PTL_EVENT_PUT);
        int r = (int)(intptr_t)event.user_ptr;
        size_t len = sends[message_of[r]].len;
        CHECK_EQ(event.hdr_data, len);
        CHECK_EQ(event.match_bits, word(sends[message_of[r]].tag));
        CHECK_EQ(event.mlength, min(len, FIRST));
        CHECK_FROM(event, rank_before());
        if (unexpected)
            memcpy(in[r], event.start, event.mlength);
        VERIFY(in[r], len, seed_of(rank_before(), rank, (uint64_t)message_of[r]));
        /* An eager message has left the get of its receive behind. */
        OK(PtlCTCancelTriggered(fetched[r]));
        OK(PtlCTSet(fetched[r], (ptl_ct_event_t){0, 0}));
    }
    EXPECT_NOTHING(arrivals);
    for (int m = 0; m < COUNT; m++)
        if (sends[m].len > EAGER) {
            EXPECT_CT(counted[m], 1, 0);
            OK(PtlCTSet(counted[m], (ptl_ct_event_t){0, 0}));
        }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    const char *progress = getenv("PTL_PROGRESS");
    if (progress != NULL && strcmp(progress, "poll") == 0)
        test_skip("without a thread nobody makes progress");
    int message_of[COUNT];
    match(message_of);
    arrivals = EQ_NEW(64);
    PT_NEW(0, arrivals, MESSAGES);
    PT_NEW(0, PTL_EQ_NONE, DATA);
    uint8_t *outgoing = malloc(COUNT * MIB), *incoming = malloc(COUNT * MIB);
    CHECK(outgoing != NULL && incoming != NULL);
    for (int i = 0; i < COUNT; i++) {
        data[i] = outgoing + (size_t)i * MIB, in[i] = incoming + (size_t)i * MIB;
        fill(data[i], sends[i].len, seed_of(rank, rank_next(), (uint64_t)i));
        expected[i] = malloc(MIB);
        CHECK(expected[i] != NULL);
        fetched[i] = CT_NEW(), counted[i] = CT_NEW();
    }
    ptl_handle_md_t out = MD_NEW(outgoing, COUNT * MIB, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ptl_handle_md_t into = MD_NEW(incoming, COUNT * MIB, 0, PTL_EQ_NONE, PTL_CT_NONE);
    uint8_t *first_bytes = malloc(OVERFLOWS * 4 * FIRST);
    CHECK(first_bytes != NULL);
    for (int i = 0; i < OVERFLOWS; i++) {
        ptl_me_t what = entry(first_bytes + i * 4 * FIRST, 4 * FIRST,
                              PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_COMM_DISABLE |
                                  PTL_ME_EVENT_UNLINK_DISABLE);
        what.ignore_bits = ~0ull;
        what.min_free = FIRST;
        APPEND_QUIET(MESSAGES, &what, PTL_OVERFLOW_LIST, NULL);
    }
    BARRIER();

    /* Receives first. The barriers of the job are outside of Portals. */
    receive_all(into, incoming, message_of);
    BARRIER();
    send_all(out, outgoing);
    for (int r = 0; r < COUNT; r++)
        await_bytes(r, 0, sends[message_of[r]].len);
    finish(false, message_of);
    BARRIER();

    /* Messages first: their gets go in the calls that post the receives, and what was put lies
     * in the overflow list until somebody looks. */
    send_all(out, outgoing);
    BARRIER();
    sleep_ms(QUIET_MS);
    receive_all(into, incoming, message_of);
    for (int r = 0; r < COUNT; r++)
        await_bytes(r, FIRST, sends[message_of[r]].len);
    finish(true, message_of);
    BARRIER();

    MD_RELEASE(out);
    MD_RELEASE(into);
    return test_end();
}
