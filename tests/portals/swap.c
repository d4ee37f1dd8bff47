/* PtlSwap: the plain swap of several items, every conditional swap with operands below, at
 * and above the value, and the swap under a mask. */
#include "reference.h"

enum { PT = 4, ROOM = 4096 };

static ptl_handle_eq_t target, sends, replies;
static ptl_handle_md_t md, back;
static uint8_t *cells, *out, *got;

/* `relation`: the operand is the target's value (0), or of another seed. */
static void one(ptl_op_t op, ptl_datatype_t type, size_t count, int relation)
{
    static uint64_t number;
    size_t size = type_size(type), len = count * size, at = size;
    uint8_t operand[ITEM_MAX], theirs[ITEM_MAX], item[ITEM_MAX], now[ITEM_MAX];
    number++;
    memset(cells, CANARY, ROOM), memset(got, CANARY, ROOM);
    for (size_t i = 0; i < count; i++) {
        item_set(cells + at + i * size, type, seed_of(rank, 1, number * 1000 + i));
        item_set(out + i * size, type, seed_of(rank, 2, number * 1000 + i));
    }
    item_set(operand, type, seed_of(rank_next(), 1, number * 1000 + (uint64_t)relation));
    item_set(theirs, type, seed_of(rank, 1, number * 1000 + (uint64_t)relation));
    BARRIER();
    OK(PtlSwap(back, 3, md, 0, len, peers[rank_next()], PT, 0, at, got, number,
               op == PTL_SWAP ? NULL : operand, op, type));
    /* The operand travels with the message: it is no longer read. */
    memset(operand, 0x11, sizeof operand);
    ptl_event_t event = EXPECT(target, PTL_EVENT_FETCH_ATOMIC);
    CHECK_EQ(event.atomic_operation, op);
    CHECK_EQ(event.atomic_type, type);
    CHECK_EQ(event.mlength, len);
    CHECK_EQ(event.hdr_data, number);
    EXPECT(sends, PTL_EVENT_SEND);
    ptl_event_t reply = EXPECT(replies, PTL_EVENT_REPLY);
    CHECK_EQ(reply.mlength, len);
    OK(PtlAtomicSync());
    for (size_t i = 0; i < count; i++) {
        item_set(now, type, seed_of(rank_next(), 1, number * 1000 + i));
        if (!item_same(got + 3 + i * size, now, type))
            FAIL("swap %d of type %d: item %zu came back wrong", op, type, i);
        item_set(now, type, seed_of(rank, 1, number * 1000 + i));
        item_set(item, type, seed_of(rank_before(), 2, number * 1000 + i));
        item_apply(op, type, now, item, op == PTL_SWAP ? NULL : theirs);
        if (!item_same(cells + at + i * size, now, type))
            FAIL("swap %d of type %d with relation %d: item %zu is wrong", op, type, relation, i);
    }
    CHECK_UNTOUCHED(got, 3);
    CHECK_UNTOUCHED(got + 3 + len, 64);
    CHECK_UNTOUCHED(cells, at);
    CHECK_UNTOUCHED(cells + at + len, 64);
}

