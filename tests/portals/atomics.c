/* PtlAtomic: every operation on every type against what the compiler computes, several items,
 * odd places at the initiator, combinations that mean nothing, and many at one counter. */
#include "reference.h"

enum { PT = 4, ROOM = 8192, OUT = 4096 + 64 };

static ptl_handle_eq_t target, initiator;
static ptl_handle_md_t md;
static uint8_t *cells, *out, *expected;

static void one(ptl_op_t op, ptl_datatype_t type, size_t count, size_t local, size_t first)
{
    static uint64_t number;
    size_t size = type_size(type), len = count * size, at = first * size;
    number++;
    for (size_t i = 0; i < ROOM / size; i++) {
        item_set(cells + i * size, type, seed_of(rank, 1, number * 1000 + i));
        memcpy(expected + i * size, cells + i * size, size);
    }
    for (size_t i = 0; i < count; i++) {
        /* What the one before me in the ring sends, and what I send. */
        uint8_t item[ITEM_MAX];
        item_set(item, type, seed_of(rank_before(), 2, number * 1000 + i));
        item_apply(op, type, expected + at + i * size, item, NULL);
        item_set(out + local + i * size, type, seed_of(rank, 2, number * 1000 + i));
    }
    BARRIER();
    OK(PtlAtomic(md, local, len, PTL_ACK_REQ, peers[rank_next()], PT, 0, at, out, number, op, type));
    ptl_event_t event = EXPECT(target, PTL_EVENT_ATOMIC);
    CHECK_EQ(event.atomic_operation, op);
    CHECK_EQ(event.atomic_type, type);
    CHECK_EQ(event.rlength, len);
    CHECK_EQ(event.mlength, len);
    CHECK_EQ(event.hdr_data, number);
    CHECK(event.start == cells + at);
    CHECK_FROM(event, rank_before());
    ptl_event_t ack = PUT_DONE(initiator);
    CHECK_EQ(ack.mlength, len);
    CHECK(ack.user_ptr == out);
    OK(PtlAtomicSync());
    for (size_t i = 0; i < ROOM / size; i++)
        if (!item_same(cells + i * size, expected + i * size, type))
            FAIL("operation %d on type %d, %zu items at %zu: item %zu is wrong", op, type, count,
                 first, i);
}

/* Everybody adds to the same cells of rank 0. */
static void together(void)
{
    enum { ADDS = 200 };
    int64_t *whole = (int64_t *)(void *)cells;
    double *real = (double *)(void *)(cells + 8);
    *whole = 0, *real = 0;
    int64_t one_whole = 1;
    double one_real = 0.5;
    ptl_handle_ct_t ct = CT_NEW();
    ptl_handle_md_t a = MD_NEW(&one_whole, 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    ptl_handle_md_t b = MD_NEW(&one_real, 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    OK(PtlAtomicSync());
    PT_NEW(0, PTL_EQ_NONE, PT + 1);
    ptl_me_t what = entry(cells, ROOM, PTL_ME_OP_PUT);
    ptl_handle_me_t element = APPEND(PT + 1, &what, PTL_PRIORITY_LIST, NULL);
    BARRIER();
    for (int i = 0; i < ADDS; i++) {
        OK(PtlAtomic(a, 0, 8, PTL_CT_ACK_REQ, peers[0], PT + 1, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
        OK(PtlAtomic(b, 0, 8, PTL_CT_ACK_REQ, peers[0], PT + 1, 0, 8, NULL, 0, PTL_SUM, PTL_DOUBLE));
    }
    EXPECT_CT(ct, 2 * ADDS, 0);
    BARRIER();
    OK(PtlAtomicSync());
    if (rank == 0) {
        CHECK_EQ(*whole, ADDS * nprocs);
        CHECK(*real == 0.5 * ADDS * nprocs);
    }
    UNLINK(element);
    MD_RELEASE(a);
    MD_RELEASE(b);
    OK(PtlCTFree(ct));
    OK(PtlPTFree(ni, PT + 1));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(64), initiator = EQ_NEW(64);
    cells = guarded(ROOM), out = guarded(OUT), expected = guarded(ROOM);
    PT_NEW(0, target, PT);
    ptl_me_t what = entry(cells, ROOM, PTL_ME_OP_PUT);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    md = MD_NEW(out, OUT, 0, initiator, PTL_CT_NONE);
    size_t bytes = limits.max_atomic_size < 4096 ? (size_t)limits.max_atomic_size : 4096;
    for (int type = 0; type < PTL_DATATYPE_LAST; type++) {
        size_t most = bytes / type_size((ptl_datatype_t)type);
        for (int op = 0; op < PTL_OP_LAST; op++) {
            ptl_op_t o = (ptl_op_t)op;
            ptl_datatype_t t = (ptl_datatype_t)type;
            /* Swaps are PtlSwap's; the rest must have a meaning for the type. */
            if (op >= PTL_SWAP || !is_defined(o, t)) {
                CHECK_CODE(PtlAtomic(md, 0, type_size(t), PTL_ACK_REQ, peers[rank_next()], PT, 0, 0,
                                     NULL, 0, o, t),
                           PTL_ARG_INVALID);
                continue;
            }
            one(o, t, 1, 0, 0);
            one(o, t, 1, 1, 3);
            if (most >= 7)
                one(o, t, 7, 3, 2);
            if (op == PTL_SUM || op == PTL_MIN)
                one(o, t, most, 5, 1);
        }
        /* Not a whole number of items, and longer than allowed. */
        if (type_size((ptl_datatype_t)type) > 1)
            CHECK_CODE(PtlAtomic(md, 0, 1, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0,
                                 PTL_SUM, (ptl_datatype_t)type),
                       PTL_ARG_INVALID);
    }
    if (limits.max_atomic_size + 8 <= OUT)
        CHECK_CODE(PtlAtomic(md, 0, (limits.max_atomic_size + 8) / 8 * 8, PTL_ACK_REQ,
                             peers[rank_next()], PT, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T),
                   PTL_ARG_INVALID);
    BARRIER();
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);
    CHECK_GUARD(cells, ROOM);
    UNLINK(element);
    BARRIER();
    together();
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(cells), guarded_free(out), guarded_free(expected);
    return test_end();
}
