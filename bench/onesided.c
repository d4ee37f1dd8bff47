// Two ranks: what operations on the memory of rank 1 take while it waits in the library (idle)
// and while it computes without a call (computes): put and get by size, fetch and add, compare
// and swap, each from the call until it is done at the target; and how many of 8 bytes a second
// with 64 between two flushes. With PAIRS_CORES=0,1 rank 0 stays on core 0 and rank 1 on core 1.
// Every line of output is one JSON object. The window is of memory that MPI allocates, or, after
// "create", of given memory, which an MPI does not map into both processes.
//
// Usage: onesided allocate|create SECONDS SIZE...
#define _GNU_SOURCE
#include "ranks.h"
#include <mpi.h>

#define WINDOW 64
#define SAMPLES_MAX 200000

static int rank;
static double samples[SAMPLES_MAX], seconds;
static MPI_Win window;
static long *remote;
static MPI_Aint bytes;

enum what { PUT, GET, ADD, SWAP };
static const char *const NAMES[] = {"put", "get", "fetch_add", "compare_swap"};

static void fail(const char *what, long got, long want) {
    fprintf(stderr, "onesided: %s gave %ld instead of %ld: the data are wrong. Run the tests of "
            "this transport first.\n", what, got, want);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

// The nth operation. Those of a window have places of their own, on both sides; only what
// changes a number by its value has one for all of them at the target.
static void issue(enum what what, int size, long n, long *buffer, int place) {
    static const long one = 1;
    static long wanted[WINDOW], next[WINDOW];
    switch (what) {
    case PUT:
        buffer[place] = n;
        MPI_Put(&buffer[place], size, MPI_BYTE, 1, place * sizeof n, size, MPI_BYTE, window);
        break;
    case GET:
        MPI_Get(&buffer[place], size, MPI_BYTE, 1, place * sizeof n, size, MPI_BYTE, window);
        break;
    case ADD:
        MPI_Fetch_and_op(&one, &buffer[place], MPI_LONG, 1, 0, MPI_SUM, window);
        break;
    case SWAP:
        wanted[place] = n, next[place] = n + 1;
        MPI_Compare_and_swap(&next[place], &wanted[place], &buffer[place], MPI_LONG, 1, 0, window);
        break;
    }
}

static void set(long value) {
    MPI_Put(&value, 1, MPI_LONG, 1, 0, 1, MPI_LONG, window);
    MPI_Win_flush(1, window);
}

// What the target has in one of the places.
static long at_target(int place) {
    long found;
    MPI_Get(&found, 1, MPI_LONG, 1, place * sizeof found, 1, MPI_LONG, window);
    MPI_Win_flush(1, window);
    return found;
}

// One operation after the other.
static void latency(enum what what, int size, const char *target) {
    size_t room = size < 4096 ? 4096 : size;
    long *buffer = malloc(room);
    // Pages that nobody has written are all one page, which is read from the first cache.
    memset(buffer, 1, room);
    double begun = MPI_Wtime(), now = begun;
    int count = 0;
    for (long n = 0; count < SAMPLES_MAX && (now - begun < seconds || count == 0); n++, count++) {
        double from = now;
        issue(what, size, n, buffer, 0);
        MPI_Win_flush(1, window);
        now = MPI_Wtime();
        samples[count] = now - from;
        if (what >= ADD && buffer[0] != n) fail(NAMES[what], buffer[0], n);
    }
    long last = at_target(0);
    long want = what == GET ? 0 : what == PUT ? count - 1 : count;
    if (last != want) fail(NAMES[what], last, want);
    qsort(samples, count, sizeof *samples, ascending);
    printf("{\"test\":\"%s\",\"size\":%d,\"target\":\"%s\",\"us\":{\"min\":%.3f,\"p50\":%.3f,"
           "\"p99\":%.3f},\"samples\":%d}\n", NAMES[what], size, target, samples[0] * 1e6,
           samples[(count - 1) / 2] * 1e6, samples[(int)(.99 * (count - 1))] * 1e6, count);
    free(buffer);
}

// A window of operations, and a flush.
static void rate(enum what what, const char *target) {
    long buffer[WINDOW];
    double begun = MPI_Wtime(), now = begun;
    long count = 0;
    while (now - begun < seconds || count == 0) {
        for (int place = 0; place < WINDOW; place++) issue(what, 8, count++, buffer, place);
        MPI_Win_flush(1, window);
        now = MPI_Wtime();
    }
    double per_s = count / (now - begun);
    for (int place = 0; place < WINDOW && what != GET; place++) {
        long last = at_target(what == PUT ? place : 0);
        long want = what == PUT ? count - WINDOW + place : count;
        if (last != want) fail(NAMES[what], last, want);
    }
    printf("{\"test\":\"%s\",\"size\":8,\"target\":\"%s\",\"per_s\":%.0f,\"samples\":%ld}\n",
           NAMES[what], target, per_s, count);
}

// Rank 1 computes for somewhat longer than rank 0 measures, or waits in the library.
static void beside(int computes, enum what what, int size, int rates) {
    // While it is still in the library, for this needs it under some MPIs.
    if (rank == 0) set(0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        const char *target = computes ? "computes" : "idle";
        if (rates) rate(what, target);
        else latency(what, size, target);
    } else if (computes) {
        for (double until = MPI_Wtime() + 1.2 * seconds; MPI_Wtime() < until;) continue;
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || argc < 4) {
        if (rank == 0) fprintf(stderr, "onesided: 2 ranks, allocate|create SECONDS SIZE...\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    stay(rank);
    seconds = atof(argv[2]);
    for (int i = 3; i < argc; i++) bytes = atoi(argv[i]) > bytes ? atoi(argv[i]) : bytes;
    if (bytes < 4096) bytes = 4096;
    if (strcmp(argv[1], "create")) {
        MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &remote, &window);
    } else {
        remote = malloc(bytes);
        MPI_Win_create(remote, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    }
    memset(remote, 0, bytes);
    MPI_Win_lock_all(0, window);
    for (int computes = 0; computes < 2; computes++) {
        for (int i = 3; i < argc; i++) {
            beside(computes, PUT, atoi(argv[i]), 0);
            beside(computes, GET, atoi(argv[i]), 0);
        }
        for (enum what what = ADD; what <= SWAP; what++) beside(computes, what, 8, 0);
        for (enum what what = PUT; what <= SWAP; what++) beside(computes, what, 8, 1);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    if (!strcmp(argv[1], "create")) free(remote);
    MPI_Finalize();
    return 0;
}