/* A lock made of conditional swaps: what it guards is never touched by two. */
static void lock(void)
{
    enum { TURNS = 30 };
    uint64_t *cell = (uint64_t *)(void *)cells, free_value = 0, mine = (uint64_t)rank + 1, had = 9;
    cell[0] = 0, cell[1] = 0;
    OK(PtlAtomicSync());
    ptl_handle_ct_t ct = CT_NEW();
    uint64_t value = 0;
    ptl_handle_md_t owner = MD_NEW(&mine, 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ptl_handle_md_t nobody = MD_NEW(&free_value, 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ptl_handle_md_t into = MD_NEW(&had, 8, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
    ptl_handle_md_t data = MD_NEW(&value, 8, PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_CT_ACK,
                                  PTL_EQ_NONE, ct);
    PT_NEW(0, PTL_EQ_NONE, PT + 1);
    ptl_me_t what = entry(cells, 16, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND(PT + 1, &what, PTL_PRIORITY_LIST, NULL);
    BARRIER();
    ptl_size_t count = 0;
    for (int i = 0; i < TURNS; i++) {
        do {
            OK(PtlSwap(into, 0, owner, 0, 8, peers[0], PT + 1, 0, 0, NULL, 0, &free_value,
                       PTL_CSWAP, PTL_UINT64_T));
            EXPECT_CT(ct, ++count, 0);
        } while (had != 0);
        OK(PtlGet(data, 0, 8, peers[0], PT + 1, 0, 8, NULL));
        EXPECT_CT(ct, ++count, 0);
        value++;
        OK(PtlPut(data, 0, 8, PTL_CT_ACK_REQ, peers[0], PT + 1, 0, 8, NULL, 0));
        EXPECT_CT(ct, ++count, 0);
        OK(PtlSwap(into, 0, nobody, 0, 8, peers[0], PT + 1, 0, 0, NULL, 0, NULL, PTL_SWAP,
                   PTL_UINT64_T));
        EXPECT_CT(ct, ++count, 0);
        CHECK_EQ(had, mine);
    }
    BARRIER();
    OK(PtlAtomicSync());
    if (rank == 0)
        CHECK_EQ(cell[1], TURNS * nprocs);
    BARRIER();
    UNLINK(element);
    ptl_handle_md_t each[] = {owner, nobody, into, data};
    for (size_t i = 0; i < ARRAY_COUNT(each); i++)
        MD_RELEASE(each[i]);
    OK(PtlCTFree(ct));
    OK(PtlPTFree(ni, PT + 1));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(64), sends = EQ_NEW(64), replies = EQ_NEW(64);
    cells = guarded(ROOM), out = guarded(ROOM), got = guarded(ROOM);
    PT_NEW(0, target, PT);
    ptl_me_t what = entry(cells, ROOM, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    md = MD_NEW(out, ROOM, 0, sends, PTL_CT_NONE);
    back = MD_NEW(got, ROOM, 0, replies, PTL_CT_NONE);
    size_t bytes = limits.max_fetch_atomic_size < 2048 ? (size_t)limits.max_fetch_atomic_size : 2048;
    uint8_t operand[ITEM_MAX] = {0};
    for (int type = 0; type < PTL_DATATYPE_LAST; type++) {
        ptl_datatype_t t = (ptl_datatype_t)type;
        size_t size = type_size(t);
        one(PTL_SWAP, t, 1, 0);
        one(PTL_SWAP, t, bytes / size, 0);
        for (int op = PTL_CSWAP; op < PTL_OP_LAST; op++) {
            if (!is_defined((ptl_op_t)op, t)) {
                if (is_complex(t))
                    CHECK_CODE(PtlSwap(back, 0, md, 0, size, peers[rank_next()], PT, 0, 0, NULL, 0,
                                       operand, (ptl_op_t)op, t),
                               PTL_ARG_INVALID);
                continue;
            }
            for (int relation = 0; relation < 5; relation++)
                one((ptl_op_t)op, t, 1, relation);
            /* These are for one item, and need an operand. */
            CHECK_CODE(PtlSwap(back, 0, md, 0, 2 * size, peers[rank_next()], PT, 0, 0, NULL, 0,
                               operand, (ptl_op_t)op, t),
                       PTL_ARG_INVALID);
            CHECK_CODE(PtlSwap(back, 0, md, 0, size, peers[rank_next()], PT, 0, 0, NULL, 0, NULL,
                               (ptl_op_t)op, t),
                       PTL_ARG_INVALID);
        }
        for (int op = PTL_MIN; op < PTL_SWAP; op++)
            CHECK_CODE(PtlSwap(back, 0, md, 0, size, peers[rank_next()], PT, 0, 0, NULL, 0, operand,
                               (ptl_op_t)op, t),
                       PTL_ARG_INVALID);
    }
    BARRIER();
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(sends);
    EXPECT_NOTHING(replies);
    UNLINK(element);
    BARRIER();
    lock();
    MD_RELEASE(md);
    MD_RELEASE(back);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(sends));
    OK(PtlEQFree(replies));
    guarded_free(cells), guarded_free(out), guarded_free(got);
    return test_end();
}
