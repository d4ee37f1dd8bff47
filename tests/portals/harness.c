/* See harness.h. */
#include "harness.h"

#include <signal.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

int rank, nprocs;
bool logical, matching;
ptl_handle_ni_t ni;
ptl_ni_limits_t limits;
ptl_process_t *peers;

static const char *program = "?";
static bool is_open;

int rank_next(void) { return (rank + 1) % nprocs; }
int rank_before(void) { return (rank + nprocs - 1) % nprocs; }

void fail_at(const char *file, int line, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *slash = strrchr(file, '/');
    fprintf(stderr, "FAILED at %s:%d in rank %d of %d: %s\n", slash ? slash + 1 : file, line, rank,
            nprocs, text);
    fflush(NULL);
    _exit(1);
}

static void on_alarm(int number)
{
    (void)number;
    static const char text[] = "FAILED: the watchdog ended a program that hangs\n";
    ssize_t written = write(2, text, sizeof text - 1);
    _exit(written > 0 ? 3 : 4);
}

/* The start of a job. */

void test_join(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    program = slash ? slash + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--logical") == 0)
            logical = true;
        else if (strcmp(argv[i], "--physical") == 0)
            logical = false;
        else if (strcmp(argv[i], "--me") == 0)
            matching = true;
        else if (strcmp(argv[i], "--le") == 0)
            matching = false;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGALRM, on_alarm);
    alarm(WATCHDOG_SECONDS);
    int code = SluiceJobInit(&rank, &nprocs);
    if (code != PTL_OK)
        FAIL("SluiceJobInit gives %s: %s", code_name(code), SluiceJobError());
}

unsigned int ni_options(void)
{
    return (matching ? PTL_NI_MATCHING : PTL_NI_NO_MATCHING) |
           (logical ? PTL_NI_LOGICAL : PTL_NI_PHYSICAL);
}

ptl_process_t *map_peers(ptl_handle_ni_t handle, bool is_logical)
{
    ptl_process_t mine;
    memset(&mine, 0, sizeof mine);
    OK(PtlGetPhysId(handle, &mine));
    ptl_process_t *all = calloc((size_t)nprocs, sizeof *all);
    CHECK(all != NULL);
    EXCHANGE(&mine, sizeof mine, all);
    if (is_logical) {
        OK(PtlSetMap(handle, (ptl_size_t)nprocs, all));
        for (int i = 0; i < nprocs; i++) {
            memset(&all[i], 0, sizeof all[i]);
            all[i].rank = (ptl_rank_t)i;
        }
        /* Nobody sends to one that has no map yet. */
        BARRIER();
    }
    return all;
}

void test_open(const ptl_ni_limits_t *desired)
{
    OK(PtlInit());
    OK(PtlNIInit(PTL_IFACE_DEFAULT, ni_options(), PTL_PID_ANY, desired, &limits, &ni));
    peers = map_peers(ni, logical);
    is_open = true;
}

void test_begin(int argc, char **argv)
{
    test_join(argc, argv);
    test_open(NULL);
}

int test_end(void)
{
    BARRIER();
    if (is_open) {
        OK(PtlNIFini(ni));
        PtlFini();
    }
    int code = SluiceJobFini();
    if (code != PTL_OK)
        FAIL("SluiceJobFini gives %s: %s", code_name(code), SluiceJobError());
    free(peers);
    if (rank == 0)
        printf("%s: all correct with %d processes, %s, %s\n", program, nprocs,
               logical ? "logical" : "physical", matching ? "matching" : "non-matching");
    return 0;
}

void test_skip(const char *why)
{
    if (rank == 0)
        printf("skip: %s\n", why);
    fflush(NULL);
    _exit(EXIT_SKIPPED);
}

ptl_ni_limits_t limits_all(int value)
{
    ptl_size_t bytes = (ptl_size_t)value;
    ptl_ni_limits_t all;
    memset(&all, 0, sizeof all);
    all.max_entries = all.max_unexpected_headers = all.max_mds = all.max_cts = all.max_eqs = value;
    all.max_pt_index = all.max_iovecs = all.max_list_size = all.max_triggered_ops = value;
    all.max_msg_size = all.max_atomic_size = all.max_fetch_atomic_size = bytes;
    all.max_waw_ordered_size = all.max_war_ordered_size = all.max_volatile_size = bytes;
    return all;
}

