/* Counters: set, increment, get, wait and poll, what wakes a wait, events against bytes, and
 * as many of them as the limits promise. */
#include "harness.h"

#include <pthread.h>

enum { PT = 4, LEN = 100 };

static ptl_ct_event_t pair(ptl_size_t success, ptl_size_t failure)
{
    ptl_ct_event_t value = {success, failure};
    return value;
}

static void arithmetic(void)
{
    ptl_handle_ct_t ct = CT_NEW(), other = CT_NEW();
    CT_IS(ct, 0, 0);
    OK(PtlCTInc(ct, pair(5, 0)));
    OK(PtlCTInc(ct, pair(0, 3)));
    OK(PtlCTInc(ct, pair(0, 0)));
    CT_IS(ct, 5, 3);
    CT_IS(other, 0, 0);
    CHECK_CODE(PtlCTInc(ct, pair(1, 1)), PTL_ARG_INVALID);
    CT_IS(ct, 5, 3);
    OK(PtlCTSet(ct, pair(1000000000000u, 7)));
    CT_IS(ct, 1000000000000u, 7);
    OK(PtlCTSet(ct, pair(0, 0)));
    CT_IS(ct, 0, 0);
    OK(PtlCTFree(ct));
    ptl_ct_event_t value;
    CHECK_CODE(PtlCTGet(ct, &value), PTL_ARG_INVALID);
    CHECK_CODE(PtlCTFree(ct), PTL_ARG_INVALID);
    OK(PtlCTFree(other));

    enum { MANY_MAX = 2000 };
    static ptl_handle_ct_t many[MANY_MAX];
    int count = limits.max_cts < MANY_MAX ? limits.max_cts : MANY_MAX;
    for (int i = 0; i < count; i++) {
        many[i] = CT_NEW();
        OK(PtlCTInc(many[i], pair((ptl_size_t)i, 0)));
    }
    for (int i = 0; i < count; i++) {
        CT_IS(many[i], (ptl_size_t)i, 0);
        OK(PtlCTFree(many[i]));
    }
    /* Many collectives take one and give it back, again and again. */
    for (int i = 0; i < 5000; i++)
        OK(PtlCTFree(CT_NEW()));
}

static void waits(void)
{
    ptl_handle_ct_t ct[3] = {CT_NEW(), CT_NEW(), CT_NEW()};
    ptl_size_t test[3] = {2, 2, 2};
    ptl_ct_event_t value = {9, 9};
    unsigned int which = 9;
    /* What is there already. */
    OK(PtlCTWait(ct[0], 0, &value));
    CHECK_EQ(value.success, 0);
    OK(PtlCTInc(ct[0], pair(4, 0)));
    OK(PtlCTWait(ct[0], 4, &value));
    CHECK_EQ(value.success, 4);
    OK(PtlCTWait(ct[0], 3, &value));
    CHECK_EQ(value.success, 4);
    OK(PtlCTPoll(ct, test, 3, 0, &value, &which));
    CHECK_EQ(which, 0);
    /* Not there: at once, and after its time. */
    OK(PtlCTSet(ct[0], pair(1, 0)));
    uint64_t before = now_ms();
    CHECK_CODE(PtlCTPoll(ct, test, 3, 0, &value, &which), PTL_CT_NONE_REACHED);
    CHECK_CODE(PtlCTPoll(ct, test, 3, 50, &value, &which), PTL_CT_NONE_REACHED);
    CHECK(now_ms() - before >= 45);
    OK(PtlCTInc(ct[2], pair(2, 0)));
    OK(PtlCTPoll(ct, test, 3, WAIT_MS, &value, &which));
    CHECK_EQ(which, 2);
    CHECK_EQ(value.success, 2);
    /* A failure ends a wait, whatever it waited for. */
    OK(PtlCTInc(ct[1], pair(0, 1)));
    OK(PtlCTWait(ct[1], 1000, &value));
    CHECK_EQ(value.success, 0);
    CHECK_EQ(value.failure, 1);
    test[0] = test[2] = 1000;
    test[1] = 1000;
    OK(PtlCTPoll(ct, test, 3, WAIT_MS, &value, &which));
    CHECK_EQ(which, 1);
    CHECK_EQ(value.failure, 1);
    for (int i = 0; i < 3; i++)
        OK(PtlCTFree(ct[i]));
}

static void *increment(void *argument)
{
    ptl_handle_ct_t *ct = argument;
    sleep_ms(30);
    OK(PtlCTInc(ct[0], pair(1, 0)));
    sleep_ms(30);
    OK(PtlCTSet(ct[1], pair(10, 0)));
    sleep_ms(30);
    OK(PtlCTInc(ct[2], pair(0, 1)));
    return NULL;
}

/* Another thread's increment, set and failure wake a wait that has begun. */
static void woken(void)
{
    ptl_handle_ct_t ct[3] = {CT_NEW(), CT_NEW(), CT_NEW()};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, increment, ct) == 0);
    ptl_ct_event_t value;
    ptl_size_t far = 99;
    unsigned int which;
    OK(PtlCTWait(ct[0], 1, &value));
    CHECK_EQ(value.success, 1);
    OK(PtlCTWait(ct[1], 10, &value));
    CHECK_EQ(value.success, 10);
    OK(PtlCTPoll(&ct[2], &far, 1, WAIT_MS, &value, &which));
    CHECK_EQ(value.failure, 1);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++)
        OK(PtlCTFree(ct[i]));
}

