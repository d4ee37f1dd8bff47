/* ptl_list of ACK and REPLY: which list of the target took the operation. A program that
 * keeps long messages at the sender tells by it whether its data was wanted yet. */
#include "harness.h"

enum { PT = 4, ROOM = 300000, AT = 64, ROUNDS = 3 };

static const size_t SIZES[] = {0, 8, 2048, 4096, 4097, 65536, 200000};

static ptl_handle_eq_t initiator;
static ptl_handle_md_t md;

static void check(int kind, ptl_list_t list)
{
    ptl_event_t answer = EXPECT(initiator, kind);
    CHECK_EQ(answer.ptl_list, list);
    CHECK_EQ(answer.remote_offset, AT);
}

/* Each kind of operation that has an answer. */
static void operations(ptl_list_t list)
{
    ptl_process_t to = peers[rank_next()];
    for (size_t i = 0; i < ARRAY_COUNT(SIZES); i++) {
        OK(PtlPut(md, 0, SIZES[i], PTL_ACK_REQ, to, PT, 0, AT, NULL, 0));
        check(PTL_EVENT_ACK, list);
        OK(PtlGet(md, 0, SIZES[i], to, PT, 0, AT, NULL));
        check(PTL_EVENT_REPLY, list);
    }
    uint64_t operand = 3;
    OK(PtlAtomic(md, 0, 8, PTL_ACK_REQ, to, PT, 0, AT, NULL, 0, PTL_SUM, PTL_UINT64_T));
    check(PTL_EVENT_ACK, list);
    OK(PtlFetchAtomic(md, 0, md, 8, 8, to, PT, 0, AT, NULL, 0, PTL_SUM, PTL_UINT64_T));
    check(PTL_EVENT_REPLY, list);
    OK(PtlSwap(md, 0, md, 8, 8, to, PT, 0, AT, NULL, 0, NULL, PTL_SWAP, PTL_UINT64_T));
    check(PTL_EVENT_REPLY, list);
    OK(PtlSwap(md, 0, md, 8, 8, to, PT, 0, AT, NULL, 0, &operand, PTL_CSWAP, PTL_UINT64_T));
    check(PTL_EVENT_REPLY, list);
}

/* A message from before its entry was taken by the overflow list, whatever takes its header
 * afterwards; the next one finds the entry. */
static void early_and_late(uint8_t *in)
{
    ptl_process_t to = peers[rank_next()];
    ptl_me_t overflow = entry(in, ROOM, PTL_ME_OP_PUT);
    ptl_handle_me_t below = APPEND_QUIET(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    BARRIER();
    OK(PtlPut(md, 0, 100000, PTL_ACK_REQ, to, PT, 0, AT, NULL, 0));
    check(PTL_EVENT_ACK, PTL_OVERFLOW_LIST);
    BARRIER();
    ptl_handle_me_t above = APPEND_QUIET(PT, &overflow, PTL_PRIORITY_LIST, NULL);
    BARRIER();
    OK(PtlPut(md, 0, 100000, PTL_ACK_REQ, to, PT, 0, AT, NULL, 0));
    check(PTL_EVENT_ACK, PTL_PRIORITY_LIST);
    BARRIER();
    UNLINK(above);
    UNLINK(below);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    uint8_t *in = calloc(1, ROOM), *out = calloc(1, ROOM);
    initiator = EQ_NEW(64);
    md = MD_NEW(out, ROOM, PTL_MD_EVENT_SEND_DISABLE, initiator, PTL_CT_NONE);
    PT_NEW(0, PTL_EQ_NONE, PT);
    unsigned int both = PTL_ME_OP_PUT | PTL_ME_OP_GET;
    struct {
        ptl_list_t list;
        unsigned int options;
    } each[] = {
        {PTL_PRIORITY_LIST, both},
        {PTL_OVERFLOW_LIST, both | PTL_ME_UNEXPECTED_HDR_DISABLE},
        {PTL_OVERFLOW_LIST, both},
    };
    for (size_t i = 0; i < ARRAY_COUNT(each); i++) {
        ptl_me_t what = entry(in, ROOM, each[i].options);
        ptl_handle_me_t element = APPEND_QUIET(PT, &what, each[i].list, NULL);
        BARRIER();
        for (int round = 0; round < ROUNDS; round++)
            operations(each[i].list);
        BARRIER();
        ptl_me_t all = entry(NULL, 0, PTL_ME_OP_PUT);
        SEARCH(PT, &all, PTL_SEARCH_DELETE, NULL);
        UNLINK(element);
    }
    BARRIER();
    early_and_late(in);
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(initiator));
    free(in);
    free(out);
    return test_end();
}
