/* What every conformance program shares: the start of a job, entries of either
 * kind, checks that end the program with a message on the first wrong thing, and
 * waits that never take longer than ten seconds.
 *
 * A program runs in four variants: --physical or --logical addressing, and --le
 * (a non-matching interface, list entries) or --me (a matching interface). */
#ifndef SLUICE_PORTALS_HARNESS_H
#define SLUICE_PORTALS_HARNESS_H

#include <portals4.h>
#include <sluice_job.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exit status that the runner counts as skipped. */
#define EXIT_SKIPPED 77
#define WAIT_MS 10000
#define WATCHDOG_SECONDS 60
/* Long enough that what must not come would have come. */
#define QUIET_MS 60

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define ARRAY_COUNT(array) (sizeof(array) / sizeof(array)[0])

extern int rank, nprocs;
extern bool logical, matching;

/* The interface that test_begin opened, its limits, and the address of every rank in
 * the interface's way of addressing. */
extern ptl_handle_ni_t ni;
extern ptl_ni_limits_t limits;
extern ptl_process_t *peers;

/* The neighbours in the ring. */
int rank_next(void);
int rank_before(void);

/* Joins the job and reads the options, without any call of Portals. */
void test_join(int argc, char **argv);
/* Opens the interface of this variant; `desired` may be NULL. */
void test_open(const ptl_ni_limits_t *desired);
/* Both. */
void test_begin(int argc, char **argv);
/* Meets the others, closes what test_open opened; gives main's exit status. */
int test_end(void);
void test_skip(const char *why) __attribute__((noreturn));

unsigned int ni_options(void);
/* Limits in which every value is `value`. */
ptl_ni_limits_t limits_all(int value);
/* Gives the addresses of all ranks on an interface, and sets its map if logical. */
ptl_process_t *map_peers(ptl_handle_ni_t handle, bool is_logical);
ptl_process_t anyone(void);
bool same_process(ptl_process_t a, ptl_process_t b);

