/* Which entry a message takes: bits, ignored bits, sources, the order of the list, and the
 * life of entries that are used once. */
#include "harness.h"

enum { PT = 4 };

static ptl_handle_eq_t target, initiator;
static ptl_handle_md_t md;
static char name[16];

static void put(ptl_match_bits_t bits, ptl_hdr_data_t data)
{
    OK(PtlPut(md, 0, 1, PTL_ACK_REQ, peers[rank_next()], PT, bits, 0, NULL, data));
}

static void taken_by(const char *who, ptl_hdr_data_t data)
{
    ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
    if (event.user_ptr != who)
        FAIL("entry %d took message %d, expected entry %d", (int)((char *)event.user_ptr - name),
             (int)data, (int)(who - name));
    CHECK_EQ(event.hdr_data, data);
    PUT_DONE(initiator);
}

static void dropped(void)
{
    EXPECT(initiator, PTL_EVENT_SEND);
    EXPECT_FAIL(initiator, PTL_EVENT_ACK, PTL_NI_DROPPED);
}

static ptl_handle_me_t post(int who, ptl_match_bits_t bits, ptl_match_bits_t ignore,
                            ptl_process_t source, unsigned int options)
{
    static char byte;
    ptl_me_t what = entry(&byte, 1, PTL_ME_OP_PUT | options);
    what.match_bits = bits;
    what.ignore_bits = ignore;
    what.match_id = source;
    return APPEND_QUIET(PT, &what, PTL_PRIORITY_LIST, &name[who]);
}

static void by_bits(void)
{
    ptl_match_bits_t top = (ptl_match_bits_t)1 << 63, low = 0xff;
    ptl_handle_me_t element[] = {
        post(0, 5, 0, anyone(), 0),           post(1, 5 | top, 0, anyone(), 0),
        post(2, 0x1200, low, anyone(), 0),    post(3, 0x1200, 0xfff, anyone(), 0),
        post(4, 0xffff0000, top | low, anyone(), 0),
    };
    BARRIER();
    put(5, 1), taken_by(&name[0], 1);
    put(5 | top, 2), taken_by(&name[1], 2);
    put(6, 3), dropped();
    put(0x1234, 4), taken_by(&name[2], 4);
    put(0x12ff, 5), taken_by(&name[2], 5);
    put(0x2300, 6), dropped();
    put(0x1abc, 7), taken_by(&name[3], 7);
    put(0xffff00aa | top, 8), taken_by(&name[4], 8);
    put(0xffff0100, 9), dropped();
    put(~(ptl_match_bits_t)0, 10), dropped();
    BARRIER();
    for (size_t i = 0; i < ARRAY_COUNT(element); i++)
        UNLINK(element[i]);

    /* All ignored takes everything; what comes first in the list is taken. */
    ptl_handle_me_t narrow = post(0, 7, 0, anyone(), 0);
    ptl_handle_me_t wide = post(1, 0, ~(ptl_match_bits_t)0, anyone(), 0);
    ptl_handle_me_t never = post(2, 8, 0, anyone(), 0);
    BARRIER();
    put(7, 1), taken_by(&name[0], 1);
    put(8, 2), taken_by(&name[1], 2);
    BARRIER();
    UNLINK(wide);
    BARRIER();
    put(8, 3), taken_by(&name[2], 3);
    put(9, 4), dropped();
    BARRIER();
    UNLINK(narrow);
    UNLINK(never);
}

/* Everybody sends to everybody; each source has an entry of its own, and its own bits. */
static void by_source(void)
{
    ptl_handle_me_t *element = calloc((size_t)nprocs + 1, sizeof *element);
    int *taken = calloc((size_t)nprocs, sizeof *taken);
    for (int i = 0; i < nprocs; i++)
        element[i] = post(i % 15, 1, 0, peers[i], 0);
    element[nprocs] = post(15, 0, ~(ptl_match_bits_t)0, anyone(), 0);
    BARRIER();
    for (int i = 0; i < nprocs; i++) {
        int to = (rank + i) % nprocs;
        OK(PtlPut(md, 0, 1, PTL_ACK_REQ, peers[to], PT, 1, 0, NULL, (ptl_hdr_data_t)rank));
        OK(PtlPut(md, 0, 1, PTL_ACK_REQ, peers[to], PT, 2, 0, NULL, (ptl_hdr_data_t)rank));
    }
    for (int i = 0; i < 2 * nprocs; i++) {
        ptl_event_t event = EXPECT(target, PTL_EVENT_PUT);
        int source = (int)event.hdr_data;
        CHECK(source >= 0 && source < nprocs);
        CHECK_FROM(event, source);
        CHECK(event.user_ptr == &name[event.match_bits == 1 ? source % 15 : 15]);
        /* From one source, what was sent first comes first. */
        CHECK_EQ(event.match_bits, ++taken[source]);
    }
    for (int i = 0; i < 4 * nprocs; i++)
        CHECK_EQ(NEXT(initiator).ni_fail_type, PTL_NI_OK);
    BARRIER();
    for (int i = 0; i <= nprocs; i++)
        UNLINK(element[i]);
    free(element), free(taken);
}