/* What messages count, at the initiator and at the target. */
static void messages(void)
{
    static uint8_t in[LEN], out[2 * LEN];
    ptl_handle_ct_t at_target = CT_NEW(), bytes = CT_NEW(), at_initiator = CT_NEW();
    PT_NEW(0, PTL_EQ_NONE, PT);
    PT_NEW(0, PTL_EQ_NONE, PT + 1);
    ptl_me_t what = entry(in, LEN, PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_CT_COMM);
    what.ct_handle = at_target;
    ptl_handle_me_t a = APPEND(PT, &what, PTL_PRIORITY_LIST, NULL);
    what.options |= PTL_ME_EVENT_CT_BYTES;
    what.ct_handle = bytes;
    ptl_handle_me_t b = APPEND(PT + 1, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, 2 * LEN, PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_CT_ACK,
                                PTL_EQ_NONE, at_initiator);
    ptl_handle_md_t in_bytes = MD_NEW(out, 2 * LEN, PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_CT_BYTES,
                                      PTL_EQ_NONE, at_initiator);
    ptl_process_t to = peers[rank_next()];
    BARRIER();
    for (int i = 0; i < 10; i++) {
        OK(PtlPut(md, 0, 2 * LEN, PTL_CT_ACK_REQ, to, PT, 0, 0, NULL, 0));
        OK(PtlPut(md, 0, 2 * LEN, PTL_CT_ACK_REQ, to, PT + 1, 0, 0, NULL, 0));
    }
    EXPECT_CT(at_target, 10, 0);
    EXPECT_CT(bytes, 10 * LEN, 0);
    EXPECT_CT(at_initiator, 20, 0);
    BARRIER();
    OK(PtlGet(md, 0, LEN, to, PT, 0, 0, NULL));
    EXPECT_CT(at_initiator, 21, 0);
    EXPECT_CT(at_target, 11, 0);
    CT_IS(bytes, 10 * LEN, 0);
    BARRIER();
    OK(PtlCTSet(at_initiator, pair(0, 0)));
    OK(PtlGet(in_bytes, 0, 2 * LEN, to, PT + 1, 0, 10, NULL));
    EXPECT_CT(at_initiator, LEN - 10, 0);
    EXPECT_CT(bytes, 10 * LEN + LEN - 10, 0);
    BARRIER();
    UNLINK(a);
    UNLINK(b);
    /* Now it fails, and a failure is one. */
    BARRIER();
    OK(PtlGet(in_bytes, 0, LEN, to, PT + 1, 0, 0, NULL));
    EXPECT_CT(at_initiator, LEN - 10, 1);
    BARRIER();
    MD_RELEASE(md);
    MD_RELEASE(in_bytes);
    OK(PtlPTFree(ni, PT));
    OK(PtlPTFree(ni, PT + 1));
    OK(PtlCTFree(at_target));
    OK(PtlCTFree(bytes));
    OK(PtlCTFree(at_initiator));
}

/* Options that count, and no counter: the operations go on, and nothing is counted. */
static void without_a_counter(ptl_handle_ct_t none)
{
    static uint8_t in[LEN], out[LEN];
    ptl_handle_eq_t target = EQ_NEW(16), initiator = EQ_NEW(16);
    PT_NEW(0, target, PT);
    ptl_process_t to = peers[rank_next()];
    unsigned int counts = PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_CT_OVERFLOW | PTL_ME_EVENT_CT_BYTES;
    ptl_me_t what = entry(in, LEN, PTL_ME_OP_PUT | PTL_ME_OP_GET | counts);
    what.ct_handle = none;
    ptl_handle_me_t below = APPEND_QUIET(PT, &what, PTL_OVERFLOW_LIST, NULL);
    ptl_handle_md_t md =
        MD_NEW(out, LEN, PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY |
                             PTL_MD_EVENT_CT_BYTES, initiator, none);
    BARRIER();
    OK(PtlPut(md, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0));
    PUT_DONE(initiator);
    EXPECT(target, PTL_EVENT_PUT);
    /* Completion may be asked for by those who do not count it. */
    OK(PtlPut(md, 0, 8, PTL_OC_ACK_REQ, to, PT, 0, 0, NULL, 0));
    EXPECT(initiator, PTL_EVENT_SEND);
    EXPECT(target, PTL_EVENT_PUT);
    OK(PtlAtomic(md, 0, 8, PTL_OC_ACK_REQ, to, PT, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
    EXPECT(initiator, PTL_EVENT_SEND);
    EXPECT(target, PTL_EVENT_ATOMIC);
    OK(PtlGet(md, 0, 8, to, PT, 0, 0, NULL));
    EXPECT(initiator, PTL_EVENT_REPLY);
    EXPECT(target, PTL_EVENT_GET);
    BARRIER();
    SEARCH(PT, &what, PTL_SEARCH_ONLY, NULL);
    for (int i = 0; i < 4; i++)
        EXPECT(target, PTL_EVENT_SEARCH);
    ptl_handle_me_t above = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    EXPECT(target, PTL_EVENT_PUT_OVERFLOW);
    EXPECT(target, PTL_EVENT_PUT_OVERFLOW);
    EXPECT(target, PTL_EVENT_ATOMIC_OVERFLOW);
    EXPECT(target, PTL_EVENT_GET_OVERFLOW);
    UNLINK(above);
    UNLINK(below);
    EXPECT_NOTHING(initiator);
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    arithmetic();
    waits();
    woken();
    messages();
    without_a_counter(PTL_CT_NONE);
    without_a_counter(PTL_INVALID_HANDLE);
    return test_end();
}