void fail_at(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            FAIL("%s is not so", #condition);                                                      \
    } while (0)

#define CHECK_EQ(got, expected)                                                                    \
    check_eq_at(__FILE__, __LINE__, #got, (uint64_t)(got), (uint64_t)(expected))

#define CHECK_CODE(call, code) check_code_at(__FILE__, __LINE__, #call, (call), (code))
#define OK(call) CHECK_CODE(call, PTL_OK)

void check_eq_at(const char *file, int line, const char *what, uint64_t got, uint64_t expected);
void check_code_at(const char *file, int line, const char *what, int got, int expected);
const char *code_name(int code);
const char *event_name(int kind);
const char *fail_name(int fail);

#define BARRIER() barrier_at(__FILE__, __LINE__)
#define EXCHANGE(mine, bytes, all) exchange_at(__FILE__, __LINE__, mine, bytes, all)
void barrier_at(const char *file, int line);
void exchange_at(const char *file, int line, const void *mine, size_t bytes, void *all);

/* Queues, counters, tables, descriptors: each call must succeed. */
#define EQ_NEW(count) eq_new_at(__FILE__, __LINE__, count)
#define CT_NEW() ct_new_at(__FILE__, __LINE__)
#define PT_NEW(options, eq, index) pt_new_at(__FILE__, __LINE__, options, eq, index)
#define MD_NEW(start, length, options, eq, ct)                                                     \
    md_new_at(__FILE__, __LINE__, start, length, options, eq, ct)
ptl_handle_eq_t eq_new_at(const char *file, int line, ptl_size_t count);
ptl_handle_ct_t ct_new_at(const char *file, int line);
ptl_pt_index_t pt_new_at(const char *file, int line, unsigned int options, ptl_handle_eq_t eq,
                         ptl_pt_index_t index);
ptl_handle_md_t md_new_at(const char *file, int line, const void *start, ptl_size_t length,
                          unsigned int options, ptl_handle_eq_t eq, ptl_handle_ct_t ct);

/* Releases; IN_USE may be the answer for a while, but not for long. */
#define MD_RELEASE(md) md_release_at(__FILE__, __LINE__, md)
void md_release_at(const char *file, int line, ptl_handle_md_t md);

/* Entries of this variant's kind. An entry is written as a match list entry; in the
 * non-matching variants its matching part is left out. */
ptl_me_t entry(void *start, ptl_size_t length, unsigned int options);
int append_code(ptl_pt_index_t pt, const ptl_me_t *what, ptl_list_t list, void *user_ptr,
                ptl_handle_me_t *handle);
int unlink_code(ptl_handle_me_t handle);
int search_code(ptl_pt_index_t pt, const ptl_me_t *what, ptl_search_op_t op, void *user_ptr);

#define APPEND(pt, what, list, user_ptr) append_at(__FILE__, __LINE__, pt, what, list, user_ptr)
/* Unlinks; IN_USE may be the answer for a while, but not for long. */
#define UNLINK(handle) unlink_at(__FILE__, __LINE__, handle)
#define SEARCH(pt, what, op, user_ptr) OK(search_code(pt, what, op, user_ptr))
ptl_handle_me_t append_at(const char *file, int line, ptl_pt_index_t pt, const ptl_me_t *what,
                          ptl_list_t list, void *user_ptr);
void unlink_at(const char *file, int line, ptl_handle_me_t handle);
/* Appends an entry without its LINK event. */
#define APPEND_QUIET(pt, what, list, user_ptr)                                                     \
    append_quiet_at(__FILE__, __LINE__, pt, what, list, user_ptr)
ptl_handle_me_t append_quiet_at(const char *file, int line, ptl_pt_index_t pt,
                                const ptl_me_t *what, ptl_list_t list, void *user_ptr);

/* Events. */
#define NEXT(eq) next_at(__FILE__, __LINE__, eq)
#define EXPECT(eq, kind) expect_at(__FILE__, __LINE__, eq, kind, PTL_NI_OK)
#define EXPECT_FAIL(eq, kind, fail) expect_at(__FILE__, __LINE__, eq, kind, fail)
#define EXPECT_NOTHING(eq) expect_nothing_at(__FILE__, __LINE__, eq)
/* One SEND and one ACK, both successful; gives the ACK. */
#define PUT_DONE(eq) put_done_at(__FILE__, __LINE__, eq)
/* Two successful events in either order; gives the one of the first kind. */
#define EXPECT_BOTH(eq, first, second) expect_both_at(__FILE__, __LINE__, eq, first, second)
ptl_event_t expect_both_at(const char *file, int line, ptl_handle_eq_t eq, int first, int second);
ptl_event_t next_at(const char *file, int line, ptl_handle_eq_t eq);
ptl_event_t expect_at(const char *file, int line, ptl_handle_eq_t eq, int kind, int fail);
void expect_nothing_at(const char *file, int line, ptl_handle_eq_t eq);
ptl_event_t put_done_at(const char *file, int line, ptl_handle_eq_t eq);
#define CHECK_FROM(event, who) CHECK(same_process((event).initiator, peers[who]))

/* Waits until the counter's sum reaches what is expected, which it then must be. */
#define EXPECT_CT(ct, success, failure) expect_ct_at(__FILE__, __LINE__, ct, success, failure)
#define CT_IS(ct, success, failure) ct_is_at(__FILE__, __LINE__, ct, success, failure)
void expect_ct_at(const char *file, int line, ptl_handle_ct_t ct, ptl_size_t success,
                  ptl_size_t failure);
void ct_is_at(const char *file, int line, ptl_handle_ct_t ct, ptl_size_t success,
              ptl_size_t failure);
int sr_value(ptl_sr_index_t which);

/* Bytes that tell which message they belong to and at which place. */
uint64_t mix64(uint64_t x);
uint64_t seed_of(int source, int target, uint64_t number);
void fill(void *buffer, size_t len, uint64_t seed);
#define VERIFY(buffer, len, seed) verify_at(__FILE__, __LINE__, buffer, len, seed)
void verify_at(const char *file, int line, const void *buffer, size_t len, uint64_t seed);

/* A buffer with canary bytes before and behind it, all bytes 0xa5 at first. */
#define CANARY 0xa5
#define CANARY_BYTES 64
uint8_t *guarded(size_t len);
void guarded_free(uint8_t *buffer);
#define CHECK_GUARD(buffer, len) check_guard_at(__FILE__, __LINE__, buffer, len)
#define CHECK_UNTOUCHED(buffer, len) check_untouched_at(__FILE__, __LINE__, buffer, len)
void check_guard_at(const char *file, int line, const uint8_t *buffer, size_t len);
void check_untouched_at(const char *file, int line, const uint8_t *buffer, size_t len);

void sleep_ms(int ms);
/* Computes without any call of Portals. */
void spin_ms(int ms);
uint64_t now_ms(void);

#endif
