// What the programs of two ranks share: where a rank runs, and the order of samples.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// With PAIRS_CORES=0,1 rank 0 stays on core 0 and rank 1 on core 1.
static void stay(int rank) {
    const char *at = getenv("PAIRS_CORES");
    for (int i = 0; at && i < rank; i++) {
        at = strchr(at, ',');
        if (at) at++;
    }
    if (!at) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(at), &set);
    if (sched_setaffinity(0, sizeof set, &set)) perror("PAIRS_CORES: sched_setaffinity");
}

// For qsort.
static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
