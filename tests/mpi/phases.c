/* Says what it is about to do: to begin (MPI_Init), to end (MPI_Finalize), so that the runner
 * can kill a rank meanwhile. Each rank has spoken to each other one before it ends. */
#include "check.h"

static void say(const char *what)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    printf("rank %s %s\n", rank ? rank : "?", what);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    say("begins");
    check_init(&argc, &argv, 2);
    say("has begun");
    int mine = rank_world, all[size_world];
    MPI_Alltoall((int[64]){0}, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int peer = 0; peer < size_world; peer++)
        CHECK(all[peer] == peer, "rank %d says %d", peer, all[peer]);
    say("ends");
    MPI_Finalize();
    say("has ended");
    return 0;
}
