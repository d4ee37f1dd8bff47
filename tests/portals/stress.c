/* A random mix to random processes, several under way at a time; each process keeps a copy of
 * what it wrote, and in the end the targets' checksums must be those of the copies. The seed is
 * the environment's SLUICE_TEST_SEED, or 1. */
#include "harness.h"

enum { PT = 4, PARTS = 8, PART = 16384, SLOT = PARTS * PART, BATCHES = 120 };

static uint64_t state;
static uint64_t draw(uint64_t below) { return (state = mix64(state)) % below; }

static uint64_t checksum(const uint8_t *bytes, size_t len)
{
    uint64_t sum = 7;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        sum = mix64(sum ^ word) + i;
    }
    return sum;
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    const char *seed = getenv("SLUICE_TEST_SEED");
    state = seed_of(rank, nprocs, seed ? strtoull(seed, NULL, 0) : 1);
    uint8_t *in = guarded((size_t)nprocs * SLOT), *copy = calloc((size_t)nprocs, SLOT);
    uint8_t *out = guarded(SLOT), *back = guarded(SLOT);
    memset(in, 0, (size_t)nprocs * SLOT);
    ptl_handle_eq_t initiator = EQ_NEW(256);
    ptl_handle_ct_t arrived = CT_NEW();
    PT_NEW(0, PTL_EQ_NONE, PT);
    ptl_me_t what = entry(in, (size_t)nprocs * SLOT,
                          PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_CT_COMM);
    what.ct_handle = arrived;
    ptl_handle_me_t element = APPEND(PT, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, SLOT, PTL_MD_EVENT_SEND_DISABLE, initiator, PTL_CT_NONE);
    ptl_handle_md_t into = MD_NEW(back, SLOT, 0, initiator, PTL_CT_NONE);
    uint64_t *issued = calloc((size_t)nprocs, 8), *all = calloc((size_t)nprocs * (size_t)nprocs, 8);
    BARRIER();
    for (int batch = 0; batch < BATCHES; batch++) {
        struct {
            int to, what;
            size_t at, len;
        } op[PARTS];
        int count = 1 + (int)draw(PARTS);
        bool whole = draw(10) == 0 && SLOT <= limits.max_msg_size;
        if (whole)
            count = 1;
        fill(out, SLOT, draw(UINT64_MAX));
        for (int i = 0; i < count; i++) {
            op[i].to = (int)draw((uint64_t)nprocs);
            op[i].what = (int)draw(4);
            size_t room = whole ? SLOT : PART;
            op[i].len = (size_t)draw(3) == 0 ? (size_t)draw(room) : (size_t)draw(200);
            op[i].at = (size_t)i * PART + (size_t)draw(room - op[i].len + 1);
            if (op[i].what >= 2) {
                /* One item, aligned. */
                op[i].at = op[i].at / 8 * 8;
                size_t end = (size_t)i * PART + room;
                if (op[i].at + 8 > end)
                    op[i].at = end - 8;
                op[i].len = 8;
            }
            size_t at = op[i].at, len = op[i].len;
            uint8_t *mirror = copy + (size_t)op[i].to * SLOT + at;
            ptl_process_t to = peers[op[i].to];
            ptl_size_t remote = (ptl_size_t)rank * SLOT + at;
            void *which = (void *)(intptr_t)i;
            issued[op[i].to]++;
            if (op[i].what == 0) {
                OK(PtlPut(md, at, len, PTL_ACK_REQ, to, PT, 0, remote, which, 0));
                memcpy(mirror, out + at, len);
            } else if (op[i].what == 1) {
                OK(PtlGet(into, at, len, to, PT, 0, remote, which));
            } else {
                uint64_t value, add;
                memcpy(&value, mirror, 8);
                memcpy(&add, out + at, 8);
                if (op[i].what == 2) {
                    OK(PtlAtomic(md, at, 8, PTL_ACK_REQ, to, PT, 0, remote, which, 0, PTL_SUM,
                                 PTL_UINT64_T));
                } else {
                    OK(PtlFetchAtomic(into, at, md, at, 8, to, PT, 0, remote, which, 0, PTL_SUM,
                                      PTL_UINT64_T));
                }
                value += add;
                memcpy(mirror, &value, 8);
            }
        }
        for (int i = 0; i < count; i++) {
            ptl_event_t event = NEXT(initiator);
            CHECK_EQ(event.ni_fail_type, PTL_NI_OK);
            int which = (int)(intptr_t)event.user_ptr;
            CHECK(which >= 0 && which < count);
            CHECK_EQ(event.type, op[which].what & 1 ? PTL_EVENT_REPLY : PTL_EVENT_ACK);
            CHECK_EQ(event.mlength, op[which].len);
            const uint8_t *mirror = copy + (size_t)op[which].to * SLOT + op[which].at;
            if (op[which].what == 1 && memcmp(back + op[which].at, mirror, op[which].len) != 0)
                FAIL("batch %d: a get of %zu bytes at %zu brought something else", batch,
                     op[which].len, op[which].at);
            if (op[which].what == 3) {
                uint64_t before, add, after;
                memcpy(&before, back + op[which].at, 8);
                memcpy(&add, out + op[which].at, 8);
                memcpy(&after, mirror, 8);
                CHECK_EQ(before + add, after);
            }
        }
    }
    /* Everything counted once, and everything where it belongs. */
    EXCHANGE(issued, (size_t)nprocs * 8, all);
    ptl_size_t expected = 0;
    for (int i = 0; i < nprocs; i++)
        expected += all[i * nprocs + rank];
    EXPECT_CT(arrived, expected, 0);
    OK(PtlAtomicSync());
    for (int i = 0; i < nprocs; i++)
        issued[i] = checksum(copy + (size_t)i * SLOT, SLOT);
    EXCHANGE(issued, (size_t)nprocs * 8, all);
    for (int i = 0; i < nprocs; i++)
        if (all[i * nprocs + rank] != checksum(in + (size_t)i * SLOT, SLOT))
            FAIL("what rank %d wrote is not what is here", i);
    CHECK_GUARD(in, (size_t)nprocs * SLOT);
    CHECK_GUARD(back, SLOT);
    UNLINK(element);
    MD_RELEASE(md);
    MD_RELEASE(into);
    OK(PtlCTFree(arrived));
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(initiator));
    guarded_free(in), guarded_free(out), guarded_free(back);
    free(copy), free(issued), free(all);
    return test_end();
}