ptl_process_t anyone(void)
{
    ptl_process_t any;
    memset(&any, 0, sizeof any);
    if (logical) {
        any.rank = PTL_RANK_ANY;
    } else {
        any.phys.nid = PTL_NID_ANY;
        any.phys.pid = PTL_PID_ANY;
    }
    return any;
}

bool same_process(ptl_process_t a, ptl_process_t b)
{
    return logical ? a.rank == b.rank : a.phys.nid == b.phys.nid && a.phys.pid == b.phys.pid;
}

void barrier_at(const char *file, int line)
{
    int code = SluiceJobBarrier();
    if (code != PTL_OK)
        fail_at(file, line, "SluiceJobBarrier gives %s: %s", code_name(code), SluiceJobError());
}

void exchange_at(const char *file, int line, const void *mine, size_t bytes, void *all)
{
    int code = SluiceJobExchange(mine, bytes, all);
    if (code != PTL_OK)
        fail_at(file, line, "SluiceJobExchange gives %s: %s", code_name(code), SluiceJobError());
}

/* Names and checks. */

const char *code_name(int code)
{
#define NAME(name)                                                                                 \
    case name:                                                                                     \
        return #name
    switch (code) {
        NAME(PTL_OK);
        NAME(PTL_ARG_INVALID);
        NAME(PTL_CT_NONE_REACHED);
        NAME(PTL_EQ_DROPPED);
        NAME(PTL_EQ_EMPTY);
        NAME(PTL_FAIL);
        NAME(PTL_IGNORED);
        NAME(PTL_IN_USE);
        NAME(PTL_LIST_TOO_LONG);
        NAME(PTL_NO_INIT);
        NAME(PTL_NO_SPACE);
        NAME(PTL_PID_IN_USE);
        NAME(PTL_PT_FULL);
        NAME(PTL_PT_EQ_NEEDED);
        NAME(PTL_PT_IN_USE);
        NAME(PTL_ABORTED);
    }
    return "an unknown code";
}

const char *event_name(int kind)
{
    switch (kind) {
        NAME(PTL_EVENT_GET);
        NAME(PTL_EVENT_GET_OVERFLOW);
        NAME(PTL_EVENT_PUT);
        NAME(PTL_EVENT_PUT_OVERFLOW);
        NAME(PTL_EVENT_ATOMIC);
        NAME(PTL_EVENT_ATOMIC_OVERFLOW);
        NAME(PTL_EVENT_FETCH_ATOMIC);
        NAME(PTL_EVENT_FETCH_ATOMIC_OVERFLOW);
        NAME(PTL_EVENT_REPLY);
        NAME(PTL_EVENT_SEND);
        NAME(PTL_EVENT_ACK);
        NAME(PTL_EVENT_PT_DISABLED);
        NAME(PTL_EVENT_LINK);
        NAME(PTL_EVENT_AUTO_UNLINK);
        NAME(PTL_EVENT_AUTO_FREE);
        NAME(PTL_EVENT_SEARCH);
    }
    return "an unknown event";
}

const char *fail_name(int fail)
{
    switch (fail) {
        NAME(PTL_NI_OK);
        NAME(PTL_NI_UNDELIVERABLE);
        NAME(PTL_NI_DROPPED);
        NAME(PTL_NI_PT_DISABLED);
        NAME(PTL_NI_PERM_VIOLATION);
        NAME(PTL_NI_OP_VIOLATION);
        NAME(PTL_NI_NO_MATCH);
        NAME(PTL_NI_SEGV);
    }
    return "an unknown failure";
}

void check_eq_at(const char *file, int line, const char *what, uint64_t got, uint64_t expected)
{
    if (got != expected)
        fail_at(file, line, "%s is %llu (0x%llx), expected %llu (0x%llx)", what,
                (unsigned long long)got, (unsigned long long)got, (unsigned long long)expected,
                (unsigned long long)expected);
}

