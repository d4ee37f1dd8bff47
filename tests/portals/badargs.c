/* Every function with handles that are wrong, stale, of another kind and foreign, with NULL,
 * with values out of range, before PtlInit and after PtlFini: the code says so, nothing else
 * happens. */
#include "harness.h"

enum { PT = 4, NI = 1, EQ = 2, CT = 4, MD = 8, ENTRY = 16 };

#define BAD(call) CHECK_CODE(call, PTL_ARG_INVALID)

static char memory[64];

/* Calls every function that takes a handle with `h`; each must give `code`. Functions for
 * which `h` is of the right kind are left out. */
static void every(int code, ptl_handle_any_t h, int right)
{
    ptl_process_t id = anyone();
    ptl_ct_event_t count = {1, 0};
    ptl_ni_limits_t got;
    ptl_handle_any_t made;
    ptl_sr_value_t value;
    ptl_size_t size, test = 1;
    ptl_pt_index_t index;
    ptl_uid_t uid;
    ptl_event_t event;
    unsigned int which;
    ptl_md_t md = {memory, 8, 0, PTL_EQ_NONE, PTL_CT_NONE};
    ptl_me_t me = entry(memory, 8, PTL_ME_OP_PUT);
    ptl_le_t le = {memory, 8, PTL_CT_NONE, PTL_UID_ANY, PTL_LE_OP_PUT};
    (void)got;
    if (!(right & NI)) {
        CHECK_CODE(PtlNIFini(h), code);
        CHECK_CODE(PtlNIStatus(h, PTL_SR_DROP_COUNT, &value), code);
        CHECK_CODE(PtlSetMap(h, 1, &id), code);
        CHECK_CODE(PtlGetMap(h, 1, &id, &size), code);
        CHECK_CODE(PtlPTAlloc(h, 0, PTL_EQ_NONE, PTL_PT_ANY, &index), code);
        CHECK_CODE(PtlPTFree(h, PT), code);
        CHECK_CODE(PtlPTDisable(h, PT), code);
        CHECK_CODE(PtlPTEnable(h, PT), code);
        CHECK_CODE(PtlGetUid(h, &uid), code);
        CHECK_CODE(PtlGetId(h, &id), code);
        CHECK_CODE(PtlGetPhysId(h, &id), code);
        CHECK_CODE(PtlMDBind(h, &md, &made), code);
        CHECK_CODE(PtlLEAppend(h, PT, &le, PTL_PRIORITY_LIST, NULL, &made), code);
        CHECK_CODE(PtlLESearch(h, PT, &le, PTL_SEARCH_ONLY, NULL), code);
        CHECK_CODE(PtlMEAppend(h, PT, &me, PTL_PRIORITY_LIST, NULL, &made), code);
        CHECK_CODE(PtlMESearch(h, PT, &me, PTL_SEARCH_ONLY, NULL), code);
        CHECK_CODE(PtlEQAlloc(h, 4, &made), code);
        CHECK_CODE(PtlCTAlloc(h, &made), code);
        CHECK_CODE(PtlStartBundle(h), code);
        CHECK_CODE(PtlEndBundle(h), code);
    }
    if (!right)
        CHECK_CODE(PtlNIHandle(h, &made), code);
    if (!(right & ENTRY)) {
        CHECK_CODE(PtlLEUnlink(h), code);
        CHECK_CODE(PtlMEUnlink(h), code);
    }
    if (!(right & EQ)) {
        CHECK_CODE(PtlEQFree(h), code);
        CHECK_CODE(PtlEQGet(h, &event), code);
        CHECK_CODE(PtlEQWait(h, &event), code);
        CHECK_CODE(PtlEQPoll(&h, 1, 0, &event, &which), code);
        CHECK_CODE(PtlEQPoll(&h, 1, PTL_TIME_FOREVER, &event, &which), code);
    }
    if (!(right & CT)) {
        CHECK_CODE(PtlCTFree(h), code);
        CHECK_CODE(PtlCTCancelTriggered(h), code);
        CHECK_CODE(PtlCTGet(h, &count), code);
        CHECK_CODE(PtlCTWait(h, 0, &count), code);
        CHECK_CODE(PtlCTPoll(&h, &test, 1, 0, &count, &which), code);
        count.success = 1, count.failure = 0;
        CHECK_CODE(PtlCTSet(h, count), code);
        CHECK_CODE(PtlCTInc(h, count), code);
        CHECK_CODE(PtlTriggeredCTInc(h, count, h, 1), code);
        CHECK_CODE(PtlTriggeredCTSet(h, count, h, 1), code);
    }
    id = peers ? peers[rank] : id;
    if (!(right & MD)) {
        CHECK_CODE(PtlMDRelease(h), code);
        CHECK_CODE(PtlPut(h, 0, 8, PTL_NO_ACK_REQ, id, PT, 0, 0, NULL, 0), code);
        CHECK_CODE(PtlGet(h, 0, 8, id, PT, 0, 0, NULL), code);
        CHECK_CODE(PtlAtomic(h, 0, 8, PTL_NO_ACK_REQ, id, PT, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T),
                   code);
        CHECK_CODE(PtlFetchAtomic(h, 0, h, 0, 8, id, PT, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T), code);
        CHECK_CODE(PtlSwap(h, 0, h, 0, 8, id, PT, 0, 0, NULL, 0, NULL, PTL_SWAP, PTL_INT64_T), code);
        CHECK_CODE(PtlTriggeredPut(h, 0, 8, PTL_NO_ACK_REQ, id, PT, 0, 0, NULL, 0, h, 1), code);
        CHECK_CODE(PtlTriggeredGet(h, 0, 8, id, PT, 0, 0, NULL, h, 1), code);
        CHECK_CODE(PtlTriggeredAtomic(h, 0, 8, PTL_NO_ACK_REQ, id, PT, 0, 0, NULL, 0, PTL_SUM,
                                      PTL_INT64_T, h, 1),
                   code);
        CHECK_CODE(PtlTriggeredFetchAtomic(h, 0, h, 0, 8, id, PT, 0, 0, NULL, 0, PTL_SUM,
                                           PTL_INT64_T, h, 1),
                   code);
        CHECK_CODE(PtlTriggeredSwap(h, 0, h, 0, 8, id, PT, 0, 0, NULL, 0, NULL, PTL_SWAP,
                                    PTL_INT64_T, h, 1),
                   code);
    }
}

