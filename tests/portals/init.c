/* Interfaces: limits, reference counts, several at once, identifiers, and a fresh
 * start with other limits after the last PtlNIFini. */
#include "harness.h"

static void check_minima(const ptl_ni_limits_t *got)
{
    CHECK(got->max_entries > 0 && got->max_unexpected_headers > 0 && got->max_mds > 0);
    CHECK(got->max_cts > 0 && got->max_eqs > 0 && got->max_iovecs > 0 && got->max_list_size > 0);
    CHECK(got->max_triggered_ops >= 0);
    CHECK(got->max_pt_index >= 63);
    CHECK(got->max_msg_size > 0);
    CHECK(got->max_atomic_size >= 8 && got->max_fetch_atomic_size >= 8);
    CHECK(got->max_waw_ordered_size >= 64);
    CHECK(got->max_war_ordered_size >= 8);
}

static void one_interface(void)
{
    ptl_ni_limits_t desired = limits_all(1000), first, second, third;
    desired.max_msg_size = 1 << 20;
    ptl_handle_ni_t a = PTL_INVALID_HANDLE, b = PTL_INVALID_HANDLE, c = PTL_INVALID_HANDLE;
    memset(&first, 0xee, sizeof first);
    OK(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, &desired, &first, &a));
    check_minima(&first);

    /* The second time the wishes are ignored, and it is the same interface. */
    ptl_ni_limits_t other = limits_all(3);
    memset(&second, 0, sizeof second);
    OK(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, &other, &second, &b));
    CHECK(PtlHandleIsEqual(a, b));
    CHECK_EQ(second.max_entries, first.max_entries);
    CHECK_EQ(second.max_unexpected_headers, first.max_unexpected_headers);
    CHECK_EQ(second.max_pt_index, first.max_pt_index);
    CHECK_EQ(second.max_msg_size, first.max_msg_size);
    CHECK_EQ(second.max_volatile_size, first.max_volatile_size);
    CHECK_EQ(second.features, first.features);
    OK(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, NULL, NULL, &c));
    CHECK(PtlHandleIsEqual(a, c));

    /* It lives until the last of the three is given back. */
    ptl_handle_eq_t eq;
    OK(PtlNIFini(a));
    OK(PtlNIFini(b));
    OK(PtlEQAlloc(c, 8, &eq));
    OK(PtlEQFree(eq));
    OK(PtlNIFini(c));
    CHECK_CODE(PtlNIFini(c), PTL_ARG_INVALID);
    CHECK_CODE(PtlEQAlloc(c, 8, &eq), PTL_ARG_INVALID);

    /* Open it with nothing said, close it, then open it with larger wishes. */
    OK(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, NULL, &third, &a));
    check_minima(&third);
    OK(PtlNIFini(a));
    desired.max_unexpected_headers = 4096;
    desired.max_list_size = desired.max_entries = 4096;
    OK(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, &desired, &third, &b));
    check_minima(&third);
    OK(PtlEQAlloc(b, 8, &eq));
    OK(PtlEQFree(eq));
    OK(PtlNIFini(b));
}

static void identifiers(ptl_handle_ni_t handle, bool is_logical)
{
    ptl_process_t phys, id, again;
    memset(&phys, 0, sizeof phys), memset(&id, 0, sizeof id), memset(&again, 0, sizeof again);
    OK(PtlGetPhysId(handle, &phys));
    OK(PtlGetId(handle, &id));
    if (is_logical) {
        CHECK_EQ(id.rank, rank);
    } else {
        CHECK_EQ(id.phys.nid, phys.phys.nid);
        CHECK_EQ(id.phys.pid, phys.phys.pid);
    }
    OK(PtlGetPhysId(handle, &again));
    CHECK_EQ(again.phys.nid, phys.phys.nid);
    CHECK_EQ(again.phys.pid, phys.phys.pid);
    CHECK(phys.phys.nid != PTL_NID_ANY && phys.phys.pid != PTL_PID_ANY);

    ptl_process_t *all = calloc((size_t)nprocs, sizeof *all);
    EXCHANGE(&phys, sizeof phys, all);
    for (int i = 0; i < nprocs; i++)
        for (int j = 0; j < i; j++)
            CHECK(all[i].phys.nid != all[j].phys.nid || all[i].phys.pid != all[j].phys.pid);
    free(all);

    ptl_uid_t uid = PTL_UID_ANY, *uids = calloc((size_t)nprocs, sizeof *uids);
    OK(PtlGetUid(handle, &uid));
    CHECK(uid != PTL_UID_ANY);
    EXCHANGE(&uid, sizeof uid, uids);
    for (int i = 0; i < nprocs; i++)
        CHECK_EQ(uids[i], uid);
    free(uids);

    for (int i = 0; i <= PTL_SR_OPERATION_VIOLATIONS; i++) {
        ptl_sr_value_t value = -5;
        OK(PtlNIStatus(handle, (ptl_sr_index_t)i, &value));
        CHECK_EQ(value, 0);
    }
}

