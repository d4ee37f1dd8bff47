/* Exchanges checked messages of many lengths among all ranks, round after round, until the
 * file that the argument names is there. Rank 0 prints the number of each round that has
 * ended, so that the runner can break and mend things meanwhile, and see that all goes on. */
#include "check.h"

enum { LENGTHS = 6, LEN_MAX = 1 << 20, TAG = 5 };

static const int lengths[LENGTHS] = {0, 8, 3000, 40000, 250000, LEN_MAX};

/* Each pair has another length in each round. */
static int len_of(int source, int target, int round)
{
    return lengths[(source + 2 * target + round) % LENGTHS];
}

static void exchange(uint8_t **out, uint8_t **in, int round)
{
    MPI_Request requests[2 * size_world];
    int count = 0;
    for (int peer = 0; peer < size_world; peer++) {
        if (peer == rank_world)
            continue;
        int len = len_of(rank_world, peer, round);
        fill(out[peer], len, seed_of(rank_world, peer, TAG, round));
        MPI_Irecv(in[peer], LEN_MAX, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[count++]);
        MPI_Isend(out[peer], len, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[count++]);
    }
    MPI_Status statuses[2 * size_world];
    MPI_Waitall(count, requests, statuses);
    count = 0;
    for (int peer = 0; peer < size_world; peer++) {
        if (peer == rank_world)
            continue;
        int len = len_of(peer, rank_world, round);
        CHECK_STATUS(statuses[count], peer, TAG, len);
        VERIFY(in[peer], len, seed_of(peer, rank_world, TAG, round), "from %d, round %d", peer,
               round);
        CHECK_GUARD(in[peer], LEN_MAX);
        count += 2;
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    CHECK(argc == 2, "the argument is the file to wait for");
    uint8_t *out[size_world], *in[size_world];
    for (int peer = 0; peer < size_world; peer++) {
        out[peer] = guarded(LEN_MAX);
        in[peer] = guarded(LEN_MAX);
    }
    for (int round = 0, is_over = 0; !is_over; round++) {
        exchange(out, in, round);
        if (rank_world == 0) {
            printf("round %d\n", round);
            fflush(stdout);
            is_over = access(argv[1], F_OK) == 0;
        }
        MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int peer = 0; peer < size_world; peer++) {
        free(out[peer]);
        free(in[peer]);
    }
    return check_finish("steady");
}
