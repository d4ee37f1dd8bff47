// Any number of ranks, more than cores as a rule: all-to-all of 8 bytes and 1 KiB, barrier,
// a sum of all. A line of JSON each: microseconds of one, p50 and p99 over samples of ten.
//
// Usage: crowd SECONDS
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 10
#define SAMPLES_MAX 10000
#define EACH_MAX 1024

static int rank, ranks;
static char *out, *in;
static double samples[SAMPLES_MAX];

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void once(const char *test, int size, int n) {
    if (!strcmp(test, "alltoall")) {
        for (int i = 0; i < ranks; i++) out[(size_t)i * size] = (char)(rank + i + n);
        MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
        for (int i = 0; i < ranks; i++)
            if (in[(size_t)i * size] != (char)(rank + i + n)) {
                fprintf(stderr, "crowd: rank %d: wrong bytes of rank %d. Run the tests of this "
                        "transport first.\n", rank, i);
                MPI_Abort(MPI_COMM_WORLD, 2);
            }
    } else if (!strcmp(test, "barrier")) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        double mine = rank + n, sum;
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (sum != ranks * (double)n + ranks * (ranks - 1) / 2.0) {
            fprintf(stderr, "crowd: rank %d: a wrong sum. Run the tests of this transport "
                    "first.\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
}

static void measure(const char *test, int size, double seconds) {
    for (int i = 0; i < BATCH; i++) once(test, size, i);
    int count = 0, go_on = 1;
    double begun = MPI_Wtime();
    while (go_on) {
        double start = MPI_Wtime();
        for (int i = 0; i < BATCH; i++) once(test, size, i);
        samples[count++] = (MPI_Wtime() - start) / BATCH * 1e6;
        go_on = count < SAMPLES_MAX && MPI_Wtime() - begun < seconds;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank) return;
    qsort(samples, count, sizeof *samples, ascending);
    printf("{\"test\":\"%s\",\"ranks\":%d,\"size\":%d,\"us\":{\"p50\":%.2f,\"p99\":%.2f},"
           "\"samples\":%d}\n", test, ranks, size, samples[count / 2],
           samples[(int)(.99 * (count - 1))], count);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double seconds = argc == 2 ? atof(argv[1]) : 0;
    if (seconds <= 0) {
        if (rank == 0) fprintf(stderr, "usage: crowd SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    out = calloc(ranks, EACH_MAX);
    in = calloc(ranks, EACH_MAX);
    measure("alltoall", 8, seconds);
    measure("alltoall", EACH_MAX, seconds);
    measure("barrier", 0, seconds);
    measure("allreduce", 8, seconds);
    MPI_Finalize();
    return 0;
}