static void owners(ptl_handle_ni_t handle)
{
    ptl_handle_ni_t owner = PTL_INVALID_HANDLE;
    OK(PtlNIHandle(handle, &owner));
    CHECK(PtlHandleIsEqual(owner, handle));
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct, ct2;
    ptl_handle_md_t md;
    OK(PtlEQAlloc(handle, 4, &eq));
    OK(PtlCTAlloc(handle, &ct));
    OK(PtlCTAlloc(handle, &ct2));
    ptl_md_t what = {.start = &owner, .length = 4, .eq_handle = eq, .ct_handle = ct};
    OK(PtlMDBind(handle, &what, &md));
    ptl_handle_any_t each[] = {eq, ct, ct2, md};
    for (size_t i = 0; i < ARRAY_COUNT(each); i++) {
        owner = PTL_INVALID_HANDLE;
        OK(PtlNIHandle(each[i], &owner));
        CHECK(PtlHandleIsEqual(owner, handle));
        for (size_t j = 0; j < ARRAY_COUNT(each); j++)
            CHECK_EQ(PtlHandleIsEqual(each[i], each[j]) != 0, i == j);
        CHECK(!PtlHandleIsEqual(each[i], handle));
        CHECK(!PtlHandleIsEqual(each[i], PTL_INVALID_HANDLE));
    }
    CHECK(PtlHandleIsEqual(PTL_INVALID_HANDLE, PTL_INVALID_HANDLE));
    MD_RELEASE(md);
    OK(PtlCTFree(ct2));
    OK(PtlCTFree(ct));
    OK(PtlEQFree(eq));
    CHECK_CODE(PtlNIHandle(eq, &owner), PTL_ARG_INVALID);
}

/* All four kinds at once: each is its own world, and a put stays in its own. */
static void four_at_once(void)
{
    enum { KINDS = 4, PT = 7 };
    ptl_handle_ni_t handle[KINDS];
    ptl_handle_eq_t eq[KINDS];
    ptl_handle_me_t element[KINDS];
    ptl_handle_md_t md[KINDS];
    ptl_process_t *all[KINDS];
    uint64_t in[KINDS] = {0}, out[KINDS];
    for (int k = 0; k < KINDS; k++) {
        unsigned int kind = (k & 1 ? PTL_NI_MATCHING : PTL_NI_NO_MATCHING) |
                            (k & 2 ? PTL_NI_LOGICAL : PTL_NI_PHYSICAL);
        OK(PtlNIInit(PTL_IFACE_DEFAULT, kind, PTL_PID_ANY, NULL, NULL, &handle[k]));
        for (int j = 0; j < k; j++)
            CHECK(!PtlHandleIsEqual(handle[j], handle[k]));
        all[k] = map_peers(handle[k], k & 2);
        identifiers(handle[k], k & 2);
        owners(handle[k]);
        ptl_pt_index_t pt;
        OK(PtlEQAlloc(handle[k], 16, &eq[k]));
        OK(PtlPTAlloc(handle[k], 0, eq[k], PT, &pt));
        out[k] = (uint64_t)(rank * 100 + k + 1);
        ptl_md_t what = {.start = &out[k], .length = 8, .options = PTL_MD_EVENT_SUCCESS_DISABLE,
                         .eq_handle = eq[k], .ct_handle = PTL_CT_NONE};
        OK(PtlMDBind(handle[k], &what, &md[k]));
        logical = k & 2;
        ptl_me_t me = entry(&in[k], 8, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
        ptl_le_t le = {.start = me.start, .length = 8, .ct_handle = PTL_CT_NONE,
                       .uid = PTL_UID_ANY, .options = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE};
        if (k & 1)
            OK(PtlMEAppend(handle[k], PT, &me, PTL_PRIORITY_LIST, NULL, &element[k]));
        else
            OK(PtlLEAppend(handle[k], PT, &le, PTL_PRIORITY_LIST, NULL, &element[k]));
    }
    BARRIER();
    for (int k = KINDS - 1; k >= 0; k--)
        OK(PtlPut(md[k], 0, 8, PTL_NO_ACK_REQ, all[k][rank_next()], PT, 0, 0, NULL, (unsigned)k));
    for (int k = 0; k < KINDS; k++) {
        ptl_event_t event = EXPECT(eq[k], PTL_EVENT_PUT);
        logical = k & 2;
        CHECK(same_process(event.initiator, all[k][rank_before()]));
        CHECK_EQ(event.hdr_data, k);
        CHECK_EQ(in[k], rank_before() * 100 + k + 1);
    }
    BARRIER();
    for (int k = 0; k < KINDS; k++) {
        OK(k & 1 ? PtlMEUnlink(element[k]) : PtlLEUnlink(element[k]));
        MD_RELEASE(md[k]);
        OK(PtlPTFree(handle[k], PT));
        OK(PtlEQFree(eq[k]));
        OK(PtlNIFini(handle[k]));
        free(all[k]);
        /* The others go on without it. */
        for (int j = k + 1; j < KINDS; j++) {
            ptl_uid_t uid;
            OK(PtlGetUid(handle[j], &uid));
        }
    }
}

int main(int argc, char **argv)
{
    test_join(argc, argv);
    bool was_logical = logical;
    ptl_handle_ni_t handle;
    CHECK_CODE(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, NULL, NULL, &handle),
               PTL_NO_INIT);
    /* PtlInit counts, too. */
    OK(PtlInit());
    OK(PtlInit());
    PtlFini();
    one_interface();
    four_at_once();
    logical = was_logical;
    PtlFini();
    CHECK_CODE(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, NULL, NULL, &handle),
               PTL_NO_INIT);
    /* And a whole second life. */
    OK(PtlInit());
    four_at_once();
    logical = was_logical;
    PtlFini();
    return test_end();
}