/* Several that fit are taken in the order in which they were appended, each once. */
static void once(void)
{
    ptl_handle_me_t element[4];
    for (int i = 0; i < 4; i++)
        element[i] = post(i, 0, i & 1 ? ~(ptl_match_bits_t)0 : 0, anyone(), PTL_ME_USE_ONCE);
    BARRIER();
    for (int i = 0; i < 4; i++) {
        put(0, (ptl_hdr_data_t)i);
        ptl_event_t event = EXPECT_BOTH(target, PTL_EVENT_PUT, PTL_EVENT_AUTO_UNLINK);
        CHECK(event.user_ptr == &name[i]);
        PUT_DONE(initiator);
        CHECK_CODE(unlink_code(element[i]), PTL_ARG_INVALID);
    }
    put(0, 9), dropped();
    BARRIER();

    /* One that stays keeps those behind it from being taken. */
    ptl_handle_me_t stays = post(0, 0, 0, anyone(), 0);
    ptl_handle_me_t behind = post(1, 0, 0, anyone(), PTL_ME_USE_ONCE);
    BARRIER();
    for (int i = 0; i < 5; i++)
        put(0, (ptl_hdr_data_t)i), taken_by(&name[0], (ptl_hdr_data_t)i);
    BARRIER();
    UNLINK(stays);
    BARRIER();
    put(0, 6);
    ptl_event_t event = EXPECT_BOTH(target, PTL_EVENT_PUT, PTL_EVENT_AUTO_UNLINK);
    CHECK(event.user_ptr == &name[1]);
    PUT_DONE(initiator);
    CHECK_CODE(unlink_code(behind), PTL_ARG_INVALID);
    BARRIER();

    /* Without the unlink event, and without the communication event. */
    post(2, 0, 0, anyone(), PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE);
    post(3, 0, 0, anyone(), PTL_ME_USE_ONCE | PTL_ME_EVENT_COMM_DISABLE);
    post(4, 0, 0, anyone(), PTL_ME_USE_ONCE | PTL_ME_EVENT_SUCCESS_DISABLE);
    post(5, 0, 0, anyone(), PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE);
    BARRIER();
    for (int i = 0; i < 4; i++) {
        put(0, (ptl_hdr_data_t)i);
        PUT_DONE(initiator);
    }
    event = EXPECT(target, PTL_EVENT_PUT);
    CHECK(event.user_ptr == &name[2]);
    event = EXPECT(target, PTL_EVENT_AUTO_UNLINK);
    CHECK(event.user_ptr == &name[3]);
    /* Whether an unlink counts as a success to be silent about is left open. */
    event = NEXT(target);
    if (event.type == PTL_EVENT_AUTO_UNLINK)
        event = NEXT(target);
    CHECK_EQ(event.type, PTL_EVENT_PUT);
    CHECK(event.user_ptr == &name[5]);
    BARRIER();
}

/* A source of which only the node or only the process is named. Where the processes of the job
 * are of several nodes it is refused, and by all of them. */
static void by_part_of_source(void)
{
    bool is_one_node = true;
    for (int i = 0; i < nprocs; i++)
        is_one_node = is_one_node && peers[i].phys.nid == peers[0].phys.nid;
    for (int part = 0; part < 2; part++) {
        char byte;
        ptl_me_t what = entry(&byte, 1, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
        what.match_bits = 3;
        what.match_id = peers[rank_before()];
        if (part == 0)
            what.match_id.phys.pid = PTL_PID_ANY;
        else
            what.match_id.phys.nid = PTL_NID_ANY;
        ptl_handle_me_t element;
        int code = append_code(PT, &what, PTL_PRIORITY_LIST, &name[part], &element);
        if (code == PTL_ARG_INVALID)
            continue;
        CHECK_CODE(code, PTL_OK);
        CHECK(is_one_node);
        BARRIER();
        put(3, 1), taken_by(&name[part], 1);
        BARRIER();
        UNLINK(element);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    target = EQ_NEW(128), initiator = EQ_NEW(128);
    char byte = 1;
    md = MD_NEW(&byte, 1, 0, initiator, PTL_CT_NONE);
    PT_NEW(0, target, PT);
    if (matching) {
        by_bits();
        by_source();
        if (!logical)
            by_part_of_source();
    }
    once();
    EXPECT_NOTHING(target);
    EXPECT_NOTHING(initiator);
    MD_RELEASE(md);
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
    return test_end();
}
