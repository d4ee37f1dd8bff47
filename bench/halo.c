// Any number of ranks in a ring, as a molecular dynamics program has them: each step
// computes for a little, exchanges its borders with both neighbours, and every few steps all
// agree on a sum. Sends block, as those programs' do. One JSON object: microseconds a step.
//
// Usage: halo STEPS BYTES COMPUTE_US
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_PER_SUM 10

static int rank, ranks;
static volatile double sink;

static void fail(const char *what) {
    fprintf(stderr, "halo: rank %d: %s: the data are wrong. Run the tests of this transport "
            "first.\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

// Work of a fixed count, not of a fixed time: ranks that share a core take turns at it.
static void compute(long count) {
    double x = 1;
    for (long i = 0; i < count; i++) x = x * 0.999999 + 1e-6;
    sink = x;
}

static long count_for(double us) {
    double best = 1;
    for (int i = 0; i < 5; i++) {
        double start = MPI_Wtime();
        compute(100000);
        double took = MPI_Wtime() - start;
        if (took < best) best = took;
    }
    return (long)(us * 1e-6 / best * 100000);
}

// What arrives from `from` goes to `in`, as in a shift: the receive is posted first.
static void shift(int to, int from, char *out, char *in, int size, char n) {
    MPI_Request request;
    MPI_Irecv(in, size, MPI_BYTE, from, 1, MPI_COMM_WORLD, &request);
    out[0] = n;
    MPI_Send(out, size, MPI_BYTE, to, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (in[0] != n) fail("a border");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4 || atoi(argv[1]) < 1 || atoi(argv[2]) < 1 || atof(argv[3]) < 0) {
        if (rank == 0) fprintf(stderr, "usage: halo STEPS BYTES COMPUTE_US\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int steps = atoi(argv[1]), size = atoi(argv[2]);
    char *out = calloc(1, size), *in = calloc(1, size);
    long work = count_for(atof(argv[3]));
    MPI_Bcast(&work, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        compute(work);
        shift(next, before, out, in, size, (char)step);
        shift(before, next, out, in, size, (char)(step + 1));
        if (step % STEPS_PER_SUM == 0) {
            double own = rank + step, sum;
            MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            if (sum != ranks * (ranks - 1) / 2.0 + (double)ranks * step) fail("a sum");
        }
    }
    double each = (MPI_Wtime() - start) / steps, longest;
    MPI_Reduce(&each, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"test\":\"halo\",\"size\":%d,\"ranks\":%d,\"us_per_step\":%.2f}\n", size, ranks,
               longest * 1e6);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
