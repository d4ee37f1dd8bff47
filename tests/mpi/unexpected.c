/* Messages that come before their receives: everybody sends to everybody, then
 * receives in reverse order of tags; small, middle and large. Then with a
 * receiver that looks away for a while. */
#include "check.h"

enum { SMALL = 300 };
static const int MIDDLE[] = {1024, 2000, 4096, 5000, 8000, 8192};
static const int LARGE[] = {20000, 100001, 1 << 20};
enum { MIDDLES = 6, LARGES = 3, COUNT = SMALL + MIDDLES + LARGES };

static int len_of(int tag)
{
    if (tag < SMALL)
        return tag % 97;
    if (tag < SMALL + MIDDLES)
        return MIDDLE[tag - SMALL];
    return LARGE[tag - SMALL - MIDDLES];
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    uint8_t *in = guarded(1 << 20);
    for (int round = 0; round < 5; round++) {
        int sent = 0;
        MPI_Request *requests = malloc(sizeof *requests * COUNT * size_world);
        uint8_t **out = malloc(sizeof *out * COUNT * size_world);
        for (int tag = 0; tag < COUNT; tag++)
            for (int hop = 1; hop < size_world; hop++) {
                int target = (rank_world + hop) % size_world;
                out[sent] = guarded(len_of(tag));
                fill(out[sent], len_of(tag), seed_of(rank_world, target, tag, round));
                MPI_Isend(out[sent], len_of(tag), MPI_BYTE, target, tag, MPI_COMM_WORLD,
                          &requests[sent]);
                sent++;
            }
        if (round % 2)
            sleep_ms(50);
        for (int tag = COUNT - 1; tag >= 0; tag--)
            for (int hop = 1; hop < size_world; hop++) {
                int source = (rank_world + hop) % size_world, len = len_of(tag);
                MPI_Status status;
                guard_set(in, len);
                MPI_Recv(in, len, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status);
                CHECK_STATUS(status, source, tag, len);
                VERIFY(in, len, seed_of(source, rank_world, tag, round), "tag %d from %d", tag,
                       source);
                CHECK_GUARD(in, len);
            }
        MPI_Waitall(sent, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < sent; i++)
            free(out[i]);
        free(out), free(requests);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return check_finish("unexpected");
}
