/* A synchronous send ends only when its receive has begun; an ordinary one of
 * a small message may end before. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    const int lens[] = {0, 8, 4096, 8192, 8193, 1 << 20};
    uint8_t *buffer = guarded(1 << 20);
    for (int i = 0; i < 6; i++)
        for (int round = 0; round < 3; round++) {
            int len = lens[i], done;
            uint64_t seed = seed_of(0, 1, i, round);
            MPI_Status status;
            if (rank_world == 0) {
                MPI_Request request;
                fill(buffer, len, seed);
                MPI_Issend(buffer, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
                double until = MPI_Wtime() + 0.03;
                while (MPI_Wtime() < until) {
                    MPI_Test(&request, &done, &status);
                    CHECK(!done, "a synchronous send of %d ended before its receive", len);
                }
                MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
                MPI_Wait(&request, &status);
                MPI_Ssend(buffer, len, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
            } else if (rank_world == 1) {
                MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &status);
                MPI_Recv(buffer, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
                CHECK_STATUS(status, 0, 1, len);
                VERIFY(buffer, len, seed, "length %d", len);
                MPI_Recv(buffer, len, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status);
                CHECK_STATUS(status, 0, 3, len);
            }
        }
    return check_finish("ssend");
}
