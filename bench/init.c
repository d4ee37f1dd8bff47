// How long MPI_Init takes, and the first collective after it: the slowest rank's. Prints one row of
// JSON, in milliseconds.
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    double begin = now_ms();
    MPI_Init(&argc, &argv);
    double init = now_ms() - begin;
    double sum = 0, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double own[2] = {init, now_ms() - begin - init}, slowest[2];
    MPI_Reduce(own, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("{\"ranks\": %d, \"init_ms\": %.3f, \"first_ms\": %.3f}\n", (int)sum, slowest[0],
               slowest[1]);
    MPI_Finalize();
    return 0;
}
