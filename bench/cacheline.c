// Half round trip of one cache line between two pinned threads, in nanoseconds.
// Usage: cacheline [CORE_A CORE_B]; without cores, the first two that are allowed.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 2000
#define BATCHES 100

static _Alignas(64) _Atomic unsigned line;
static int cores[2];

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    int error = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    if (error) {
        fprintf(stderr, "cacheline: core %d: %s. Name two cores of \"nproc\" that are "
                "allowed here.\n", core, strerror(error));
        exit(2);
    }
}

// The other side answers each odd number with the even one after it.
static void *answer(void *unused) {
    (void)unused;
    pin(cores[1]);
    for (unsigned n = 0; n < ROUNDS * BATCHES; n++) {
        while (atomic_load_explicit(&line, memory_order_acquire) != 2 * n + 1) {}
        atomic_store_explicit(&line, 2 * n + 2, memory_order_release);
    }
    return NULL;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc == 3) {
        cores[0] = atoi(argv[1]);
        cores[1] = atoi(argv[2]);
    } else {
        cpu_set_t set;
        int found = 0;
        sched_getaffinity(0, sizeof set, &set);
        for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
            if (CPU_ISSET(i, &set)) cores[found++] = i;
        if (found < 2) {
            fprintf(stderr, "cacheline: only one core is allowed: two are needed for a "
                    "round trip. Run with at least two cores.\n");
            return 2;
        }
    }
    pthread_t other;
    if (pthread_create(&other, NULL, answer, NULL)) {
        fprintf(stderr, "cacheline: the second thread cannot be started: the system's "
                "limit is reached. Raise \"ulimit -u\".\n");
        return 2;
    }
    pin(cores[0]);
    static double batches[BATCHES];
    unsigned n = 0;
    for (int b = 0; b < BATCHES; b++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int i = 0; i < ROUNDS; i++, n++) {
            atomic_store_explicit(&line, 2 * n + 1, memory_order_release);
            while (atomic_load_explicit(&line, memory_order_acquire) != 2 * n + 2) {}
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        batches[b] = ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / ROUNDS / 2;
    }
    pthread_join(other, NULL);
    qsort(batches, BATCHES, sizeof *batches, ascending);
    printf("%.1f\n", batches[BATCHES / 2]);
    return 0;
}
