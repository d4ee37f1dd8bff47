/* Exchanges messages among all ranks, or runs collectives, round after round, until one rank is
 * killed. Every other one must notice this rank's end itself: each keeps a receive from each
 * other one, which nothing is ever sent to, and none ends before the file is there that the
 * first argument names. So nobody can take the end of another survivor for it.
 *
 * The second argument is `messages` or `collectives`. */
#include "check.h"

enum { LENGTHS = 6, LEN_MAX = 1 << 20, TAG = 5, TAG_NEVER = 6, COUNT = 4096 };

static const int lengths[LENGTHS] = {0, 8, 3000, 40000, 250000, LEN_MAX};
static MPI_Request *watches;
static const char *over;
static int victim = -1;

static void say_end(int peer, int code, int round)
{
    struct timespec time;
    char text[MPI_MAX_ERROR_STRING];
    int len;
    clock_gettime(CLOCK_MONOTONIC, &time);
    MPI_Error_string(code, text, &len);
    printf("rank %d saw the end of rank %d at %.3f in round %d: %s\n", rank_world, peer,
           time.tv_sec + time.tv_nsec * 1e-9, round, text);
    fflush(stdout);
}

/* Looks whether another rank has ended. */
static void look(int round)
{
    for (int peer = 0; peer < size_world; peer++) {
        int done;
        if (watches[peer] == MPI_REQUEST_NULL)
            continue;
        int code = MPI_Test(&watches[peer], &done, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && !done)
            continue;
        CHECK(code != MPI_SUCCESS, "a receive that nothing is sent to has got something");
        watches[peer] = MPI_REQUEST_NULL;
        say_end(peer, code, round);
        victim = peer;
    }
}

/* The victim is known: this rank stays, so that nobody sees its end instead. */
static void stay(int round)
{
    while (access(over, F_OK) != 0) {
        look(round);
        sleep_ms(1);
    }
    _exit(3);
}

/* Waits for requests, and for the end of a rank. */
static void complete(int count, MPI_Request *requests, MPI_Status *statuses, int round)
{
    int done = 0, has_failed = 0;
    while (!done) {
        /* What has failed is not asked again: only whose end it was is still to be learnt. */
        if (!has_failed && MPI_Testall(count, requests, &done, statuses) != MPI_SUCCESS)
            has_failed = 1;
        done = done && !has_failed;
        look(round);
        if (victim >= 0)
            stay(round);
    }
}

static void exchange(uint8_t **out, uint8_t **in, int round)
{
    MPI_Request requests[2 * size_world];
    MPI_Status statuses[2 * size_world];
    int count = 0;
    for (int peer = 0; peer < size_world; peer++) {
        if (peer == rank_world)
            continue;
        int len = lengths[(rank_world + 2 * peer + round) % LENGTHS];
        fill(out[peer], len, seed_of(rank_world, peer, TAG, round));
        MPI_Irecv(in[peer], LEN_MAX, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[count++]);
        MPI_Isend(out[peer], len, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[count++]);
    }
    complete(count, requests, statuses, round);
    for (int peer = 0; peer < size_world; peer++) {
        int len = lengths[(peer + 2 * rank_world + round) % LENGTHS];
        if (peer != rank_world)
            VERIFY(in[peer], len, seed_of(peer, rank_world, TAG, round), "from %d", peer);
    }
}

static void collect(int round)
{
    static int32_t mine[COUNT], sums[COUNT], all[COUNT * 16];
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int root = round % size_world, word = rank_world == root ? round : -1;
    CHECK(size_world <= 16, "at most 16 ranks");
    for (int i = 0; i < COUNT; i++)
        mine[i] = rank_world * i + round;
    MPI_Iallreduce(mine, sums, COUNT, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(&word, 1, MPI_INT, root, MPI_COMM_WORLD, &requests[1]);
    MPI_Iallgather(mine, COUNT, MPI_INT32_T, all, COUNT, MPI_INT32_T, MPI_COMM_WORLD,
                   &requests[2]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[3]);
    complete(4, requests, statuses, round);
    int ranks = size_world * (size_world - 1) / 2;
    CHECK(word == round, "round %d instead of %d", word, round);
    for (int i = 0; i < COUNT; i++) {
        int sum = ranks * i + size_world * round;
        CHECK(sums[i] == sum, "the sum of item %d is %d, not %d", i, sums[i], sum);
        for (int peer = 0; peer < size_world; peer++)
            CHECK(all[peer * COUNT + i] == peer * i + round, "item %d of rank %d", i, peer);
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    CHECK(argc == 3, "the arguments are the file to wait for, and what to do");
    int collects = strcmp(argv[2], "collectives") == 0;
    over = argv[1];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    uint8_t *out[size_world], *in[size_world];
    char never[size_world];
    watches = calloc(size_world, sizeof *watches);
    for (int peer = 0; peer < size_world; peer++) {
        out[peer] = guarded(LEN_MAX);
        in[peer] = guarded(LEN_MAX);
        watches[peer] = MPI_REQUEST_NULL;
        if (peer != rank_world)
            TRY(MPI_Irecv(&never[peer], 1, MPI_BYTE, peer, TAG_NEVER, MPI_COMM_WORLD,
                          &watches[peer]));
    }
    for (int round = 0;; round++) {
        if (collects)
            collect(round);
        else
            exchange(out, in, round);
        if (rank_world == 0) {
            printf("round %d\n", round);
            fflush(stdout);
        }
    }
}
