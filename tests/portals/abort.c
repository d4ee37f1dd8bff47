/* PtlAbort: whoever waits is woken with PTL_ABORTED, later waits return at once, what they
 * waited for may then be freed, and after PtlFini all begins anew. */
#include "harness.h"

#include <pthread.h>

static ptl_handle_eq_t eq[2];
static ptl_handle_ct_t ct[2];
static int codes[8];

static void *eq_wait(void *at)
{
    ptl_event_t event;
    *(int *)at = PtlEQWait(eq[0], &event);
    return NULL;
}

static void *eq_poll(void *at)
{
    ptl_event_t event;
    unsigned int which;
    *(int *)at = PtlEQPoll(eq, 2, PTL_TIME_FOREVER, &event, &which);
    return NULL;
}

static void *eq_poll_long(void *at)
{
    ptl_event_t event;
    unsigned int which;
    *(int *)at = PtlEQPoll(eq, 1, 30000, &event, &which);
    return NULL;
}

static void *ct_wait(void *at)
{
    ptl_ct_event_t value;
    *(int *)at = PtlCTWait(ct[0], 1, &value);
    return NULL;
}

static void *ct_poll(void *at)
{
    ptl_ct_event_t value;
    ptl_size_t tests[2] = {5, 6};
    unsigned int which;
    *(int *)at = PtlCTPoll(ct, tests, 2, PTL_TIME_FOREVER, &value, &which);
    return NULL;
}

static void once(void)
{
    static void *(*const waits[])(void *) = {eq_wait, eq_wait, eq_poll,  eq_poll_long,
                                             ct_wait, ct_wait, ct_poll, ct_poll};
    pthread_t thread[ARRAY_COUNT(waits)];
    for (int i = 0; i < 2; i++)
        eq[i] = EQ_NEW(8), ct[i] = CT_NEW();
    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        codes[i] = -1;
        CHECK(pthread_create(&thread[i], NULL, waits[i], &codes[i]) == 0);
    }
    sleep_ms(100);
    for (size_t i = 0; i < ARRAY_COUNT(waits); i++)
        CHECK_EQ(codes[i], -1);
    uint64_t before = now_ms();
    PtlAbort();
    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        pthread_join(thread[i], NULL);
        CHECK_CODE(codes[i], PTL_ABORTED);
    }
    CHECK(now_ms() - before < WAIT_MS);

    /* From now on all waits return at once; looking is no wait. */
    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        waits[i](&codes[i]);
        CHECK_CODE(codes[i], PTL_ABORTED);
    }
    ptl_ct_event_t value;
    ptl_event_t event;
    ptl_size_t test = 1;
    unsigned int which;
    CHECK_CODE(PtlEQPoll(eq, 2, 0, &event, &which), PTL_ABORTED);
    CHECK_CODE(PtlCTPoll(ct, &test, 1, 0, &value, &which), PTL_ABORTED);
    CHECK_CODE(PtlEQGet(eq[0], &event), PTL_EQ_EMPTY);
    OK(PtlCTGet(ct[0], &value));
    PtlAbort();
    for (int i = 0; i < 2; i++) {
        OK(PtlEQFree(eq[i]));
        OK(PtlCTFree(ct[i]));
    }
}

int main(int argc, char **argv)
{
    test_join(argc, argv);
    for (int round = 0; round < 3; round++) {
        OK(PtlInit());
        OK(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, NULL, NULL, &ni));
        /* A wait with nothing wrong. */
        ptl_handle_ct_t counter = CT_NEW();
        ptl_ct_event_t one = {1, 0}, value;
        OK(PtlCTInc(counter, one));
        OK(PtlCTWait(counter, 1, &value));
        OK(PtlCTFree(counter));
        once();
        OK(PtlNIFini(ni));
        PtlFini();
        BARRIER();
    }
    return test_end();
}
