/* What every test program shares: checks that end the whole job with a message
 * on the first wrong thing, and a byte pattern that tells which message it
 * belongs to and at which place. */
#ifndef SLUICE_CHECK_H
#define SLUICE_CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* Exit status that the runner counts as skipped. */
#define EXIT_SKIPPED 77

static int rank_world, size_world;

UNUSED __attribute__((noreturn, format(printf, 4, 5))) static void
check_fail(const char *file, int line, const char *what, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = strrchr(file, '/');
    fprintf(stderr, "FAILED at %s:%d in rank %d of %d: %s is not so: %s\n", name ? name + 1 : file,
            line, rank_world, size_world, what, text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                               \
    } while (0)

/* For calls that must succeed where errors are returned. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_code = (call);                                                                     \
        if (try_code != MPI_SUCCESS) {                                                             \
            char try_text[MPI_MAX_ERROR_STRING];                                                   \
            int try_len;                                                                           \
            MPI_Error_string(try_code, try_text, &try_len);                                        \
            check_fail(__FILE__, __LINE__, #call " succeeds", "%s", try_text);                     \
        }                                                                                          \
    } while (0)

UNUSED static void check_init(int *argc, char ***argv, int ranks_min)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_world);
    MPI_Comm_size(MPI_COMM_WORLD, &size_world);
    CHECK(size_world >= ranks_min, "this program needs %d ranks", ranks_min);
}

/* Ends the program: everybody got here, so everything was right. */
UNUSED static int check_finish(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_world == 0) {
        printf("%s: all correct on %d ranks\n", name, size_world);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}

UNUSED static uint64_t mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* One seed for each message: who sends, to whom, and which. */
UNUSED static uint64_t seed_of(int source, int target, int tag, int number)
{
    return mix64(mix64(((uint64_t)(uint32_t)source << 32) | (uint32_t)target) ^
                 mix64(((uint64_t)(uint32_t)tag << 32) | (uint32_t)number));
}

UNUSED static void fill(void *buffer, size_t len, uint64_t seed)
{
    uint8_t *bytes = buffer;
    size_t at = 0;
    for (; at + 8 <= len; at += 8) {
        uint64_t word = mix64(seed + at);
        memcpy(bytes + at, &word, 8);
    }
    uint64_t word = mix64(seed + at);
    memcpy(bytes + at, &word, len - at);
}

/* Index of the first byte that differs from the pattern, or `len`. */
UNUSED static size_t differs_at(const void *buffer, size_t len, uint64_t seed)
{
    const uint8_t *bytes = buffer;
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = mix64(seed + at);
        size_t count = len - at < 8 ? len - at : 8;
        if (memcmp(bytes + at, &word, count) != 0) {
            size_t i = 0;
            while (bytes[at + i] == ((uint8_t *)&word)[i])
                i++;
            return at + i;
        }
    }
    return len;
}

#define VERIFY(buffer, len, seed, ...)                                                             \
    do {                                                                                           \
        size_t verify_at = differs_at(buffer, len, seed);                                          \
        if (verify_at != (size_t)(len)) {                                                          \
            char verify_text[256];                                                                 \
            snprintf(verify_text, sizeof verify_text, __VA_ARGS__);                                \
            check_fail(__FILE__, __LINE__, "the data arrived as sent",                             \
                       "byte %zu of %zu is wrong: %s", verify_at, (size_t)(len), verify_text);     \
        }                                                                                          \
    } while (0)

#define GUARD_BYTES 64
#define GUARD 0xa5

/* A buffer with guard bytes behind it, which nobody may touch. */
UNUSED static uint8_t *guarded(size_t len)
{
    uint8_t *buffer = malloc(len + GUARD_BYTES);
    CHECK(buffer != NULL, "no memory for %zu bytes", len);
    memset(buffer + len, GUARD, GUARD_BYTES);
    return buffer;
}

UNUSED static void guard_set(uint8_t *buffer, size_t len)
{
    memset(buffer + len, GUARD, GUARD_BYTES);
}

#define CHECK_GUARD(buffer, len)                                                                   \
    do {                                                                                           \
        for (size_t guard_i = 0; guard_i < GUARD_BYTES; guard_i++)                                 \
            CHECK((buffer)[(len) + guard_i] == GUARD,                                              \
                  "byte %zu behind the end of a buffer of %zu was overwritten", guard_i,           \
                  (size_t)(len));                                                                  \
    } while (0)

/* Checks source, tag and length of a message received. */
#define CHECK_STATUS(status, source, tag, len)                                                     \
    do {                                                                                           \
        int status_count = -1;                                                                     \
        MPI_Get_count(&(status), MPI_BYTE, &status_count);                                         \
        CHECK((status).MPI_SOURCE == (source) && (status).MPI_TAG == (tag) &&                      \
                  status_count == (int)(len),                                                      \
              "got source %d tag %d length %d, expected source %d tag %d length %d",               \
              (status).MPI_SOURCE, (status).MPI_TAG, status_count, (int)(source), (int)(tag),      \
              (int)(len));                                                                         \
    } while (0)

UNUSED static void sleep_ms(int ms)
{
    struct timespec time = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&time, NULL);
}

#endif
