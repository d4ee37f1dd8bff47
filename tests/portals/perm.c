/* Who may do what: a user that is not admitted and an operation that is not admitted fail at
 * the initiator, count in their registers, and leave no trace otherwise. */
#include "harness.h"

enum { PT = 4 };

static ptl_handle_eq_t target, initiator, replies;
static ptl_handle_md_t md, back;
static uint64_t in[2], out = 9, got;

enum { PUT = 1, GET = 2, ATOMIC = 4, FETCH = 8, SWAP = 16 };

/* Does one operation and checks how it ends. */
static void attempt(int what, int fail)
{
    ptl_process_t to = peers[rank_next()];
    got = 0x5a5a;
    bool acked = what == PUT || what == ATOMIC;
    if (what == PUT)
        OK(PtlPut(md, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0));
    else if (what == GET)
        OK(PtlGet(back, 0, 8, to, PT, 0, 0, NULL));
    else if (what == ATOMIC)
        OK(PtlAtomic(md, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
    else if (what == FETCH)
        OK(PtlFetchAtomic(back, 0, md, 0, 8, to, PT, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
    else
        OK(PtlSwap(back, 0, md, 0, 8, to, PT, 0, 0, NULL, 0, NULL, PTL_SWAP, PTL_UINT64_T));
    if (what != GET)
        EXPECT(initiator, PTL_EVENT_SEND);
    if (acked)
        EXPECT_FAIL(initiator, PTL_EVENT_ACK, fail);
    else
        EXPECT_FAIL(replies, PTL_EVENT_REPLY, fail);
    if (fail != PTL_NI_OK)
        CHECK_EQ(got, 0x5a5a);
}

/* Which operations an entry with these options admits. */
static void operations(unsigned int options, int admitted, ptl_list_t list)
{
    static const int kinds[] = {PUT, GET, ATOMIC, FETCH, SWAP};
    static const int events[] = {PTL_EVENT_PUT, PTL_EVENT_GET, PTL_EVENT_ATOMIC,
                                 PTL_EVENT_FETCH_ATOMIC, PTL_EVENT_FETCH_ATOMIC};
    in[0] = 1, in[1] = 2;
    ptl_me_t what = entry(in, 16, options | PTL_ME_UNEXPECTED_HDR_DISABLE);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, list, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        int before = sr_value(PTL_SR_OPERATION_VIOLATIONS);
        uint64_t value = in[0];
        BARRIER();
        attempt(kinds[i], admitted & kinds[i] ? PTL_NI_OK : PTL_NI_OP_VIOLATION);
        if (admitted & kinds[i])
            EXPECT(target, events[i]);
        BARRIER();
        CHECK_EQ(sr_value(PTL_SR_OPERATION_VIOLATIONS), before + !(admitted & kinds[i]));
        if (!(admitted & kinds[i]))
            CHECK_EQ(in[0], value);
    }
    EXPECT_NOTHING(target);
    UNLINK(element);
    BARRIER();
}

static void users(ptl_list_t list)
{
    in[0] = 77;
    ptl_uid_t uid;
    OK(PtlGetUid(ni, &uid));
    ptl_me_t what = entry(in, 16, PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_UNEXPECTED_HDR_DISABLE);
    what.uid = uid + 1;
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, list, NULL);
    int before = sr_value(PTL_SR_PERMISSION_VIOLATIONS);
    BARRIER();
    attempt(PUT, PTL_NI_PERM_VIOLATION);
    attempt(GET, PTL_NI_PERM_VIOLATION);
    attempt(ATOMIC, PTL_NI_PERM_VIOLATION);
    attempt(FETCH, PTL_NI_PERM_VIOLATION);
    attempt(SWAP, PTL_NI_PERM_VIOLATION);
    BARRIER();
    CHECK_EQ(in[0], 77);
    CHECK_EQ(sr_value(PTL_SR_PERMISSION_VIOLATIONS), before + 5);
    UNLINK(element);

    /* Oneself is admitted. */
    what.uid = uid;
    element = APPEND_QUIET(PT, &what, list, NULL);
    BARRIER();
    attempt(PUT, PTL_NI_OK);
    ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
    CHECK_EQ(event.uid, uid);
    BARRIER();
    CHECK_EQ(in[0], 9);
    UNLINK(element);
    EXPECT_NOTHING(target);

    /* Used once, an entry that refused is still there. */
    if (list == PTL_PRIORITY_LIST) {
        what.uid = uid + 1;
        what.options |= PTL_ME_USE_ONCE;
        element = APPEND_QUIET(PT, &what, list, NULL);
        BARRIER();
        attempt(PUT, PTL_NI_PERM_VIOLATION);
        attempt(PUT, PTL_NI_PERM_VIOLATION);
        BARRIER();
        EXPECT_NOTHING(target);
        UNLINK(element);
    }
    BARRIER();
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(64), initiator = EQ_NEW(64), replies = EQ_NEW(64);
    PT_NEW(0, target, PT);
    md = MD_NEW(&out, 8, 0, initiator, PTL_CT_NONE);
    back = MD_NEW(&got, 8, 0, replies, PTL_CT_NONE);
    for (int list = PTL_PRIORITY_LIST; list <= PTL_OVERFLOW_LIST; list++) {
        operations(0, 0, (ptl_list_t)list);
        operations(PTL_ME_OP_PUT, PUT | ATOMIC, (ptl_list_t)list);
        operations(PTL_ME_OP_GET, GET, (ptl_list_t)list);
        operations(PTL_ME_OP_PUT | PTL_ME_OP_GET, PUT | GET | ATOMIC | FETCH | SWAP,
                   (ptl_list_t)list);
        users((ptl_list_t)list);
    }
    EXPECT_NOTHING(initiator);
    EXPECT_NOTHING(replies);
    MD_RELEASE(md);
    MD_RELEASE(back);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    OK(PtlEQFree(replies));
    return test_end();
}
