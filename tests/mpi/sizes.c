/* Lengths around every protocol border, all pairs in both directions at once:
 * blocking by Sendrecv, then all lengths under way together, then with the
 * receives after the sends. */
#include "check.h"

static const int LENS[] = {0,    1,    7,    8,     23,    24,    25,    63,    64,      65,      127,
                           128,  129,  4095, 4096,  4097,  8191,  8192,  8193,  16383,   16384,   16385,
                           65535, 65536, 65537, 1 << 20, 16 << 20};
enum { COUNT = sizeof LENS / sizeof *LENS };

static uint8_t *out[COUNT], *in[COUNT];

static void check(int i, int source, int round, MPI_Status *status)
{
    CHECK_STATUS(*status, source, i, LENS[i]);
    VERIFY(in[i], LENS[i], seed_of(source, rank_world, i, round), "length %d, round %d", LENS[i],
           round);
    CHECK_GUARD(in[i], LENS[i]);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    for (int i = 0; i < COUNT; i++)
        out[i] = guarded(LENS[i]), in[i] = guarded(LENS[i]);
    MPI_Status status[COUNT];
    MPI_Request receives[COUNT], sends[COUNT];
    int round = 0;
    for (int hop = 1; hop < size_world; hop++) {
        int target = (rank_world + hop) % size_world;
        int source = (rank_world + size_world - hop) % size_world;
        for (int how = 0; how < 3; how++, round++) {
            for (int i = 0; i < COUNT; i++) {
                fill(out[i], LENS[i], seed_of(rank_world, target, i, round));
                memset(in[i], 0, LENS[i]);
            }
            if (how == 0) {
                for (int i = 0; i < COUNT; i++)
                    MPI_Sendrecv(out[i], LENS[i], MPI_BYTE, target, i, in[i], LENS[i], MPI_BYTE,
                                 source, i, MPI_COMM_WORLD, &status[i]);
            } else {
                for (int i = 0; how == 1 && i < COUNT; i++)
                    MPI_Irecv(in[i], LENS[i], MPI_BYTE, source, i, MPI_COMM_WORLD, &receives[i]);
                for (int i = 0; i < COUNT; i++)
                    MPI_Isend(out[i], LENS[i], MPI_BYTE, target, i, MPI_COMM_WORLD, &sends[i]);
                for (int i = COUNT - 1; how == 2 && i >= 0; i--)
                    MPI_Irecv(in[i], LENS[i], MPI_BYTE, source, i, MPI_COMM_WORLD, &receives[i]);
                MPI_Waitall(COUNT, receives, status);
                MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE);
            }
            for (int i = 0; i < COUNT; i++)
                check(i, source, round, &status[i]);
        }
    }
    for (int i = 0; i < COUNT; i++)
        free(out[i]), free(in[i]);
    return check_finish("sizes");
}
