/* Flow control: an entry that cannot take a message is disabled with one event, everybody is
 * told, nothing is lost or done twice, and it goes on after PtlPTEnable. */
#include "harness.h"

enum { PT = 4, PUTS = 20 };

static ptl_handle_eq_t initiator;
static ptl_handle_md_t md;
static uint64_t out = 5;

static void put(ptl_hdr_data_t data)
{
    OK(PtlPut(md, 0, 8, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, data));
}

/* Whether the put was taken; if not, the reason must be the disabled entry. */
static int acknowledged(void)
{
    ptl_event_t first = NEXT(initiator), second = NEXT(initiator);
    ptl_event_t ack = first.type == PTL_EVENT_ACK ? first : second;
    CHECK_EQ(first.type + second.type, PTL_EVENT_SEND + PTL_EVENT_ACK);
    if (ack.ni_fail_type == PTL_NI_OK)
        return 1;
    CHECK_EQ(ack.ni_fail_type, PTL_NI_PT_DISABLED);
    CHECK_EQ(first.type, PTL_EVENT_SEND);
    return 0;
}

static void expect_disabled(ptl_handle_eq_t eq)
{
    ptl_event_t event = NEXT(eq);
    if (event.type != PTL_EVENT_PT_DISABLED)
        FAIL("expected PTL_EVENT_PT_DISABLED, came %s", event_name(event.type));
    CHECK_EQ(event.pt_index, PT);
}

/* Afterwards all is as it should be. */
static void works_again(ptl_handle_eq_t eq)
{
    OK(PtlPTEnable(ni, PT));
    BARRIER();
    for (int i = 0; i < 3; i++) {
        put(777);
        CHECK(acknowledged());
        CHECK_EQ(EXPECT(eq, PTL_EVENT_PUT).hdr_data, 777);
    }
    EXPECT_NOTHING(eq);
    EXPECT_NOTHING(initiator);
    BARRIER();
}

static void no_match(void)
{
    uint64_t in = 0;
    ptl_handle_eq_t eq = EQ_NEW(64);
    PT_NEW(PTL_PT_FLOWCTRL, eq, PT);
    for (int round = 0; round < 2; round++) {
        BARRIER();
        for (int i = 0; i < PUTS; i++)
            put((unsigned)i);
        int good = 0;
        for (int i = 0; i < 2 * PUTS; i++) {
            ptl_event_t event = NEXT(initiator);
            if (event.type == PTL_EVENT_ACK)
                good += event.ni_fail_type != PTL_NI_PT_DISABLED;
            else
                CHECK_EQ(event.type, PTL_EVENT_SEND);
        }
        CHECK_EQ(good, 0);
        expect_disabled(eq);
        BARRIER();
        EXPECT_NOTHING(eq);
        /* Also a get is told. */
        OK(PtlGet(md, 0, 8, peers[rank_next()], PT, 0, 0, NULL));
        EXPECT_FAIL(initiator, PTL_EVENT_REPLY, PTL_NI_PT_DISABLED);
        CHECK_EQ(out, 5);
        BARRIER();
        ptl_me_t what = entry(&in, 8, PTL_ME_OP_PUT);
        ptl_handle_me_t element = APPEND(PT, &what, PTL_PRIORITY_LIST, NULL);
        EXPECT(eq, PTL_EVENT_LINK);
        works_again(eq);
        UNLINK(element);
    }
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(eq));
}

static void no_header_space(void)
{
    int most = limits.max_unexpected_headers;
    if (most > 2000)
        return;
    uint64_t in = 0;
    ptl_handle_eq_t eq = EQ_NEW(2 * (ptl_size_t)most + 64);
    PT_NEW(PTL_PT_FLOWCTRL, eq, PT);
    ptl_me_t what = entry(&in, 8, PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE);
    ptl_handle_me_t overflow = APPEND_QUIET(PT, &what, PTL_OVERFLOW_LIST, NULL);
    BARRIER();
    int good = 0, turn = 0;
    for (; turn < 2 * most + 10; turn++) {
        put((unsigned)turn);
        if (!acknowledged())
            break;
        good++;
    }
    CHECK_EQ(good, most);
    put(999);
    CHECK(!acknowledged());
    expect_disabled(eq);
    BARRIER();
    EXPECT_NOTHING(eq);
    what = entry(&in, 8, PTL_ME_OP_PUT);
    ptl_handle_me_t element = APPEND(PT, &what, PTL_PRIORITY_LIST, NULL);
    for (int i = 0; i < most; i++)
        CHECK_EQ(EXPECT(eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, i);
    EXPECT(eq, PTL_EVENT_LINK);
    works_again(eq);
    UNLINK(element);
    UNLINK(overflow);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(eq));
}

