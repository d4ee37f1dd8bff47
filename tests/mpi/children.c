/* Processes that ranks start while messages are under way: by fork and an end without or with
 * what a library does at exit, by fork and exec, by system(). Each must end well, and no
 * message of the ranks may be lost, come twice or be late. Argument: how many rounds. */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

enum { WINDOW = 8, LEN_MAX = 300000, TAG = 3 };
static const int LENS[WINDOW] = {0, 8, 3000, 40000, 8192, LEN_MAX, 64, 70000};

enum way { FORK_END, FORK_EXIT, FORK_LINGER, FORK_EXEC, SYSTEM, WAYS };

/* Starts a child; gives its process, or 0 if it has ended. */
static pid_t start_child(enum way way)
{
    if (way == SYSTEM) {
        int code = system("exit 7");
        CHECK(WIFEXITED(code) && WEXITSTATUS(code) == 7, "system() gave %d", code);
        return 0;
    }
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    if (child > 0)
        return child;
    /* A copy of all memory, mappings and descriptors; only this thread. */
    switch (way) {
    case FORK_EXEC:
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(1);
    case FORK_EXIT:
        exit(7);
    case FORK_LINGER:
        sleep_ms(200);
        _exit(7);
    default:
        _exit(7);
    }
}

static void end_child(pid_t child, enum way way)
{
    int code;
    CHECK(waitpid(child, &code, 0) == child, "the child is gone");
    CHECK(WIFEXITED(code) && WEXITSTATUS(code) == 7, "child of way %d ended with %#x", way, code);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    int rounds = argc > 1 ? atoi(argv[1]) : 20, size = size_world;
    uint8_t *out[WINDOW], *in[WINDOW];
    for (int i = 0; i < WINDOW; i++) {
        out[i] = guarded(LEN_MAX);
        in[i] = guarded(LEN_MAX);
    }
    for (int round = 0; round < rounds; round++) {
        MPI_Request requests[2 * WINDOW];
        MPI_Status statuses[2 * WINDOW];
        int hop = 1 + round % (size - 1), right = (rank_world + hop) % size;
        int left = (rank_world + size - hop) % size;
        enum way way = (round + rank_world) % WAYS;
        for (int i = 0; i < WINDOW; i++) {
            fill(out[i], LENS[i], seed_of(rank_world, right, i, round));
            MPI_Irecv(in[i], LEN_MAX, MPI_BYTE, left, TAG + i, MPI_COMM_WORLD, &requests[i]);
            MPI_Isend(out[i], LENS[i], MPI_BYTE, right, TAG + i, MPI_COMM_WORLD,
                      &requests[WINDOW + i]);
        }
        pid_t child = start_child(way);
        MPI_Waitall(2 * WINDOW, requests, statuses);
        for (int i = 0; i < WINDOW; i++) {
            CHECK_STATUS(statuses[i], left, TAG + i, LENS[i]);
            VERIFY(in[i], LENS[i], seed_of(left, rank_world, i, round), "round %d", round);
            CHECK_GUARD(in[i], LEN_MAX);
        }
        if (child > 0)
            end_child(child, way);
    }
    return check_finish("children");
}
