/* The last rank is killed by SIGKILL in mid-transfer. Arguments: what is under
 * way then (small, large, receive or send). The others must see an error within
 * seconds: each prints a line when it does, goes on with the other survivors, and
 * ends with status 3. Times are those of the machine, for the runner to compare. */
#include "check.h"
#include <signal.h>

/* Exchanges before the death, and attempts after which somebody must have seen it: on a
 * machine with much else to do an exchange may take seconds. */
enum { ROUNDS_BEFORE = 20, ROUNDS_MAX = 40, LEN_LARGE = 8 << 20 };

static int victim;

static MPI_Comm survivors;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* The survivors still exchange messages among each other, small and large. */
static void go_on(uint8_t *out, uint8_t *in)
{
    int rank, size;
    MPI_Comm_rank(survivors, &rank);
    MPI_Comm_size(survivors, &size);
    for (int round = 0; round < 20; round++) {
        int right = (rank + 1) % size, left = (rank + size - 1) % size;
        int len = round % 4 ? 100 * round : LEN_LARGE;
        MPI_Status status;
        fill(out, len, seed_of(rank, right, 7, round));
        TRY(MPI_Sendrecv(out, len, MPI_BYTE, right, 7, in, len, MPI_BYTE, left, 7, survivors,
                         &status));
        CHECK_STATUS(status, left, 7, len);
        VERIFY(in, len, seed_of(left, rank, 7, round), "among survivors, round %d", round);
    }
}

static void saw(int code, uint8_t *out, uint8_t *in)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;
    MPI_Error_string(code, text, &len);
    printf("rank %d saw the death at %.3f: %s\n", rank_world, now(), text);
    fflush(stdout);
    go_on(out, in);
    printf("rank %d went on with the other survivors\n", rank_world);
    fflush(stdout);
    /* The launcher may end all once one has ended, so not before everybody has gone on. Whoever is
     * still in here then sees an error, which is no fault. */
    MPI_Barrier(survivors);
    /* Finalizing would wait for the dead one. */
    _exit(3);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    victim = size_world - 1;
    MPI_Comm_split(MPI_COMM_WORLD, rank_world == victim, rank_world, &survivors);
    MPI_Comm_set_errhandler(survivors, MPI_ERRORS_RETURN);
    const char *what = argc > 1 ? argv[1] : "large";
    int len = strcmp(what, "small") == 0 ? 8 : LEN_LARGE;
    uint8_t *out = guarded(LEN_LARGE), *in = guarded(LEN_LARGE);
    fill(out, len, 1);
    MPI_Barrier(MPI_COMM_WORLD);

    if (rank_world == victim) {
        /* Some exchanges, so that everybody is connected; then the death, with
         * requests under way to and from everybody. */
        for (int round = 0; round < ROUNDS_BEFORE; round++)
            for (int peer = 0; peer < victim; peer++)
                MPI_Sendrecv(out, len, MPI_BYTE, peer, 1, in, len, MPI_BYTE, peer, 1,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Request requests[128];
        for (int peer = 0; peer < victim; peer++) {
            MPI_Isend(out, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[2 * peer]);
            MPI_Irecv(in, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[2 * peer + 1]);
        }
        printf("rank %d dies at %.3f\n", rank_world, now());
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    for (int round = 0; round < ROUNDS_MAX; round++) {
        int code;
        if (strcmp(what, "receive") == 0 && round > ROUNDS_BEFORE)
            code = MPI_Recv(in, len, MPI_BYTE, victim, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (strcmp(what, "send") == 0 && round > ROUNDS_BEFORE)
            code = MPI_Ssend(out, len, MPI_BYTE, victim, 2, MPI_COMM_WORLD);
        else
            code = MPI_Sendrecv(out, len, MPI_BYTE, victim, 1, in, len, MPI_BYTE, victim, 1,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
            saw(code, out, in);
    }
    fprintf(stderr, "FAILED: rank %d saw no error in %d rounds\n", rank_world, ROUNDS_MAX);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
}
