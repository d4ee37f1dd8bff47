/* Messages of a rank to itself: every length, unexpected and expected, on the
 * world and on MPI_COMM_SELF, also synchronous. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 1);
    const int lens[] = {0, 1, 8, 100, 4096, 8192, 8193, 100000, 4 << 20};
    uint8_t *out = guarded(4 << 20), *in = guarded(4 << 20);
    for (int on_self = 0; on_self < 2; on_self++) {
        MPI_Comm comm = on_self ? MPI_COMM_SELF : MPI_COMM_WORLD;
        int me = on_self ? 0 : rank_world;
        for (int i = 0; i < 9; i++)
            for (int how = 0; how < 4; how++) {
                int len = lens[i];
                MPI_Request requests[2];
                MPI_Status status[2];
                uint64_t seed = seed_of(me, i, how, on_self);
                fill(out, len, seed);
                guard_set(in, len);
                if (how % 2)
                    MPI_Irecv(in, len, MPI_BYTE, how == 1 ? MPI_ANY_SOURCE : me, i, comm,
                              &requests[0]);
                if (how < 2)
                    MPI_Isend(out, len, MPI_BYTE, me, i, comm, &requests[1]);
                else
                    MPI_Issend(out, len, MPI_BYTE, me, i, comm, &requests[1]);
                if (how % 2 == 0)
                    MPI_Irecv(in, len, MPI_BYTE, me, MPI_ANY_TAG, comm, &requests[0]);
                MPI_Waitall(2, requests, status);
                CHECK_STATUS(status[0], me, i, len);
                VERIFY(in, len, seed, "length %d, way %d", len, how);
                CHECK_GUARD(in, len);
            }
    }
    return check_finish("self");
}
