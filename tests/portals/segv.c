/* Descriptors and entries that span memory that is not mapped: the operation fails with
 * PTL_NI_SEGV, nobody crashes, and the next one works. */
#include "harness.h"

#include <sys/mman.h>

enum { PT = 4 };

static ptl_handle_eq_t target, initiator;
static uint8_t *good, *hole;
static size_t room;

/* Whatever the target hears of it, it is not a success of the whole length. */
static void drain(void)
{
    BARRIER();
    ptl_event_t event;
    int code;
    while ((code = PtlEQGet(target, &event)) != PTL_EQ_EMPTY)
        CHECK_CODE(code, PTL_OK);
    BARRIER();
}

/* The operation of the initiator fails with SEGV in one of its events. */
static void fails(int events)
{
    int bad = 0;
    for (int i = 0; i < events; i++) {
        ptl_event_t event = NEXT(initiator);
        if (event.ni_fail_type != PTL_NI_OK) {
            if (event.ni_fail_type != PTL_NI_SEGV)
                FAIL("%s with %s, expected PTL_NI_SEGV", event_name(event.type),
                     fail_name(event.ni_fail_type));
            bad++;
            /* A send that failed may be all there is. */
            if (event.type == PTL_EVENT_SEND)
                break;
        }
    }
    CHECK(bad > 0);
    ptl_event_t event;
    unsigned int which;
    if (PtlEQPoll(&initiator, 1, QUIET_MS, &event, &which) == PTL_OK)
        CHECK_EQ(event.ni_fail_type, PTL_NI_SEGV);
}

static void works(ptl_handle_md_t md, size_t len)
{
    fill(good, len, seed_of(rank, rank_next(), len));
    BARRIER();
    OK(PtlPut(md, 0, len, PTL_ACK_REQ, peers[rank_next()], PT, 0, 0, NULL, 0));
    CHECK_EQ(PUT_DONE(initiator).mlength, len);
    BARRIER();
}

static void one(uint8_t *bad, size_t len)
{
    ptl_handle_md_t from_good = MD_NEW(good, room, 0, initiator, PTL_CT_NONE);
    ptl_handle_md_t from_bad = MD_NEW(bad, len, 0, initiator, PTL_CT_NONE);
    ptl_handle_md_t all = MD_NEW(NULL, PTL_SIZE_MAX, 0, initiator, PTL_CT_NONE);
    ptl_process_t to = peers[rank_next()];
    uint8_t *in = guarded(room);

    /* The initiator's memory. */
    ptl_me_t what = entry(in, room, PTL_ME_OP_PUT | PTL_ME_OP_GET);
    ptl_handle_me_t element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
    BARRIER();
    OK(PtlPut(from_bad, 0, len, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0));
    fails(2);
    works(from_good, len);
    VERIFY(in, len, seed_of(rank_before(), rank, len));
    BARRIER();
    OK(PtlGet(from_bad, 0, len, to, PT, 0, 0, NULL));
    fails(1);
    OK(PtlPut(all, (ptl_size_t)(uintptr_t)bad, len, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0));
    fails(2);
    /* At addresses where nothing ever is. */
    OK(PtlPut(all, 64, len, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0));
    fails(2);
    OK(PtlGet(all, (ptl_size_t)1 << 62, len, to, PT, 0, 0, NULL));
    fails(1);
    works(from_good, len);
    drain();
    CHECK_GUARD(in, room);
    UNLINK(element);

    /* The target's memory. */
    if (limits.features & PTL_TARGET_BIND_INACCESSIBLE) {
        what = entry(bad, len, PTL_ME_OP_PUT | PTL_ME_OP_GET);
        element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
        BARRIER();
        OK(PtlPut(from_good, 0, len, PTL_ACK_REQ, to, PT, 0, 0, NULL, 0));
        fails(2);
        OK(PtlGet(from_good, 0, len, to, PT, 0, 0, NULL));
        fails(1);
        OK(PtlAtomic(from_good, 0, 8, PTL_ACK_REQ, to, PT, 0, len - 8, NULL, 0, PTL_BXOR,
                     PTL_UINT8_T));
        fails(2);
        drain();
        UNLINK(element);
        /* The whole of the address space, with the address as the offset. */
        what = entry(NULL, PTL_SIZE_MAX, PTL_ME_OP_PUT | PTL_ME_OP_GET);
        element = APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, NULL);
        uint64_t place = (uint64_t)(uintptr_t)in, *places = calloc((size_t)nprocs, 8);
        EXCHANGE(&place, 8, places);
        fill(good, len, seed_of(rank, rank_next(), len + 1));
        OK(PtlPut(from_good, 0, len, PTL_ACK_REQ, to, PT, 0, places[rank_next()], NULL, 0));
        CHECK_EQ(PUT_DONE(initiator).mlength, len);
        OK(PtlPut(from_good, 0, len, PTL_ACK_REQ, to, PT, 0, 64, NULL, 0));
        fails(2);
        BARRIER();
        VERIFY(in, len, seed_of(rank_before(), rank, len + 1));
        drain();
        UNLINK(element);
        free(places);
    }
    MD_RELEASE(from_good);
    MD_RELEASE(from_bad);
    MD_RELEASE(all);
    guarded_free(in);
    BARRIER();
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    room = 2 * MIB;
    good = guarded(room);
    /* Mapped, then not mapped, then mapped. */
    size_t part = 2 * MIB;
    hole = mmap(NULL, 3 * part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(hole != MAP_FAILED);
    memset(hole, 1, 3 * part);
    CHECK(munmap(hole + part, part) == 0);
    target = EQ_NEW(256), initiator = EQ_NEW(256);
    PT_NEW(0, target, PT);
    static const size_t lengths[] = {16, 64, 5000, 1048576};
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
        size_t len = lengths[i];
        if (len > limits.max_msg_size)
            continue;
        /* Wholly in the hole, and with only its last bytes there. */
        one(hole + part + 4096, len);
        one(hole + part - (len - 8), len);
    }
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    guarded_free(good);
    return test_end();
}
