/* PTL_MD_VOLATILE: the memory is the program's again when the call returns. */
#include "harness.h"

#include <complex.h>

enum { PT = 4, TURNS = 40 };

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    size_t most = limits.max_volatile_size < 65536 ? (size_t)limits.max_volatile_size : 65536;
    /* What Sandia OpenSHMEM needs. */
    CHECK(most >= sizeof(long double complex));
    ptl_handle_eq_t target = EQ_NEW(256);
    ptl_handle_ct_t ct = CT_NEW();
    uint8_t *in = guarded(most * TURNS), *out = guarded(most);
    PT_NEW(0, target, PT);
    ptl_me_t what = entry(in, most * TURNS, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, most, PTL_MD_VOLATILE | PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    ptl_process_t to = peers[rank_next()];
    size_t lengths[] = {0, 1, 8, sizeof(long double complex), most / 2, most};
    for (size_t l = 0; l < ARRAY_COUNT(lengths); l++) {
        size_t len = lengths[l];
        BARRIER();
        OK(PtlCTSet(ct, (ptl_ct_event_t){0, 0}));
        for (int i = 0; i < TURNS; i++) {
            fill(out, len, seed_of(rank, rank_next(), l * 1000 + (uint64_t)i));
            OK(PtlPut(md, 0, len, PTL_CT_ACK_REQ, to, PT, 0, (ptl_size_t)i * most, NULL, (unsigned)i));
            memset(out, 0xee, most);
        }
        EXPECT_CT(ct, TURNS, 0);
        for (int i = 0; i < TURNS; i++) {
            CHECK_EQ(EXPECT(target, PTL_EVENT_PUT).hdr_data, i);
            VERIFY(in + (size_t)i * most, len,
                   seed_of(rank_before(), rank, l * 1000 + (uint64_t)i));
        }
    }

    /* Longer than promised is refused. */
    if (limits.max_volatile_size == most) {
        ptl_handle_md_t longer = MD_NEW(in, most + 1, PTL_MD_VOLATILE, PTL_EQ_NONE, PTL_CT_NONE);
        CHECK_CODE(PtlPut(longer, 0, most + 1, PTL_NO_ACK_REQ, to, PT, 0, 0, NULL, 0),
                   PTL_ARG_INVALID);
        MD_RELEASE(longer);
    }

    /* Atomics of any kind, too. */
    uint64_t *cell = (uint64_t *)(void *)in, had[TURNS], operand;
    ptl_handle_md_t back = MD_NEW(had, sizeof had, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
    BARRIER();
    cell[0] = cell[1] = cell[2] = 0;
    OK(PtlCTSet(ct, (ptl_ct_event_t){0, 0}));
    OK(PtlAtomicSync());
    BARRIER();
    for (uint64_t i = 0; i < TURNS; i++) {
        uint64_t value = i + 1;
        memcpy(out, &value, 8);
        OK(PtlAtomic(md, 0, 8, PTL_CT_ACK_REQ, to, PT, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
        memset(out, 0xee, 8);
        memcpy(out, &value, 8);
        OK(PtlFetchAtomic(back, i * 8, md, 0, 8, to, PT, 0, 8, NULL, 0, PTL_SUM, PTL_UINT64_T));
        memset(out, 0xee, 8);
        memcpy(out, &value, 8);
        operand = i;
        OK(PtlSwap(back, i * 8, md, 0, 8, to, PT, 0, 16, NULL, 0, &operand, PTL_CSWAP,
                   PTL_UINT64_T));
        operand = 0xeeee;
        memset(out, 0xee, 8);
    }
    EXPECT_CT(ct, 3 * TURNS, 0);
    BARRIER();
    OK(PtlAtomicSync());
    CHECK_EQ(cell[0], TURNS * (TURNS + 1) / 2);
    CHECK_EQ(cell[1], TURNS * (TURNS + 1) / 2);
    CHECK_EQ(cell[2], TURNS);
    CHECK_GUARD(in, most * TURNS);

    BARRIER();

    /* An unreliable one may lose a put; here it must at least not hurt. */
    ptl_handle_md_t unreliable = MD_NEW(out, most, PTL_MD_UNRELIABLE | PTL_MD_UNORDERED,
                                        PTL_EQ_NONE, PTL_CT_NONE);
    OK(PtlPut(unreliable, 0, 8, PTL_NO_ACK_REQ, to, PT, 0, 0, NULL, 0));
    BARRIER();
    UNLINK(element);
    MD_RELEASE(md);
    MD_RELEASE(back);
    MD_RELEASE(unreliable);
    OK(PtlCTFree(ct));
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    guarded_free(in), guarded_free(out);
    return test_end();
}