static void without_init(ptl_handle_any_t h)
{
    ptl_handle_ni_t made;
    CHECK_CODE(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, NULL, NULL, &made),
               PTL_NO_INIT);
    every(PTL_NO_INIT, h, 0);
    CHECK_CODE(PtlAtomicSync(), PTL_NO_INIT);
    CHECK(PtlHandleIsEqual(h, h));
    CHECK(!PtlHandleIsEqual(h, h + 1));
}

static void interfaces(void)
{
    ptl_handle_ni_t made;
    BAD(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, NULL, NULL, NULL));
    BAD(PtlNIInit(77, ni_options(), PTL_PID_ANY, NULL, NULL, &made));
    unsigned int wrong[] = {0, PTL_NI_MATCHING, PTL_NI_LOGICAL, PTL_NI_MATCHING | PTL_NI_NO_MATCHING,
                            PTL_NI_MATCHING | PTL_NI_LOGICAL | PTL_NI_PHYSICAL,
                            PTL_NI_INIT_OPTIONS_MASK,
                            PTL_NI_MATCHING | PTL_NI_LOGICAL | 1u << 20};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        BAD(PtlNIInit(PTL_IFACE_DEFAULT, wrong[i], PTL_PID_ANY, NULL, NULL, &made));
    ptl_sr_value_t value;
    BAD(PtlNIStatus(ni, PTL_SR_LAST, &value));
    BAD(PtlNIStatus(ni, (ptl_sr_index_t)-1, &value));
    BAD(PtlNIStatus(ni, PTL_SR_DROP_COUNT, NULL));
    BAD(PtlNIHandle(ni, NULL));
    BAD(PtlGetUid(ni, NULL));
    BAD(PtlGetId(ni, NULL));
    BAD(PtlGetPhysId(ni, NULL));
    BAD(PtlEQAlloc(ni, 4, NULL));
    BAD(PtlCTAlloc(ni, NULL));
    BAD(PtlEndBundle(ni));
    ptl_pt_index_t index;
    BAD(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, NULL));
    BAD(PtlPTAlloc(ni, 0, 12345, PTL_PT_ANY, &index));
    BAD(PtlPTAlloc(ni, PTL_PT_ALLOC_OPTIONS_MASK + 1, PTL_EQ_NONE, PTL_PT_ANY, &index));
    BAD(PtlPTFree(ni, 60));
    BAD(PtlPTFree(ni, (ptl_pt_index_t)limits.max_pt_index + 1));
    BAD(PtlPTEnable(ni, PTL_PT_ANY));
    BAD(PtlPTDisable(ni, 60));
    if (logical) {
        int code = PtlSetMap(ni, 1, NULL);
        CHECK(code == PTL_ARG_INVALID || code == PTL_IGNORED);
        BAD(PtlGetMap(ni, 1, NULL, NULL));
    }
}

