/* The map from ranks to processes: set once, read back in parts, refused on a physical
 * interface, and needed before a rank means anything. */
#include "harness.h"
#include <sys/resource.h>

static void physical(void)
{
    ptl_process_t map[1], id;
    ptl_size_t count = 0;
    OK(PtlGetPhysId(ni, &id));
    map[0] = id;
    CHECK_CODE(PtlSetMap(ni, 1, map), PTL_ARG_INVALID);
    CHECK_CODE(PtlGetMap(ni, 1, map, &count), PTL_ARG_INVALID);
}

static void logical_map(void)
{
    ptl_size_t count = 0;
    ptl_process_t mine, *got = calloc((size_t)nprocs + 2, sizeof *got);
    ptl_process_t *all = calloc((size_t)nprocs, sizeof *all);
    memset(&mine, 0, sizeof mine);
    OK(PtlGetPhysId(ni, &mine));
    EXCHANGE(&mine, sizeof mine, all);

    /* The whole of it, more than there is, a part of it, and only its size. */
    for (ptl_size_t room = (ptl_size_t)nprocs + 1; room + 1 > 0; room--) {
        memset(got, 0xcc, ((size_t)nprocs + 2) * sizeof *got);
        count = 99;
        OK(PtlGetMap(ni, room, room ? got : NULL, &count));
        CHECK_EQ(count, nprocs);
        for (ptl_size_t i = 0; i < (ptl_size_t)nprocs + 2; i++) {
            if (i < room && i < (ptl_size_t)nprocs) {
                CHECK_EQ(got[i].phys.nid, all[i].phys.nid);
                CHECK_EQ(got[i].phys.pid, all[i].phys.pid);
            } else {
                CHECK_EQ(got[i].phys.nid, 0xcccccccc);
            }
        }
    }
    ptl_process_t id;
    OK(PtlGetId(ni, &id));
    CHECK_EQ(id.rank, rank);

    /* A map is there already. It stays. */
    CHECK_CODE(PtlSetMap(ni, (ptl_size_t)nprocs, all), PTL_IGNORED);
    OK(PtlGetMap(ni, 1, got, &count));
    CHECK_EQ(count, nprocs);

    /* A rank outside the map is nobody. */
    char byte = 0;
    ptl_handle_md_t md = MD_NEW(&byte, 1, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ptl_process_t nobody;
    memset(&nobody, 0, sizeof nobody);
    nobody.rank = (ptl_rank_t)nprocs;
    CHECK_CODE(PtlPut(md, 0, 1, PTL_NO_ACK_REQ, nobody, 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_CODE(PtlGet(md, 0, 1, nobody, 0, 0, 0, NULL), PTL_ARG_INVALID);
    nobody.rank = PTL_RANK_ANY;
    CHECK_CODE(PtlPut(md, 0, 1, PTL_NO_ACK_REQ, nobody, 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    MD_RELEASE(md);
    free(all);
    free(got);
}

/* A map for which there is no memory is refused, and nothing else happens. */
static void too_large(ptl_handle_ni_t other, const ptl_process_t *some)
{
    struct rlimit before, little;
    CHECK_EQ(getrlimit(RLIMIT_AS, &before), 0);
    little = before;
    little.rlim_cur = 8192 * MIB;
    if (before.rlim_cur != RLIM_INFINITY && before.rlim_cur < little.rlim_cur)
        little = before;
    CHECK_EQ(setrlimit(RLIMIT_AS, &little), 0);
    CHECK_CODE(PtlSetMap(other, (ptl_size_t)1 << 31, some), PTL_NO_SPACE);
    CHECK_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

/* What the job's own helpers say is what the exchange said. */
static void helpers(void)
{
    ptl_handle_ni_t other;
    unsigned int kind = (matching ? PTL_NI_NO_MATCHING : PTL_NI_MATCHING) |
                        (logical ? PTL_NI_LOGICAL : PTL_NI_PHYSICAL);
    OK(PtlNIInit(PTL_IFACE_DEFAULT, kind, PTL_PID_ANY, NULL, NULL, &other));
    ptl_process_t *got = calloc((size_t)nprocs, sizeof *got), mine, id;
    if (logical) {
        /* Before the map is set, a rank is nobody. */
        char byte = 0;
        ptl_md_t what = {.start = &byte, .length = 1, .eq_handle = PTL_EQ_NONE,
                         .ct_handle = PTL_CT_NONE};
        ptl_handle_md_t md;
        OK(PtlMDBind(other, &what, &md));
        ptl_process_t to;
        memset(&to, 0, sizeof to);
        int code = PtlPut(md, 0, 1, PTL_NO_ACK_REQ, to, 0, 0, 0, NULL, 0);
        CHECK(code != PTL_OK);
        MD_RELEASE(md);
        too_large(other, got);
        OK(SluiceJobMap(other));
        ptl_size_t count = 0;
        OK(PtlGetMap(other, (ptl_size_t)nprocs, got, &count));
        CHECK_EQ(count, nprocs);
        OK(PtlGetPhysId(other, &mine));
        CHECK_EQ(got[rank].phys.nid, mine.phys.nid);
        CHECK_EQ(got[rank].phys.pid, mine.phys.pid);
        OK(PtlGetId(other, &id));
        CHECK_EQ(id.rank, rank);
        OK(SluiceJobPeers(other, got));
        for (int i = 0; i < nprocs; i++)
            CHECK_EQ(got[i].rank, i);
        CHECK_CODE(SluiceJobMap(other), PTL_IGNORED);
    } else {
        CHECK_CODE(SluiceJobPeers(other, got), PTL_ARG_INVALID);
        OK(SluiceJobMap(other));
        OK(SluiceJobPeers(other, got));
        OK(PtlGetId(other, &mine));
        CHECK_EQ(got[rank].phys.nid, mine.phys.nid);
        CHECK_EQ(got[rank].phys.pid, mine.phys.pid);
        for (int i = 0; i < nprocs; i++)
            for (int j = 0; j < i; j++)
                CHECK(got[i].phys.nid != got[j].phys.nid || got[i].phys.pid != got[j].phys.pid);
    }
    free(got);
    BARRIER();
    OK(PtlNIFini(other));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    if (logical)
        logical_map();
    else
        physical();
    helpers();
    return test_end();
}
