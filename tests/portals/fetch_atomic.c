/* PtlFetchAtomic: as PtlAtomic, and what was there before comes back. Many at one counter get
 * each value exactly once. */
#include "reference.h"

enum { PT = 4, ROOM = 4096 };

static ptl_handle_eq_t target, sends, replies;
static ptl_handle_md_t md, back;
static uint8_t *cells, *out, *got;

static void one(ptl_op_t op, ptl_datatype_t type, size_t count, size_t first, size_t local)
{
    static uint64_t number;
    size_t size = type_size(type), len = count * size, at = first * size;
    uint8_t item[ITEM_MAX], now[ITEM_MAX];
    number++;
    memset(cells, CANARY, ROOM), memset(got, CANARY, ROOM);
    for (size_t i = 0; i < count; i++) {
        item_set(cells + at + i * size, type, seed_of(rank, 1, number * 1000 + i));
        item_set(out + local + i * size, type, seed_of(rank, 2, number * 1000 + i));
    }
    BARRIER();
    OK(PtlFetchAtomic(back, local + 1, md, local, len, peers[rank_next()], PT, 0, at, got, number,
                      op, type));
    ptl_event_t event = EXPECT(target, PTL_EVENT_FETCH_ATOMIC);
    CHECK_EQ(event.atomic_operation, op);
    CHECK_EQ(event.atomic_type, type);
    CHECK_EQ(event.mlength, len);
    CHECK_EQ(event.hdr_data, number);
    CHECK(event.start == cells + at);
    EXPECT(sends, PTL_EVENT_SEND);
    ptl_event_t reply = EXPECT(replies, PTL_EVENT_REPLY);
    CHECK_EQ(reply.mlength, len);
    CHECK_EQ(reply.remote_offset, at);
    CHECK(reply.user_ptr == got);
    OK(PtlAtomicSync());
    for (size_t i = 0; i < count; i++) {
        item_set(now, type, seed_of(rank_next(), 1, number * 1000 + i));
        if (!item_same(got + local + 1 + i * size, now, type))
            FAIL("operation %d on type %d: item %zu came back wrong", op, type, i);
        item_set(now, type, seed_of(rank, 1, number * 1000 + i));
        item_set(item, type, seed_of(rank_before(), 2, number * 1000 + i));
        item_apply(op, type, now, item, NULL);
        if (!item_same(cells + at + i * size, now, type))
            FAIL("operation %d on type %d: item %zu is wrong", op, type, i);
    }
    CHECK_UNTOUCHED(got, local + 1);
    CHECK_UNTOUCHED(got + local + 1 + len, 64);
    CHECK_UNTOUCHED(cells, at);
    CHECK_UNTOUCHED(cells + at + len, 64);
}

static void together(void)
{
    enum { EACH = 100 };
    uint64_t *cell = (uint64_t *)(void *)cells, one_more = 1, *mine = calloc(EACH, 8);
    memset(cells, 0, 8);
    OK(PtlAtomicSync());
    ptl_handle_ct_t ct = CT_NEW();
    ptl_handle_md_t add = MD_NEW(&one_more, 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ptl_handle_md_t into = MD_NEW(mine, EACH * 8, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
    PT_NEW(0, PTL_EQ_NONE, PT + 1);
    ptl_me_t what = entry(cells, 8, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND(PT + 1, &what, PTL_PRIORITY_LIST, NULL);
    BARRIER();
    for (int i = 0; i < EACH; i++)
        OK(PtlFetchAtomic(into, (ptl_size_t)i * 8, add, 0, 8, peers[0], PT + 1, 0, 0, NULL, 0,
                          PTL_SUM, PTL_UINT64_T));
    EXPECT_CT(ct, EACH, 0);
    uint64_t *all = calloc((size_t)nprocs * EACH, 8);
    EXCHANGE(mine, EACH * 8, all);
    char *seen = calloc((size_t)nprocs, EACH);
    for (int i = 0; i < nprocs * EACH; i++) {
        CHECK(all[i] < (uint64_t)nprocs * EACH);
        CHECK(!seen[all[i]]);
        seen[all[i]] = 1;
    }
    OK(PtlAtomicSync());
    if (rank == 0)
        CHECK_EQ(*cell, nprocs * EACH);
    BARRIER();
    UNLINK(element);
    MD_RELEASE(add);
    MD_RELEASE(into);
    OK(PtlCTFree(ct));
    OK(PtlPTFree(ni, PT + 1));
    free(mine), free(all), free(seen);
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
    for (int type = 0; type < PTL_DATATYPE_LAST; type++)
        for (int op = 0; op < PTL_OP_LAST; op++) {
            ptl_op_t o = (ptl_op_t)op;
            ptl_datatype_t t = (ptl_datatype_t)type;
            if (op >= PTL_SWAP || !is_defined(o, t)) {
                CHECK_CODE(PtlFetchAtomic(back, 0, md, 0, type_size(t), peers[rank_next()], PT, 0,
                                          0, NULL, 0, o, t),
                           PTL_ARG_INVALID);
                continue;
            }
            size_t most = bytes / type_size(t);
            one(o, t, 1, 0, 0);
            if (most >= 5)
                one(o, t, 5, 2, 3);
            if (op == PTL_SUM)
                one(o, t, most, 1, 1);
        }
    BARRIER();
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(sends);
    EXPECT_NOTHING(replies);
    UNLINK(element);
    BARRIER();
    together();
    CHECK_GUARD(cells, ROOM);
    CHECK_GUARD(got, ROOM);
    MD_RELEASE(md);
    MD_RELEASE(back);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(sends));
    OK(PtlEQFree(replies));
    guarded_free(cells), guarded_free(out), guarded_free(got);
    return test_end();
}
