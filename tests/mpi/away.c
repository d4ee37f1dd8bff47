/* A rank that computes: between posting a receive and finding its data it makes no
 * call of MPI, for as long as it takes. The sender says in shared memory when its
 * send has ended, which for a long message is when all of it has left the sender's memory.
 *
 * Only with a thread that makes progress: without one nobody takes the data, for a
 * receive from any source tells no sender where it is wanted. */
#include "check.h"
#include <stdatomic.h>

enum { ROUNDS = 20, LINE_BYTES = 64 };
static const double PATIENCE_S = 25;

/* How many receives were posted, sends begun, and sends ended. */
struct shared { _Alignas(LINE_BYTES) _Atomic int posted, begun, ended; };

/* Waits without a call of MPI that takes anything in. */
static void compute_until(_Atomic int *count, int wanted, const char *what)
{
    double end = MPI_Wtime() + PATIENCE_S;
    while (*count < wanted)
        CHECK(MPI_Wtime() < end, "round %d: %s", wanted, what);
}

static void receive(struct shared *shared, int round, int is_late, int len)
{
    uint8_t *in = guarded(len);
    MPI_Request request;
    MPI_Status status;
    if (is_late)
        compute_until(&shared->begun, round, "the message is on its way");
    MPI_Irecv(in, len, MPI_BYTE, MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &request);
    shared->posted = round;
    compute_until(&shared->ended, round, "the message has left the sender's memory");
    /* It may lie in a buffer of the sender's, out of which the thread takes it. */
    for (double end = MPI_Wtime() + PATIENCE_S;
         differs_at(in, len, seed_of(1, 0, round, len)) != (size_t)len;)
        CHECK(MPI_Wtime() < end, "round %d: the data is there before any call", round);
    CHECK_GUARD(in, len);
    MPI_Wait(&request, &status);
    CHECK_STATUS(status, 1, round, len);
    free(in);
}

static void send(struct shared *shared, int round, int is_late, int len)
{
    uint8_t *out = guarded(len);
    MPI_Request request;
    fill(out, len, seed_of(1, 0, round, len));
    if (!is_late)
        compute_until(&shared->posted, round, "the receive is posted");
    MPI_Isend(out, len, MPI_BYTE, 0, round, MPI_COMM_WORLD, &request);
    shared->begun = round;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    shared->ended = round;
    free(out);
}

int main(int argc, char **argv)
{
    const char *progress = getenv("FI_SLUICE_PROGRESS");
    struct shared *shared;
    MPI_Win window;
    MPI_Aint len;
    int unit;

    check_init(&argc, &argv, 2);
    if (!progress || strcmp(progress, "thread")) {
        if (rank_world == 0)
            printf("skip: FI_SLUICE_PROGRESS is not thread\n");
        MPI_Finalize();
        return EXIT_SKIPPED;
    }
    MPI_Win_allocate_shared(rank_world == 0 ? sizeof *shared : 0, 1, MPI_INFO_NULL,
                            MPI_COMM_WORLD, &shared, &window);
    MPI_Win_shared_query(window, 0, &len, &unit, &shared);
    if (rank_world == 0)
        memset(shared, 0, sizeof *shared);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 1; round <= ROUNDS; round++) {
        int is_late = round % 2, message_len = (4 << 20) >> round % 6;
        if (rank_world == 0)
            receive(shared, round, is_late, message_len);
        else if (rank_world == 1)
            send(shared, round, is_late, message_len);
    }
    MPI_Win_free(&window);
    return check_finish("away");
}
