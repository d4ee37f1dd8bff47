/* Thousands of requests under way at once, of mixed lengths, completed by
 * Waitany, Waitsome, Testsome and Waitall. */
#include "check.h"

enum { COUNT = 3000 };

static int len_of(int number)
{
    uint64_t draw = mix64(number);
    if (draw % 50 == 0)
        return 20000 + (int)((draw >> 10) % 100000);
    if (draw % 5 == 0)
        return (int)((draw >> 10) % 9000);
    return (int)((draw >> 10) % 200);
}

static void round_of(int how)
{
    int right = (rank_world + 1) % size_world, left = (rank_world + size_world - 1) % size_world;
    uint8_t **in = malloc(sizeof *in * COUNT), **out = malloc(sizeof *out * COUNT);
    MPI_Request *receives = malloc(sizeof *receives * COUNT);
    MPI_Request *sends = malloc(sizeof *sends * COUNT);
    char *seen = calloc(COUNT, 1);
    for (int i = 0; i < COUNT; i++) {
        in[i] = guarded(len_of(i));
        out[i] = guarded(len_of(i));
        fill(out[i], len_of(i), seed_of(rank_world, right, how, i));
    }
    /* In one half of the rounds, some receives come after the sends. */
    int early = how % 2 ? COUNT : COUNT / 2;
    for (int i = 0; i < early; i++)
        MPI_Irecv(in[i], len_of(i), MPI_BYTE, left, i % 10, MPI_COMM_WORLD, &receives[i]);
    for (int i = 0; i < COUNT; i++)
        MPI_Isend(out[i], len_of(i), MPI_BYTE, right, i % 10, MPI_COMM_WORLD, &sends[i]);
    for (int i = early; i < COUNT; i++)
        MPI_Irecv(in[i], len_of(i), MPI_BYTE, left, i % 10, MPI_COMM_WORLD, &receives[i]);

    int *indices = malloc(sizeof *indices * COUNT);
    MPI_Status *status = malloc(sizeof *status * COUNT);
    for (int done = 0; done < COUNT;) {
        int count = 0;
        if (how == 0) {
            MPI_Waitany(COUNT, receives, &indices[0], &status[0]);
            count = 1;
        } else if (how == 1) {
            MPI_Waitsome(COUNT, receives, &count, indices, status);
        } else if (how == 2) {
            MPI_Testsome(COUNT, receives, &count, indices, status);
        } else {
            MPI_Waitall(COUNT, receives, status);
            for (count = 0; count < COUNT; count++)
                indices[count] = count;
        }
        CHECK(count != MPI_UNDEFINED, "no request is left after %d of %d", done, COUNT);
        for (int k = 0; k < count; k++) {
            int i = indices[k];
            CHECK(i >= 0 && i < COUNT && !seen[i], "request %d completed twice", i);
            seen[i] = 1;
            CHECK_STATUS(status[k], left, i % 10, len_of(i));
            VERIFY(in[i], len_of(i), seed_of(left, rank_world, how, i), "message %d", i);
            CHECK_GUARD(in[i], len_of(i));
        }
        done += count;
    }
    MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; i++)
        free(in[i]), free(out[i]);
    free(in), free(out), free(receives), free(sends), free(seen), free(indices), free(status);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    for (int how = 0; how < 4; how++)
        round_of(how);
    return check_finish("window");
}
