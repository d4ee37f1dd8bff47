/* Every rank but 0 sends its last messages to rank 0 and ends, while rank 0 receives them in its
 * own time: by then some of those ranks are at their end. More messages than there are credits. */
#include "check.h"

enum { COUNT = 5000, LEN = 40, TAG = 5 };

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    uint8_t *buffer = guarded(LEN);
    if (rank_world > 0)
        for (int nth = 0; nth < COUNT; nth++) {
            fill(buffer, LEN, seed_of(rank_world, 0, TAG, nth));
            MPI_Send(buffer, LEN, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    /* The last rank that has sent is the first that is received from. */
    for (int rank = size_world - 1; rank > 0 && rank_world == 0; rank--)
        for (int nth = 0; nth < COUNT; nth++) {
            MPI_Status status;
            MPI_Recv(buffer, LEN, MPI_BYTE, rank, TAG, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, rank, TAG, LEN);
            VERIFY(buffer, LEN, seed_of(rank, 0, TAG, nth), "from %d, message %d", rank, nth);
        }
    if (rank_world == 0) {
        printf("last: all correct on %d ranks\n", size_world);
        fflush(stdout);
    }
    /* No barrier: none of it has to wait for another rank. */
    MPI_Finalize();
    return 0;
}