void check_code_at(const char *file, int line, const char *what, int got, int expected)
{
    if (got != expected)
        fail_at(file, line, "%s gives %s (%d), expected %s", what, code_name(got), got,
                code_name(expected));
}

/* Objects. */

ptl_handle_eq_t eq_new_at(const char *file, int line, ptl_size_t count)
{
    ptl_handle_eq_t eq = PTL_EQ_NONE;
    check_code_at(file, line, "PtlEQAlloc", PtlEQAlloc(ni, count, &eq), PTL_OK);
    return eq;
}

ptl_handle_ct_t ct_new_at(const char *file, int line)
{
    ptl_handle_ct_t ct = PTL_CT_NONE;
    check_code_at(file, line, "PtlCTAlloc", PtlCTAlloc(ni, &ct), PTL_OK);
    return ct;
}

ptl_pt_index_t pt_new_at(const char *file, int line, unsigned int options, ptl_handle_eq_t eq,
                         ptl_pt_index_t index)
{
    ptl_pt_index_t pt = PTL_PT_ANY;
    check_code_at(file, line, "PtlPTAlloc", PtlPTAlloc(ni, options, eq, index, &pt), PTL_OK);
    if (index != PTL_PT_ANY)
        check_eq_at(file, line, "the index allocated", pt, index);
    return pt;
}

ptl_handle_md_t md_new_at(const char *file, int line, const void *start, ptl_size_t length,
                          unsigned int options, ptl_handle_eq_t eq, ptl_handle_ct_t ct)
{
    ptl_md_t md;
    memset(&md, 0, sizeof md);
    md.start = (void *)(uintptr_t)start;
    md.length = length;
    md.options = options;
    md.eq_handle = eq;
    md.ct_handle = ct;
    ptl_handle_md_t handle = PTL_INVALID_HANDLE;
    check_code_at(file, line, "PtlMDBind", PtlMDBind(ni, &md, &handle), PTL_OK);
    return handle;
}

void md_release_at(const char *file, int line, ptl_handle_md_t md)
{
    int code = PtlMDRelease(md);
    for (int tries = 0; code == PTL_IN_USE && tries < WAIT_MS; tries++) {
        sleep_ms(1);
        code = PtlMDRelease(md);
    }
    check_code_at(file, line, "PtlMDRelease", code, PTL_OK);
}

ptl_me_t entry(void *start, ptl_size_t length, unsigned int options)
{
    ptl_me_t what;
    memset(&what, 0, sizeof what);
    what.start = start;
    what.length = length;
    what.ct_handle = PTL_CT_NONE;
    what.uid = PTL_UID_ANY;
    what.options = options;
    what.match_id = anyone();
    return what;
}

static ptl_le_t plain(const ptl_me_t *what)
{
    ptl_le_t le;
    memset(&le, 0, sizeof le);
    le.start = what->start;
    le.length = what->length;
    le.ct_handle = what->ct_handle;
    le.uid = what->uid;
    le.options = what->options;
    return le;
}

int append_code(ptl_pt_index_t pt, const ptl_me_t *what, ptl_list_t list, void *user_ptr,
                ptl_handle_me_t *handle)
{
    if (matching)
        return PtlMEAppend(ni, pt, what, list, user_ptr, handle);
    ptl_le_t le = plain(what);
    return PtlLEAppend(ni, pt, &le, list, user_ptr, handle);
}

int unlink_code(ptl_handle_me_t handle)
{
    return matching ? PtlMEUnlink(handle) : PtlLEUnlink(handle);
}

int search_code(ptl_pt_index_t pt, const ptl_me_t *what, ptl_search_op_t op, void *user_ptr)
{
    if (matching)
        return PtlMESearch(ni, pt, what, op, user_ptr);
    ptl_le_t le = plain(what);
    return PtlLESearch(ni, pt, &le, op, user_ptr);
}

