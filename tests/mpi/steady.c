/* Exchanges checked messages of many lengths among all ranks, round after round, until the
 * file that the argument names is there. Rank 0 prints the number of each round that has
 * ended, so that the runner can break and mend things meanwhile, and see that all goes on.
 *
 * With the argument `survive` a rank that gets an error says so, and ends with status 3: some
 * other one was killed. */
#include "check.h"

enum { LENGTHS = 6, LEN_MAX = 1 << 20, TAG = 5 };

static const int lengths[LENGTHS] = {0, 8, 3000, 40000, 250000, LEN_MAX};

/* Ends this rank if a call has failed, for one that has died. */
static void need(int code, int round)
{
    struct timespec time;
    char text[MPI_MAX_ERROR_STRING];
    int len;
    if (code == MPI_SUCCESS)
        return;
    clock_gettime(CLOCK_MONOTONIC, &time);
    MPI_Error_string(code, text, &len);
    printf("rank %d saw the death at %.3f in round %d: %s\n", rank_world,
           time.tv_sec + time.tv_nsec * 1e-9, round, text);
    fflush(stdout);
    _exit(3);
}

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
    need(MPI_Waitall(count, requests, statuses), round);
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
    CHECK(argc >= 2, "the argument is the file to wait for");
    if (argc > 2)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
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
        need(MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD), round);
    }
    for (int peer = 0; peer < size_world; peer++) {
        free(out[peer]);
        free(in[peer]);
    }
    return check_finish("steady");
}