static void objects(ptl_handle_eq_t eq, ptl_handle_ct_t ct, ptl_handle_md_t md)
{
    ptl_event_t event;
    ptl_ct_event_t count, both = {1, 1};
    unsigned int which;
    ptl_size_t test = 0;
    BAD(PtlEQGet(eq, NULL));
    BAD(PtlEQWait(eq, NULL));
    BAD(PtlEQPoll(NULL, 1, 0, &event, &which));
    BAD(PtlEQPoll(&eq, 1, 0, NULL, &which));
    BAD(PtlEQPoll(&eq, 1, 0, &event, NULL));
    BAD(PtlEQPoll(&eq, 0, 0, &event, &which));
    ptl_handle_eq_t mixed[2] = {eq, PTL_EQ_NONE};
    BAD(PtlEQPoll(mixed, 2, 0, &event, &which));
    BAD(PtlCTGet(ct, NULL));
    BAD(PtlCTWait(ct, 0, NULL));
    BAD(PtlCTPoll(NULL, &test, 1, 0, &count, &which));
    BAD(PtlCTPoll(&ct, NULL, 1, 0, &count, &which));
    BAD(PtlCTPoll(&ct, &test, 1, 0, NULL, &which));
    BAD(PtlCTPoll(&ct, &test, 1, 0, &count, NULL));
    BAD(PtlCTPoll(&ct, &test, 0, 0, &count, &which));
    BAD(PtlCTInc(ct, both));
    BAD(PtlTriggeredCTInc(ct, both, ct, 1));
    BAD(PtlTriggeredCTInc(PTL_CT_NONE, both, ct, 1));

    ptl_handle_md_t made;
    ptl_md_t what = {memory, 8, 0, PTL_EQ_NONE, PTL_CT_NONE};
    BAD(PtlMDBind(ni, NULL, &made));
    BAD(PtlMDBind(ni, &what, NULL));
    what.options = 1u << 30;
    BAD(PtlMDBind(ni, &what, &made));
    what.options = 0, what.eq_handle = ct;
    BAD(PtlMDBind(ni, &what, &made));
    what.eq_handle = PTL_EQ_NONE, what.ct_handle = eq;
    BAD(PtlMDBind(ni, &what, &made));
    what.ct_handle = PTL_CT_NONE, what.options = PTL_IOVEC, what.start = NULL, what.length = 2;
    BAD(PtlMDBind(ni, &what, &made));

    ptl_process_t to = peers[rank];
    BAD(PtlPut(md, 0, 8, 9, to, PT, 0, 0, NULL, 0));
    /* Acknowledgements that nobody could see. */
    ptl_handle_md_t mute = MD_NEW(memory, 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
    BAD(PtlPut(mute, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0));
    BAD(PtlPut(mute, 0, 8, PTL_CT_ACK_REQ, to, PT, 0, 0, NULL, 0));
    BAD(PtlAtomic(mute, 0, 8, PTL_CT_ACK_REQ, to, PT, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
    OK(PtlMDRelease(mute));
    BAD(PtlPut(md, 60, 8, PTL_NO_ACK_REQ, to, PT, 0, 0, NULL, 0));
    BAD(PtlGet(md, 0, 65, to, PT, 0, 0, NULL));
    BAD(PtlAtomic(md, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0, PTL_OP_LAST, PTL_INT64_T));
    BAD(PtlAtomic(md, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0, PTL_SUM, PTL_DATATYPE_LAST));
    BAD(PtlAtomic(md, 0, 8, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0, 255, 255));
    BAD(PtlFetchAtomic(md, 0, md, 8, 7, to, PT, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
    BAD(PtlFetchAtomic(md, 0, PTL_INVALID_HANDLE, 8, 8, to, PT, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
    BAD(PtlFetchAtomic(PTL_INVALID_HANDLE, 0, md, 8, 8, to, PT, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
    BAD(PtlSwap(md, 0, md, 8, 8, to, PT, 0, 0, NULL, 0, NULL, PTL_CSWAP, PTL_INT64_T));
    BAD(PtlSwap(md, 0, md, 60, 8, to, PT, 0, 0, NULL, 0, memory, PTL_CSWAP, PTL_INT64_T));
    BAD(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, to, PT, 0, 0, NULL, 0, PTL_CT_NONE, 1));
    BAD(PtlTriggeredPut(md, 0, 65, PTL_NO_ACK_REQ, to, PT, 0, 0, NULL, 0, ct, 1));
    BAD(PtlTriggeredGet(md, 0, 8, to, PT, 0, 0, NULL, eq, 1));
    BAD(PtlTriggeredAtomic(md, 0, 8, PTL_NO_ACK_REQ, to, PT, 0, 0, NULL, 0, PTL_CSWAP, PTL_INT64_T,
                           ct, 1));
    BAD(PtlTriggeredSwap(md, 0, md, 8, 8, to, PT, 0, 0, NULL, 0, NULL, PTL_MSWAP, PTL_INT64_T, ct, 1));
}

static void entries(ptl_handle_eq_t eq)
{
    ptl_handle_me_t made;
    ptl_me_t what = entry(memory, 8, PTL_ME_OP_PUT);
    ptl_le_t le = {memory, 8, PTL_CT_NONE, PTL_UID_ANY, PTL_LE_OP_PUT};
    BAD(append_code(PT, &what, PTL_PRIORITY_LIST, NULL, NULL));
    BAD(append_code(60, &what, PTL_PRIORITY_LIST, NULL, &made));
    BAD(append_code(PTL_PT_ANY, &what, PTL_PRIORITY_LIST, NULL, &made));
    BAD(append_code(PT, &what, 7, NULL, &made));
    BAD(search_code(PT, &what, 5, NULL));
    BAD(search_code(60, &what, PTL_SEARCH_ONLY, NULL));
    what.options = 1u << 31;
    BAD(append_code(PT, &what, PTL_PRIORITY_LIST, NULL, &made));
    what.options = PTL_ME_OP_PUT, what.ct_handle = eq;
    BAD(append_code(PT, &what, PTL_PRIORITY_LIST, NULL, &made));
    what.ct_handle = 99;
    BAD(append_code(PT, &what, PTL_PRIORITY_LIST, NULL, &made));
    what.ct_handle = PTL_CT_NONE;
    what.start = NULL, what.length = 2, what.options = PTL_IOVEC;
    BAD(append_code(PT, &what, PTL_PRIORITY_LIST, NULL, &made));
    what = entry(memory, 8, PTL_ME_OP_PUT);
    /* The other kind of interface's functions. */
    if (matching) {
        BAD(PtlLEAppend(ni, PT, &le, PTL_PRIORITY_LIST, NULL, &made));
        BAD(PtlLESearch(ni, PT, &le, PTL_SEARCH_ONLY, NULL));
        BAD(PtlMEAppend(ni, PT, NULL, PTL_PRIORITY_LIST, NULL, &made));
        BAD(PtlMESearch(ni, PT, NULL, PTL_SEARCH_ONLY, NULL));
    } else {
        BAD(PtlMEAppend(ni, PT, &what, PTL_PRIORITY_LIST, NULL, &made));
        BAD(PtlMESearch(ni, PT, &what, PTL_SEARCH_ONLY, NULL));
        BAD(PtlLEAppend(ni, PT, NULL, PTL_PRIORITY_LIST, NULL, &made));
        BAD(PtlLESearch(ni, PT, NULL, PTL_SEARCH_ONLY, NULL));
    }
}

/* Objects of one interface with objects of another. */
static void foreign(ptl_handle_eq_t eq, ptl_handle_ct_t ct, ptl_handle_md_t md)
{
    ptl_handle_ni_t other;
    unsigned int kind = (matching ? PTL_NI_NO_MATCHING : PTL_NI_MATCHING) |
                        (logical ? PTL_NI_LOGICAL : PTL_NI_PHYSICAL);
    OK(PtlNIInit(PTL_IFACE_DEFAULT, kind, PTL_PID_ANY, NULL, NULL, &other));
    ptl_handle_eq_t eq2;
    ptl_handle_ct_t ct2;
    ptl_handle_any_t made;
    OK(PtlEQAlloc(other, 4, &eq2));
    OK(PtlCTAlloc(other, &ct2));
    ptl_md_t what = {memory, 8, 0, eq2, PTL_CT_NONE};
    ptl_pt_index_t index;
    BAD(PtlMDBind(ni, &what, &made));
    what.eq_handle = eq, what.ct_handle = ct2;
    BAD(PtlMDBind(ni, &what, &made));
    BAD(PtlPTAlloc(ni, 0, eq2, PTL_PT_ANY, &index));
    ptl_me_t me = entry(memory, 8, PTL_ME_OP_PUT);
    me.ct_handle = ct2;
    BAD(append_code(PT, &me, PTL_PRIORITY_LIST, NULL, &made));
    BAD(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peers[rank], PT, 0, 0, NULL, 0, ct2, 1));
    ptl_handle_md_t md2;
    what.eq_handle = eq2;
    OK(PtlMDBind(other, &what, &md2));
    BAD(PtlFetchAtomic(md, 0, md2, 0, 8, peers[rank], PT, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
    BAD(PtlSwap(md2, 0, md, 0, 8, peers[rank], PT, 0, 0, NULL, 0, NULL, PTL_SWAP, PTL_INT64_T));
    ptl_event_t event;
    ptl_ct_event_t count;
    unsigned int which;
    ptl_size_t tests[2] = {5, 5};
    ptl_handle_any_t eqs[2] = {eq, eq2}, cts[2] = {ct, ct2};
    BAD(PtlEQPoll(eqs, 2, 0, &event, &which));
    BAD(PtlCTPoll(cts, tests, 2, 0, &count, &which));
    /* When the interface goes, what belongs to it goes, too. */
    OK(PtlNIFini(other));
    every(PTL_ARG_INVALID, other, 0);
    every(PTL_ARG_INVALID, eq2, 0);
    every(PTL_ARG_INVALID, ct2, 0);
    every(PTL_ARG_INVALID, md2, 0);
}

int main(int argc, char **argv)
{
    test_join(argc, argv);
    without_init(1);
    without_init(PTL_INVALID_HANDLE);
    test_open(NULL);
    ptl_handle_eq_t eq = EQ_NEW(32);
    ptl_handle_ct_t ct = CT_NEW();
    ptl_handle_md_t md = MD_NEW(memory, sizeof memory, 0, eq, ct);
    PT_NEW(0, eq, PT);
    ptl_me_t what = entry(memory, sizeof memory, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    ptl_handle_me_t element = APPEND(PT, &what, PTL_OVERFLOW_LIST, NULL);
    interfaces();
    objects(eq, ct, md);
    entries(eq);
    foreign(eq, ct, md);
    ptl_handle_any_t nothing[] = {PTL_INVALID_HANDLE, PTL_EQ_NONE, PTL_CT_NONE, 0, 12345,
                                  (ptl_handle_any_t)0xdeadbeefdeadbeefu, eq ^ 1, md + 1000};
    for (size_t i = 0; i < ARRAY_COUNT(nothing); i++)
        if (nothing[i] != ct && nothing[i] != element && nothing[i] != ni && nothing[i] != md)
            every(PTL_ARG_INVALID, nothing[i], 0);
    every(PTL_ARG_INVALID, ni, NI);
    every(PTL_ARG_INVALID, eq, EQ);
    every(PTL_ARG_INVALID, ct, CT);
    every(PTL_ARG_INVALID, md, MD);
    every(PTL_ARG_INVALID, element, ENTRY);
    /* All of that left no trace: what is good still is. */
    EXPECT_NOTHING(eq);
    CT_IS(ct, 0, 0);
    UNLINK(element);
    every(PTL_ARG_INVALID, element, 0);
    OK(PtlMDRelease(md));
    OK(PtlCTFree(ct));
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(eq));
    every(PTL_ARG_INVALID, md, 0);
    every(PTL_ARG_INVALID, ct, 0);
    every(PTL_ARG_INVALID, eq, 0);
    BARRIER();
    ptl_handle_ni_t was = ni;
    OK(PtlNIFini(ni));
    every(PTL_ARG_INVALID, was, 0);
    PtlFini();
    without_init(was);
    without_init(eq);
    /* One too many is no harm. */
    PtlFini();
    test_open(NULL);
    return test_end();
}
