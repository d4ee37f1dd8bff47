/* The collectives, blocking and not, on the world, on halves of it and on many
 * communicators at once. */
#include "check.h"

static void on(MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int counts[] = {1, 10, 1000, 3000, 100000};
    for (int i = 0; i < 5; i++) {
        int count = counts[i];
        long *mine = malloc(sizeof *mine * count), *all = malloc(sizeof *all * count * size);
        for (int root = 0; root < size; root++) {
            for (int k = 0; k < count; k++)
                mine[k] = rank == root ? k * 7L + root : -1;
            MPI_Bcast(mine, count, MPI_LONG, root, comm);
            for (int k = 0; k < count; k++)
                CHECK(mine[k] == k * 7L + root, "broadcast of %d from %d, element %d", count, root,
                      k);
        }
        for (int k = 0; k < count; k++)
            mine[k] = rank * 100000L + k;
        MPI_Allgather(mine, count, MPI_LONG, all, count, MPI_LONG, comm);
        for (int source = 0; source < size; source++)
            for (int k = 0; k < count; k++)
                CHECK(all[(long)source * count + k] == source * 100000L + k,
                      "allgather of %d, element %d of %d", count, k, source);
        MPI_Allreduce(mine, all, count, MPI_LONG, MPI_SUM, comm);
        for (int k = 0; k < count; k++)
            CHECK(all[k] == 100000L * size * (size - 1) / 2 + (long)size * k,
                  "allreduce of %d, element %d", count, k);
        MPI_Request request;
        MPI_Ireduce(mine, all, count, MPI_LONG, MPI_MAX, size - 1, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int k = 0; rank == size - 1 && k < count; k++)
            CHECK(all[k] == (size - 1) * 100000L + k, "ireduce of %d, element %d", count, k);
        MPI_Scan(mine, all, count, MPI_LONG, MPI_SUM, comm);
        for (int k = 0; k < count; k++)
            CHECK(all[k] == 100000L * rank * (rank + 1) / 2 + (rank + 1L) * k,
                  "scan of %d, element %d", count, k);
        MPI_Gather(mine, count, MPI_LONG, all, count, MPI_LONG, 0, comm);
        MPI_Scatter(all, count, MPI_LONG, mine, count, MPI_LONG, 0, comm);
        for (int k = 0; k < count; k++)
            CHECK(mine[k] == rank * 100000L + k, "gather and scatter of %d, element %d", count, k);
        free(mine), free(all);
    }
    for (int i = 0; i < 200; i++)
        MPI_Barrier(comm);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    on(MPI_COMM_WORLD);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank_world % 2, -rank_world, &half);
    on(half);
    MPI_Comm_free(&half);
    /* Messages of one communicator are never seen on another. */
    enum { COMMS = 20 };
    MPI_Comm comms[COMMS];
    int out[COMMS], in[COMMS], right = (rank_world + 1) % size_world;
    int left = (rank_world + size_world - 1) % size_world;
    MPI_Request requests[2 * COMMS];
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < COMMS; i++) {
        out[i] = rank_world * 1000 + i;
        MPI_Isend(&out[i], 1, MPI_INT, right, 0, comms[i], &requests[i]);
    }
    for (int i = COMMS - 1; i >= 0; i--)
        MPI_Irecv(&in[i], 1, MPI_INT, left, MPI_ANY_TAG, comms[i], &requests[COMMS + i]);
    MPI_Waitall(2 * COMMS, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COMMS; i++) {
        CHECK(in[i] == left * 1000 + i, "communicator %d received %d", i, in[i]);
        MPI_Comm_free(&comms[i]);
    }
    return check_finish("collectives");
}
