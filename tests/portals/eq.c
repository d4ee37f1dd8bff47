/* Event queues: the order of events, get, wait and poll with their times, several queues, and
 * what happens to one that is full. */
#include "harness.h"

#include <pthread.h>

enum { PT = 4 };

static ptl_handle_me_t post(ptl_pt_index_t pt, void *user_ptr)
{
    static char byte[8];
    ptl_me_t what = entry(byte, 8, PTL_ME_OP_PUT);
    return APPEND(pt, &what, PTL_PRIORITY_LIST, user_ptr);
}

static void times(void)
{
    ptl_handle_eq_t eq[3] = {EQ_NEW(8), EQ_NEW(8), EQ_NEW(8)};
    for (ptl_pt_index_t i = 0; i < 3; i++)
        PT_NEW(0, eq[i], PT + i);
    ptl_event_t event;
    unsigned int which = 9;
    CHECK_CODE(PtlEQGet(eq[0], &event), PTL_EQ_EMPTY);
    CHECK_CODE(PtlEQPoll(eq, 3, 0, &event, &which), PTL_EQ_EMPTY);
    uint64_t before = now_ms();
    CHECK_CODE(PtlEQPoll(eq, 3, 50, &event, &which), PTL_EQ_EMPTY);
    CHECK(now_ms() - before >= 45);

    /* Each queue keeps its order; the poll says which it was. */
    char cookie[9];
    ptl_handle_me_t element[9];
    for (int i = 0; i < 9; i++)
        element[i] = post(PT + (unsigned)i % 3, &cookie[i]);
    int seen[3] = {0, 0, 0};
    for (int i = 0; i < 9; i++) {
        OK(PtlEQPoll(eq, 3, PTL_TIME_FOREVER, &event, &which));
        CHECK(which < 3);
        CHECK_EQ(event.type, PTL_EVENT_LINK);
        CHECK_EQ(event.pt_index, PT + which);
        CHECK(event.user_ptr == &cookie[3 * seen[which] + (int)which]);
        seen[which]++;
        /* None is neglected. */
        if (i == 2)
            CHECK(seen[0] == 1 && seen[1] == 1 && seen[2] == 1);
    }
    CHECK_CODE(PtlEQPoll(eq, 3, 0, &event, &which), PTL_EQ_EMPTY);
    /* One of them, by get and by wait. */
    ptl_handle_me_t last = post(PT + 1, &cookie[0]);
    CHECK_CODE(PtlEQGet(eq[0], &event), PTL_EQ_EMPTY);
    OK(PtlEQWait(eq[1], &event));
    CHECK(event.user_ptr == &cookie[0]);
    CHECK_CODE(PtlEQGet(eq[1], &event), PTL_EQ_EMPTY);
    UNLINK(last);
    last = post(PT + 2, &cookie[1]);
    OK(PtlEQGet(eq[2], &event));
    UNLINK(last);
    for (int i = 0; i < 9; i++)
        UNLINK(element[i]);
    for (ptl_pt_index_t i = 0; i < 3; i++) {
        OK(PtlPTFree(ni, PT + i));
        OK(PtlEQFree(eq[i]));
        CHECK_CODE(PtlEQGet(eq[i], &event), PTL_ARG_INVALID);
        CHECK_CODE(PtlEQFree(eq[i]), PTL_ARG_INVALID);
    }
}

static void *post_late(void *argument)
{
    sleep_ms(40);
    *(ptl_handle_me_t *)argument = post(PT, argument);
    return NULL;
}

static void woken(void)
{
    ptl_handle_eq_t eq = EQ_NEW(8);
    PT_NEW(0, eq, PT);
    for (int i = 0; i < 2; i++) {
        ptl_handle_me_t element = PTL_INVALID_HANDLE;
        pthread_t thread;
        ptl_event_t event;
        unsigned int which;
        CHECK(pthread_create(&thread, NULL, post_late, &element) == 0);
        if (i == 0)
            OK(PtlEQWait(eq, &event));
        else
            OK(PtlEQPoll(&eq, 1, WAIT_MS, &event, &which));
        CHECK(event.user_ptr == &element);
        pthread_join(thread, NULL);
        UNLINK(element);
    }
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(eq));
}

/* Without flow control a full queue loses events, and says so with exactly one of the next. */
static void overflowing(void)
{
    enum { ROOM = 4, PUTS = 200 };
    ptl_handle_eq_t eq = EQ_NEW(ROOM), initiator = EQ_NEW(4 * PUTS);
    PT_NEW(0, eq, PT);
    char byte = 0;
    ptl_me_t what = entry(&byte, 1, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    ptl_handle_me_t element = APPEND(PT, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(&byte, 1, PTL_MD_EVENT_SEND_DISABLE, initiator, PTL_CT_NONE);
    for (int round = 0; round < 2; round++) {
        BARRIER();
        for (int i = 0; i < PUTS; i++)
            OK(PtlPut(md, 0, 1, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, (unsigned)i));
        for (int i = 0; i < PUTS; i++)
            EXPECT(initiator, PTL_EVENT_ACK);
        BARRIER();
        int got = 0, lost = 0;
        ptl_hdr_data_t last = 0;
        for (;;) {
            ptl_event_t event;
            int code = PtlEQGet(eq, &event);
            if (code == PTL_EQ_EMPTY)
                break;
            CHECK(code == PTL_OK || code == PTL_EQ_DROPPED);
            lost += code == PTL_EQ_DROPPED;
            CHECK_EQ(event.type, PTL_EVENT_PUT);
            CHECK(got == 0 || event.hdr_data > last);
            last = event.hdr_data;
            got++;
        }
        CHECK(got >= ROOM && got <= PUTS);
        if (got < PUTS && last == PUTS - 1)
            CHECK_EQ(lost, 1);
        CHECK(lost <= 1);
        /* If the loss was at the end, the next event tells of it. */
        BARRIER();
        OK(PtlPut(md, 0, 1, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 999));
        EXPECT(initiator, PTL_EVENT_ACK);
        BARRIER();
        ptl_event_t event;
        int code = PtlEQGet(eq, &event);
        CHECK_EQ(event.hdr_data, 999);
        CHECK_CODE(code, got < PUTS && !lost ? PTL_EQ_DROPPED : PTL_OK);
        OK(PtlPut(md, 0, 1, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 1000));
        EXPECT(initiator, PTL_EVENT_ACK);
        BARRIER();
        OK(PtlEQGet(eq, &event));
        CHECK_EQ(event.hdr_data, 1000);
    }
    UNLINK(element);
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(eq));
    OK(PtlEQFree(initiator));
}

static void many(void)
{
    enum { MANY_MAX = 300 };
    static ptl_handle_eq_t eqs[MANY_MAX];
    int count = limits.max_eqs < MANY_MAX ? limits.max_eqs : MANY_MAX;
    for (int i = 0; i < count; i++)
        eqs[i] = EQ_NEW((ptl_size_t)i + 1);
    ptl_event_t event;
    unsigned int which;
    CHECK_CODE(PtlEQPoll(eqs, (unsigned)count, 10, &event, &which), PTL_EQ_EMPTY);
    for (int i = 0; i < count; i++)
        OK(PtlEQFree(eqs[i]));
    for (int i = 0; i < 1000; i++)
        OK(PtlEQFree(EQ_NEW(16)));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    times();
    woken();
    overflowing();
    many();
    return test_end();
}
