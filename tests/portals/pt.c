/* Portal table entries: any index, a given one, one in use, a full table, freeing, and the
 * options at allocation. */
#include "harness.h"

static void every_index(void)
{
    int count = limits.max_pt_index + 1;
    char *seen = calloc((size_t)count, 1);
    ptl_pt_index_t pt = 0;
    for (int i = 0; i < count; i++) {
        OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
        CHECK(pt < (ptl_pt_index_t)count);
        CHECK(!seen[pt]);
        seen[pt] = 1;
    }
    CHECK_CODE(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt), PTL_PT_FULL);
    CHECK_CODE(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 5, &pt), PTL_PT_IN_USE);
    OK(PtlPTFree(ni, 5));
    CHECK_CODE(PtlPTFree(ni, 5), PTL_ARG_INVALID);
    OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    CHECK_EQ(pt, 5);
    for (int i = 0; i < count; i++)
        OK(PtlPTFree(ni, (ptl_pt_index_t)i));
    free(seen);
}

static void options(void)
{
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq = EQ_NEW(8);
    CHECK_CODE(PtlPTAlloc(ni, PTL_PT_FLOWCTRL, PTL_EQ_NONE, PTL_PT_ANY, &pt), PTL_PT_EQ_NEEDED);
    unsigned int each[] = {0,
                           PTL_PT_ONLY_USE_ONCE,
                           PTL_PT_ONLY_TRUNCATE,
                           PTL_PT_FLOWCTRL,
                           PTL_PT_MATCH_UNORDERED,
                           PTL_PT_ALLOC_DISABLED,
                           PTL_PT_ONLY_USE_ONCE | PTL_PT_ONLY_TRUNCATE | PTL_PT_FLOWCTRL};
    for (size_t i = 0; i < ARRAY_COUNT(each); i++) {
        PT_NEW(each[i], eq, 9);
        OK(PtlPTFree(ni, 9));
    }
    CHECK_CODE(PtlPTAlloc(ni, 1u << 30, eq, 9, &pt), PTL_ARG_INVALID);
    CHECK_CODE(PtlPTAlloc(ni, 0, eq, (ptl_pt_index_t)limits.max_pt_index + 1, &pt),
               PTL_ARG_INVALID);
    OK(PtlEQFree(eq));
}

/* An entry on either list keeps the table entry in use. */
static void in_use(void)
{
    char byte;
    PT_NEW(0, PTL_EQ_NONE, 3);
    ptl_me_t what = entry(&byte, 1, PTL_ME_OP_PUT);
    for (int list = PTL_PRIORITY_LIST; list <= PTL_OVERFLOW_LIST; list++) {
        ptl_handle_me_t element = APPEND(3, &what, (ptl_list_t)list, NULL);
        /* The texts of the specification name both. */
        int code = PtlPTFree(ni, 3);
        CHECK(code == PTL_PT_IN_USE || code == PTL_IN_USE);
        UNLINK(element);
    }
    OK(PtlPTFree(ni, 3));
    ptl_handle_me_t element;
    CHECK_CODE(append_code(3, &what, PTL_PRIORITY_LIST, NULL, &element), PTL_ARG_INVALID);
    CHECK_CODE(PtlPTDisable(ni, 3), PTL_ARG_INVALID);
    CHECK_CODE(PtlPTEnable(ni, 3), PTL_ARG_INVALID);
}

/* Allocated as disabled, it refuses; enabled, it accepts; disabling says nothing here. */
static void disabled(void)
{
    enum { PT = 4 };
    uint64_t in = 0, out = (uint64_t)rank + 1;
    ptl_handle_eq_t target = EQ_NEW(16), initiator = EQ_NEW(16);
    PT_NEW(PTL_PT_ALLOC_DISABLED | PTL_PT_FLOWCTRL, target, PT);
    ptl_me_t what = entry(&in, 8, PTL_ME_OP_PUT);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(&out, 8, 0, initiator, PTL_CT_NONE);
    for (int round = 0; round < 3; round++) {
        BARRIER();
        OK(PtlPut(md, 0, 8, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
        EXPECT(initiator, PTL_EVENT_SEND);
        EXPECT_FAIL(initiator, PTL_EVENT_ACK, PTL_NI_PT_DISABLED);
        BARRIER();
        EXPECT_NOTHING(target);
        CHECK_EQ(in, 0);
        OK(PtlPTEnable(ni, PT));
        BARRIER();
        OK(PtlPut(md, 0, 8, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
        PUT_DONE(initiator);
        EXPECT(target, PTL_EVENT_PUT);
        CHECK_EQ(in, rank_before() + 1);
        in = 0;
        OK(PtlPTDisable(ni, PT));
        /* Twice is no harm. */
        OK(PtlPTDisable(ni, PT));
    }
    BARRIER();
    EXPECT_NOTHING(target);
    UNLINK(element);
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
}

/* A put to an index that nobody allocated fails at its initiator. */
static void unallocated(void)
{
    char byte = 1;
    ptl_handle_eq_t eq = EQ_NEW(8);
    ptl_handle_md_t md = MD_NEW(&byte, 1, 0, eq, PTL_CT_NONE);
    int drops = sr_value(PTL_SR_DROP_COUNT);
    BARRIER();
    OK(PtlPut(md, 0, 1, PTL_ACK_REQ, peers[rank_next()], 11, 0, 0, NULL, 0));
    EXPECT(eq, PTL_EVENT_SEND);
    ptl_event_t event = NEXT(eq);
    CHECK_EQ(event.type, PTL_EVENT_ACK);
    CHECK(event.ni_fail_type != PTL_NI_OK);
    BARRIER();
    CHECK(sr_value(PTL_SR_DROP_COUNT) >= drops);
    MD_RELEASE(md);
    OK(PtlEQFree(eq));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    every_index();
    options();
    in_use();
    disabled();
    unallocated();
    return test_end();
}
