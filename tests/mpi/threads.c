/* MPI_THREAD_MULTIPLE: four threads in each rank, each with tags and a communicator of its
 * own, all at once, small and large. Arguments: how many threads, and how many rounds. */
#include "check.h"
#include <pthread.h>

enum { THREADS_MAX = 64 };
static int rounds = 120;
static const int LENS[] = {0, 8, 64, 1000, 8192, 8193, 70000, 8, 8, 300000};

static MPI_Comm comms[THREADS_MAX];

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    uint8_t *out = guarded(300000), *in = guarded(300000);
    int right = (rank_world + 1) % size_world, left = (rank_world + size_world - 1) % size_world;
    for (int round = 0; round < rounds; round++) {
        int len = LENS[round % 10];
        /* Odd rounds share the world and differ by tag. */
        MPI_Comm comm = round % 2 ? MPI_COMM_WORLD : comms[thread];
        int tag = 100 * thread + round % 10;
        MPI_Request requests[2];
        MPI_Status status[2];
        fill(out, len, seed_of(rank_world, right, tag, round));
        MPI_Irecv(in, len, MPI_BYTE, left, tag, comm, &requests[0]);
        MPI_Isend(out, len, MPI_BYTE, right, tag, comm, &requests[1]);
        if (round % 3) {
            MPI_Waitall(2, requests, status);
        } else {
            int done = 0;
            while (!done)
                MPI_Testall(2, requests, &done, status);
        }
        CHECK_STATUS(status[0], left, tag, len);
        VERIFY(in, len, seed_of(left, rank_world, tag, round), "thread %d, round %d", thread, round);
    }
    /* Ping-pong with blocking calls. */
    if (rank_world < 2)
        for (int round = 0; round < rounds; round++) {
            int len = LENS[round % 7], peer = 1 - rank_world;
            MPI_Status status;
            for (int turn = 0; turn < 2; turn++) {
                uint64_t seed = seed_of(turn, 1 - turn, thread, round);
                if (turn == rank_world) {
                    fill(out, len, seed);
                    MPI_Send(out, len, MPI_BYTE, peer, thread, comms[thread]);
                } else {
                    MPI_Recv(in, len, MPI_BYTE, peer, thread, comms[thread], &status);
                    CHECK_STATUS(status, peer, thread, len);
                    VERIFY(in, len, seed, "thread %d, ping-pong %d", thread, round);
                }
            }
        }
    /* Whatever comes on the thread's own communicator; in order per sender. The sends
     * are completed at the end: two ranks that each waited for a send to the other,
     * their receives taken by third ones, would wait for ever. */
    int turns = rounds / 4 * (size_world - 1), *next = calloc(size_world, sizeof *next);
    uint8_t **sent = malloc(sizeof *sent * turns);
    MPI_Request *sends = malloc(sizeof *sends * turns);
    for (int round = 0; round < turns; round++) {
        MPI_Status status;
        int len = LENS[round % 7], from;
        sent[round] = guarded(len);
        fill(sent[round], len, seed_of(rank_world, thread, 50, round));
        MPI_Isend(sent[round], len, MPI_BYTE,
                  (rank_world + 1 + round % (size_world - 1)) % size_world, 50 + round % 3,
                  comms[thread], &sends[round]);
        MPI_Recv(in, 300000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[thread], &status);
        from = status.MPI_SOURCE;
        /* A sender comes to this rank every so many rounds. */
        int hop = (rank_world - from + size_world) % size_world - 1;
        int number = hop + next[from]++ * (size_world - 1);
        CHECK_STATUS(status, from, 50 + number % 3, LENS[number % 7]);
        VERIFY(in, LENS[number % 7], seed_of(from, thread, 50, number),
               "thread %d, any source, number %d of %d", thread, number, from);
    }
    MPI_Waitall(turns, sends, MPI_STATUSES_IGNORE);
    for (int round = 0; round < turns; round++)
        free(sent[round]);
    free(sent), free(sends);
    free(next);
    MPI_Barrier(comms[thread]);
    /* A collective in each thread. */
    for (int round = 0; round < rounds / 6; round++) {
        int mine = rank_world + round, sum;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comms[thread]);
        CHECK(sum == size_world * (size_world - 1) / 2 + size_world * round, "sum %d", sum);
    }
    free(out), free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_world);
    MPI_Comm_size(MPI_COMM_WORLD, &size_world);
    CHECK(provided == MPI_THREAD_MULTIPLE, "only thread level %d is provided", provided);
    CHECK(size_world >= 2, "this program needs 2 ranks");
    int count = argc > 1 ? atoi(argv[1]) : 4;
    rounds = argc > 2 ? atoi(argv[2]) : rounds;
    CHECK(count > 0 && count <= THREADS_MAX, "%d threads", count);
    pthread_t threads[THREADS_MAX];
    for (int i = 0; i < count; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0, "no thread");
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++)
        MPI_Comm_free(&comms[i]);
    return check_finish("threads");
}
