/* Bundles: counted, of any depth; what is issued within one goes out by its end at the latest. */
#include "harness.h"

enum { PT = 4, PUTS = 30 };

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    ptl_handle_eq_t target = EQ_NEW(256), initiator = EQ_NEW(256);
    static uint64_t in[PUTS], out[PUTS];
    PT_NEW(0, target, PT);
    ptl_me_t what = entry(in, sizeof in, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, sizeof out, PTL_MD_EVENT_SEND_DISABLE, initiator, PTL_CT_NONE);
    for (int depth = 1; depth <= 3; depth++) {
        BARRIER();
        for (int i = 0; i < depth; i++)
            OK(PtlStartBundle(ni));
        for (int i = 0; i < PUTS; i++) {
            out[i] = (uint64_t)(1000 * rank + 10 * i + depth);
            OK(PtlPut(md, (ptl_size_t)i * 8, 8, PTL_ACK_REQ, peers[rank_next()], PT, 0,
                      (ptl_size_t)i * 8, NULL, (unsigned)i));
        }
        for (int i = 0; i < depth; i++)
            OK(PtlEndBundle(ni));
        for (int i = 0; i < PUTS; i++) {
            EXPECT(initiator, PTL_EVENT_ACK);
            CHECK_EQ(EXPECT(target, PTL_EVENT_PUT).hdr_data, i);
            CHECK_EQ(in[i], 1000 * rank_before() + 10 * i + depth);
        }
        CHECK_CODE(PtlEndBundle(ni), PTL_ARG_INVALID);
    }

    /* Within an open bundle the inner end sends what was held back. */
    BARRIER();
    OK(PtlStartBundle(ni));
    OK(PtlStartBundle(ni));
    OK(PtlPut(md, 0, 8, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
    OK(PtlEndBundle(ni));
    EXPECT(initiator, PTL_EVENT_ACK);
    EXPECT(target, PTL_EVENT_PUT);
    /* And the others' messages come in all the while. */
    BARRIER();
    uint64_t had = 0;
    ptl_handle_md_t back = MD_NEW(&had, 8, 0, initiator, PTL_CT_NONE);
    OK(PtlGet(back, 0, 8, peers[rank_next()], PT, 0, 0, NULL));
    OK(PtlEndBundle(ni));
    EXPECT(initiator, PTL_EVENT_REPLY);
    EXPECT(target, PTL_EVENT_GET);
    CHECK_EQ(had, out[0]);
    BARRIER();
    UNLINK(element);
    MD_RELEASE(md);
    MD_RELEASE(back);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    return test_end();
}
