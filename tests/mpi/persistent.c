/* Persistent requests of all send modes, started again and again. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    const int lens[] = {0, 8, 3000, 8192, 50000};
    int right = (rank_world + 1) % size_world, left = (rank_world + size_world - 1) % size_world;
    uint8_t *out[10], *in[10];
    MPI_Request requests[20];
    for (int i = 0; i < 10; i++) {
        int len = lens[i % 5];
        out[i] = guarded(len), in[i] = guarded(len);
        MPI_Recv_init(in[i], len, MPI_BYTE, left, i, MPI_COMM_WORLD, &requests[i]);
        if (i < 5)
            MPI_Send_init(out[i], len, MPI_BYTE, right, i, MPI_COMM_WORLD, &requests[10 + i]);
        else
            MPI_Ssend_init(out[i], len, MPI_BYTE, right, i, MPI_COMM_WORLD, &requests[10 + i]);
    }
    for (int round = 0; round < 200; round++) {
        MPI_Status status[20];
        for (int i = 0; i < 10; i++)
            fill(out[i], lens[i % 5], seed_of(rank_world, right, i, round));
        MPI_Startall(20, requests);
        MPI_Waitall(20, requests, status);
        for (int i = 0; i < 10; i++) {
            CHECK_STATUS(status[i], left, i, lens[i % 5]);
            VERIFY(in[i], lens[i % 5], seed_of(left, rank_world, i, round), "request %d, round %d",
                   i, round);
            CHECK_GUARD(in[i], lens[i % 5]);
        }
    }
    for (int i = 0; i < 20; i++)
        MPI_Request_free(&requests[i]);
    return check_finish("persistent");
}
