/* MPI_Sendrecv and MPI_Sendrecv_replace around a ring, with lengths on both
 * sides of every border, and with MPI_PROC_NULL. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    const int lens[] = {0, 1, 8, 64, 4096, 8192, 8193, 65536, 1 << 20};
    int right = (rank_world + 1) % size_world, left = (rank_world + size_world - 1) % size_world;
    uint8_t *out = guarded(1 << 20), *in = guarded(1 << 20);
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < 9; i++) {
            int len = lens[i];
            MPI_Status status;
            fill(out, len, seed_of(rank_world, right, i, round));
            MPI_Sendrecv(out, len, MPI_BYTE, right, i, in, len, MPI_BYTE, left, i, MPI_COMM_WORLD,
                         &status);
            CHECK_STATUS(status, left, i, len);
            VERIFY(in, len, seed_of(left, rank_world, i, round), "length %d", len);
            MPI_Sendrecv_replace(out, len, MPI_BYTE, right, i, left, i, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, left, i, len);
            VERIFY(out, len, seed_of(left, rank_world, i, round), "replaced, length %d", len);
            MPI_Sendrecv(out, len, MPI_BYTE, MPI_PROC_NULL, i, in, len, MPI_BYTE, MPI_PROC_NULL, i,
                         MPI_COMM_WORLD, &status);
            CHECK(status.MPI_SOURCE == MPI_PROC_NULL, "source %d", status.MPI_SOURCE);
        }
    return check_finish("sendrecv");
}
