/* Everybody to everybody, by the collective and by hand, verified. */
#include "check.h"

static void collective(int len)
{
    uint8_t *out = guarded((size_t)len * size_world), *in = guarded((size_t)len * size_world);
    for (int target = 0; target < size_world; target++)
        fill(out + (size_t)target * len, len, seed_of(rank_world, target, len, 0));
    MPI_Alltoall(out, len, MPI_BYTE, in, len, MPI_BYTE, MPI_COMM_WORLD);
    for (int source = 0; source < size_world; source++)
        VERIFY(in + (size_t)source * len, len, seed_of(source, rank_world, len, 0),
               "collective, length %d, from %d", len, source);
    CHECK_GUARD(in, (size_t)len * size_world);
    free(out), free(in);
}

static void by_hand(int len, int round)
{
    uint8_t *out = guarded((size_t)len * size_world), *in = guarded((size_t)len * size_world);
    MPI_Request *requests = malloc(sizeof *requests * 2 * size_world);
    int count = 0;
    for (int hop = 0; hop < size_world; hop++) {
        int source = (rank_world + hop) % size_world;
        MPI_Irecv(in + (size_t)source * len, len, MPI_BYTE, source, round, MPI_COMM_WORLD,
                  &requests[count++]);
    }
    for (int hop = 0; hop < size_world; hop++) {
        int target = (rank_world + hop) % size_world;
        fill(out + (size_t)target * len, len, seed_of(rank_world, target, len, round));
        MPI_Isend(out + (size_t)target * len, len, MPI_BYTE, target, round, MPI_COMM_WORLD,
                  &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int source = 0; source < size_world; source++)
        VERIFY(in + (size_t)source * len, len, seed_of(source, rank_world, len, round),
               "by hand, length %d, from %d", len, source);
    free(out), free(in), free(requests);
}

/* Lengths that differ for each pair, some zero. */
static int len_of(int source, int target, int base)
{
    return (source * 3 + target) % 4 == 0 ? 0 : base + source * 5 + target * 11;
}

static void varied(int base)
{
    int *counts = calloc(4 * size_world, sizeof *counts);
    int *out_at = counts + size_world, *in_counts = out_at + size_world;
    int *in_at = in_counts + size_world, out_len = 0, in_len = 0;
    for (int peer = 0; peer < size_world; peer++) {
        counts[peer] = len_of(rank_world, peer, base), out_at[peer] = out_len;
        in_counts[peer] = len_of(peer, rank_world, base), in_at[peer] = in_len;
        out_len += counts[peer], in_len += in_counts[peer];
    }
    uint8_t *out = guarded(out_len), *in = guarded(in_len);
    for (int peer = 0; peer < size_world; peer++)
        fill(out + out_at[peer], counts[peer], seed_of(rank_world, peer, base, 5));
    MPI_Alltoallv(out, counts, out_at, MPI_BYTE, in, in_counts, in_at, MPI_BYTE, MPI_COMM_WORLD);
    for (int peer = 0; peer < size_world; peer++)
        VERIFY(in + in_at[peer], in_counts[peer], seed_of(peer, rank_world, base, 5),
               "varied lengths, base %d, from %d", base, peer);
    CHECK_GUARD(in, in_len);
    free(out), free(in), free(counts);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    const int lens[] = {1, 8, 100, 3000, 8192, 10000, 70000, 300000};
    for (int i = 0; i < 8; i++) {
        collective(lens[i]);
        for (int round = 0; round < 3; round++)
            by_hand(lens[i], round);
        varied(lens[i]);
    }
    return check_finish("alltoall");
}