ptl_handle_me_t append_at(const char *file, int line, ptl_pt_index_t pt, const ptl_me_t *what,
                          ptl_list_t list, void *user_ptr)
{
    ptl_handle_me_t handle = PTL_INVALID_HANDLE;
    int code = append_code(pt, what, list, user_ptr, &handle);
    check_code_at(file, line, matching ? "PtlMEAppend" : "PtlLEAppend", code, PTL_OK);
    return handle;
}

ptl_handle_me_t append_quiet_at(const char *file, int line, ptl_pt_index_t pt,
                                const ptl_me_t *what, ptl_list_t list, void *user_ptr)
{
    ptl_me_t quiet = *what;
    quiet.options |= PTL_ME_EVENT_LINK_DISABLE;
    return append_at(file, line, pt, &quiet, list, user_ptr);
}

void unlink_at(const char *file, int line, ptl_handle_me_t handle)
{
    int code = unlink_code(handle);
    for (int tries = 0; code == PTL_IN_USE && tries < WAIT_MS; tries++) {
        sleep_ms(1);
        code = unlink_code(handle);
    }
    check_code_at(file, line, matching ? "PtlMEUnlink" : "PtlLEUnlink", code, PTL_OK);
}

/* Events and counts. */

ptl_event_t next_at(const char *file, int line, ptl_handle_eq_t eq)
{
    ptl_event_t event;
    memset(&event, 0, sizeof event);
    unsigned int which = 99;
    int code = PtlEQPoll(&eq, 1, WAIT_MS, &event, &which);
    check_code_at(file, line, "waiting for an event", code, PTL_OK);
    check_eq_at(file, line, "which", which, 0);
    return event;
}

static void show_event(char *text, size_t len, const ptl_event_t *e)
{
    snprintf(text, len, "%s with %s (list %d, rlength %llu, mlength %llu, hdr_data 0x%llx)",
             event_name(e->type), fail_name(e->ni_fail_type), e->ptl_list,
             (unsigned long long)e->rlength, (unsigned long long)e->mlength,
             (unsigned long long)e->hdr_data);
}

ptl_event_t expect_at(const char *file, int line, ptl_handle_eq_t eq, int kind, int fail)
{
    ptl_event_t event;
    memset(&event, 0, sizeof event);
    unsigned int which;
    int code = PtlEQPoll(&eq, 1, WAIT_MS, &event, &which);
    if (code != PTL_OK)
        fail_at(file, line, "expected %s with %s, came %s", event_name(kind), fail_name(fail),
                code_name(code));
    if (event.type != kind || event.ni_fail_type != fail) {
        char text[200];
        show_event(text, sizeof text, &event);
        fail_at(file, line, "expected %s with %s, came %s", event_name(kind), fail_name(fail),
                text);
    }
    return event;
}

void expect_nothing_at(const char *file, int line, ptl_handle_eq_t eq)
{
    ptl_event_t event;
    memset(&event, 0, sizeof event);
    unsigned int which;
    int code = PtlEQPoll(&eq, 1, QUIET_MS, &event, &which);
    if (code != PTL_EQ_EMPTY) {
        char text[200];
        show_event(text, sizeof text, &event);
        fail_at(file, line, "expected no event, came %s, %s", code_name(code), text);
    }
}

ptl_event_t expect_both_at(const char *file, int line, ptl_handle_eq_t eq, int first, int second)
{
    ptl_event_t a = next_at(file, line, eq), b = next_at(file, line, eq);
    bool in_order = a.type == first && b.type == second;
    bool turned = a.type == second && b.type == first;
    if ((!in_order && !turned) || a.ni_fail_type != PTL_NI_OK || b.ni_fail_type != PTL_NI_OK) {
        char one[200], two[200];
        show_event(one, sizeof one, &a);
        show_event(two, sizeof two, &b);
        fail_at(file, line, "expected %s and %s, came %s and %s", event_name(first),
                event_name(second), one, two);
    }
    return in_order ? a : b;
}

ptl_event_t put_done_at(const char *file, int line, ptl_handle_eq_t eq)
{
    return expect_both_at(file, line, eq, PTL_EVENT_ACK, PTL_EVENT_SEND);
}