/* The queue is full: there is still room for the one event that says so, and no event is lost. */
static void queue_full(void)
{
    enum { ROOM = 8, MOST = 3000 };
    uint64_t in = 0;
    ptl_handle_eq_t eq = EQ_NEW(ROOM);
    PT_NEW(PTL_PT_FLOWCTRL, eq, PT);
    ptl_me_t what = entry(&in, 8, PTL_ME_OP_PUT);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    for (int round = 0; round < 2; round++) {
        int good = 0, *every = calloc((size_t)nprocs, sizeof *every);
        BARRIER();
        while (good < MOST) {
            put((unsigned)good);
            if (!acknowledged())
                break;
            good++;
        }
        CHECK(good >= ROOM && good < MOST);
        EXCHANGE(&good, sizeof good, every);
        int expected = every[rank_before()], puts = 0, disabled = 0;
        for (;;) {
            ptl_event_t event;
            int code = PtlEQGet(eq, &event);
            if (code == PTL_EQ_EMPTY)
                break;
            CHECK_CODE(code, PTL_OK);
            if (event.type == PTL_EVENT_PT_DISABLED)
                disabled++;
            else if (event.type == PTL_EVENT_PUT)
                CHECK_EQ(event.hdr_data, puts++);
            else
                FAIL("came %s", event_name(event.type));
        }
        CHECK_EQ(puts, expected);
        CHECK_EQ(disabled, 1);
        free(every);
        BARRIER();
        works_again(eq);
    }
    UNLINK(element);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(eq));
}

/* Disabled or not, one's own gets are answered; without flow control a message is dropped. */
static void others(void)
{
    uint64_t in = 1234, had = 0;
    ptl_handle_eq_t eq = EQ_NEW(16);
    PT_NEW(PTL_PT_FLOWCTRL, eq, PT);
    PT_NEW(0, eq, PT + 1);
    ptl_me_t what = entry(&in, 8, PTL_ME_OP_GET | PTL_ME_EVENT_COMM_DISABLE);
    ptl_handle_me_t element = APPEND_QUIET(PT + 1, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t back = MD_NEW(&had, 8, 0, initiator, PTL_CT_NONE);
    OK(PtlPTDisable(ni, PT));
    BARRIER();
    OK(PtlGet(back, 0, 8, peers[rank_next()], PT + 1, 0, 0, NULL));
    EXPECT(initiator, PTL_EVENT_REPLY);
    CHECK_EQ(had, 1234);
    BARRIER();
    UNLINK(element);
    int drops = sr_value(PTL_SR_DROP_COUNT);
    BARRIER();
    OK(PtlPut(md, 0, 8, PTL_ACK_REQ, peers[rank_next()], PT + 1, 0, 0, NULL, 0));
    EXPECT(initiator, PTL_EVENT_SEND);
    EXPECT_FAIL(initiator, PTL_EVENT_ACK, PTL_NI_DROPPED);
    BARRIER();
    CHECK_EQ(sr_value(PTL_SR_DROP_COUNT), drops + 1);
    EXPECT_NOTHING(eq);
    MD_RELEASE(back);
    OK(PtlPTFree(ni, PT));
    OK(PtlPTFree(ni, PT + 1));
    OK(PtlEQFree(eq));
}

/* Everybody floods rank 0, which has entries for a few at a time only: each message arrives
 * once, whoever was refused tries again. */
static void flood(void)
{
    enum { EACH = 60, FEW = 8 };
    ptl_handle_eq_t eq = EQ_NEW(64);
    PT_NEW(PTL_PT_FLOWCTRL, eq, PT);
    static uint64_t in;
    char *seen = calloc((size_t)nprocs, EACH);
    int missing = rank == 0 ? EACH * nprocs : 0, sent = 0, posted = 0;
    bool waiting = false;
    ptl_me_t what = entry(&in, 8, PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE |
                                      PTL_ME_EVENT_UNLINK_DISABLE);
    uint64_t end = now_ms() + 4 * WAIT_MS;
    BARRIER();
    while (missing > 0 || sent < EACH) {
        if (now_ms() > end)
            FAIL("%d messages are missing, %d of %d were sent", missing, sent, EACH);
        if (sent < EACH && !waiting) {
            OK(PtlPut(md, 0, 8, PTL_ACK_REQ, peers[0], PT, 0, 0, NULL,
                      (ptl_hdr_data_t)(rank * EACH + sent)));
            waiting = true;
        }
        ptl_handle_eq_t eqs[2] = {initiator, eq};
        ptl_event_t event;
        unsigned int which;
        int code = PtlEQPoll(eqs, 2, 100, &event, &which);
        if (code == PTL_EQ_EMPTY)
            continue;
        CHECK_CODE(code, PTL_OK);
        if (which == 0 && event.type == PTL_EVENT_ACK) {
            waiting = false;
            if (event.ni_fail_type == PTL_NI_OK)
                sent++;
            else
                CHECK_EQ(event.ni_fail_type, PTL_NI_PT_DISABLED);
        } else if (event.type == PTL_EVENT_PUT) {
            CHECK(event.hdr_data < (ptl_hdr_data_t)(nprocs * EACH) && !seen[event.hdr_data]);
            seen[event.hdr_data] = 1;
            missing--, posted--;
        } else if (event.type == PTL_EVENT_PT_DISABLED) {
            CHECK_EQ(posted, 0);
            for (; posted < FEW; posted++)
                APPEND(PT, &what, PTL_PRIORITY_LIST, NULL);
            OK(PtlPTEnable(ni, PT));
        } else {
            CHECK_EQ(event.type, PTL_EVENT_SEND);
        }
    }
    BARRIER();
    free(seen);
}

int main(int argc, char **argv)
{
    test_join(argc, argv);
    ptl_ni_limits_t desired = limits_all(1024);
    desired.max_unexpected_headers = 24;
    test_open(&desired);
    initiator = EQ_NEW(128);
    md = MD_NEW(&out, 8, 0, initiator, PTL_CT_NONE);
    no_match();
    no_header_space();
    queue_full();
    others();
    /* It leaves entries behind; the interface takes them along. */
    flood();
    return test_end();
}