void expect_ct_at(const char *file, int line, ptl_handle_ct_t ct, ptl_size_t success,
                  ptl_size_t failure)
{
    /* A wait also ends at a failure, before the sum is reached. */
    uint64_t end = now_ms() + WAIT_MS;
    ptl_ct_event_t value = {0, 0};
    ptl_size_t sum = success + failure;
    unsigned int which;
    if (failure == 0) {
        int code = PtlCTPoll(&ct, &sum, 1, WAIT_MS, &value, &which);
        if (code != PTL_OK)
            check_code_at(file, line, "PtlCTGet", PtlCTGet(ct, &value), PTL_OK);
    } else {
        do {
            check_code_at(file, line, "PtlCTGet", PtlCTGet(ct, &value), PTL_OK);
            if (value.success + value.failure < sum)
                sleep_ms(1);
        } while (value.success + value.failure < sum && now_ms() < end);
    }
    if (value.success != success || value.failure != failure)
        fail_at(file, line, "a counter is %llu/%llu, expected %llu/%llu",
                (unsigned long long)value.success, (unsigned long long)value.failure,
                (unsigned long long)success, (unsigned long long)failure);
}

void ct_is_at(const char *file, int line, ptl_handle_ct_t ct, ptl_size_t success,
              ptl_size_t failure)
{
    ptl_ct_event_t value = {77, 77};
    check_code_at(file, line, "PtlCTGet", PtlCTGet(ct, &value), PTL_OK);
    if (value.success != success || value.failure != failure)
        fail_at(file, line, "a counter is %llu/%llu, expected %llu/%llu",
                (unsigned long long)value.success, (unsigned long long)value.failure,
                (unsigned long long)success, (unsigned long long)failure);
}

int sr_value(ptl_sr_index_t which)
{
    ptl_sr_value_t value = -1;
    OK(PtlNIStatus(ni, which, &value));
    return value;
}

/* Bytes. */

uint64_t mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t seed_of(int source, int target, uint64_t number)
{
    return mix64(mix64(((uint64_t)(uint32_t)source << 32) | (uint32_t)target) ^ mix64(number));
}

void fill(void *buffer, size_t len, uint64_t seed)
{
    uint8_t *bytes = buffer;
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = mix64(seed + at);
        memcpy(bytes + at, &word, len - at < 8 ? len - at : 8);
    }
}

void verify_at(const char *file, int line, const void *buffer, size_t len, uint64_t seed)
{
    const uint8_t *bytes = buffer;
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = mix64(seed + at);
        size_t count = len - at < 8 ? len - at : 8;
        if (memcmp(bytes + at, &word, count) == 0)
            continue;
        size_t i = 0;
        while (bytes[at + i] == ((uint8_t *)&word)[i])
            i++;
        fail_at(file, line, "byte %zu of %zu is 0x%02x, expected 0x%02x", at + i, len,
                bytes[at + i], ((uint8_t *)&word)[i]);
    }
}

uint8_t *guarded(size_t len)
{
    uint8_t *whole = malloc(len + 2 * CANARY_BYTES);
    CHECK(whole != NULL);
    memset(whole, CANARY, len + 2 * CANARY_BYTES);
    return whole + CANARY_BYTES;
}

void guarded_free(uint8_t *buffer) { free(buffer - CANARY_BYTES); }

void check_guard_at(const char *file, int line, const uint8_t *buffer, size_t len)
{
    for (size_t i = 0; i < CANARY_BYTES; i++) {
        if (buffer[len + i] != CANARY)
            fail_at(file, line, "byte %zu behind a buffer of %zu was overwritten", i, len);
        if (buffer[-1 - (ptrdiff_t)i] != CANARY)
            fail_at(file, line, "byte %zu before a buffer of %zu was overwritten", i + 1, len);
    }
}

void check_untouched_at(const char *file, int line, const uint8_t *buffer, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (buffer[i] != CANARY)
            fail_at(file, line, "byte %zu of %zu was overwritten", i, len);
}

void sleep_ms(int ms)
{
    struct timespec time = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&time, NULL);
}

uint64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

void spin_ms(int ms)
{
    uint64_t end = now_ms() + (uint64_t)ms;
    while (now_ms() < end)
        ;
}
