/* One-sided operations by whatever Open MPI makes them of: put, get and
 * accumulate between fences, under locks, and post-start-complete-wait. */
#include "check.h"

enum { WORDS = 40000 };
static const int COUNTS[] = {1, 7, 600, 1024, 1100, WORDS};

static long *memory, *local;
static MPI_Win window;

static void fences(int count, int round)
{
    int right = (rank_world + 1) % size_world, left = (rank_world + size_world - 1) % size_world;
    long *got = calloc(count, sizeof *got);
    for (int i = 0; i < WORDS; i++)
        memory[i] = -1;
    for (int i = 0; i < count; i++)
        local[i] = rank_world * 1000000L + i + round;
    MPI_Win_fence(0, window);
    MPI_Put(local, count, MPI_LONG, right, 0, count, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < WORDS; i++)
        CHECK(memory[i] == (i < count ? left * 1000000L + i + round : -1),
              "put of %d, word %d is %ld", count, i, memory[i]);
    MPI_Win_fence(0, window);
    MPI_Get(got, count, MPI_LONG, right, 0, count, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < count; i++)
        CHECK(got[i] == rank_world * 1000000L + i + round, "get of %d, word %d is %ld", count, i,
              got[i]);
    MPI_Win_fence(0, window);
    for (int target = 0; target < size_world; target++)
        MPI_Accumulate(local, count, MPI_LONG, target, 0, count, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < count; i++) {
        long expected = left * 1000000L + i + round;
        for (int source = 0; source < size_world; source++)
            expected += source * 1000000L + i + round;
        CHECK(memory[i] == expected, "accumulate of %d, word %d is %ld, not %ld", count, i,
              memory[i], expected);
    }
    free(got);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Everybody counts in rank 0's first word, and writes a place of its own. */
static void locks(void)
{
    enum { ROUNDS = 50 };
    long one = 1, before, sum = 0, value;
    memory[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) {
        value = rank_world * 100 + round;
        MPI_Win_lock(round % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Put(&value, 1, MPI_LONG, 0, 1 + rank_world, 1, MPI_LONG, window);
        MPI_Win_unlock(0, window);
        CHECK(before >= 0 && before < (long)ROUNDS * size_world, "counted %ld", before);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(&sum, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    MPI_Get(&value, 1, MPI_LONG, 0, 1 + rank_world, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    CHECK(sum == (long)ROUNDS * size_world, "counted %ld, not %ld", sum, (long)ROUNDS * size_world);
    CHECK(value == rank_world * 100 + ROUNDS - 1, "own place holds %ld", value);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Each rank exposes its memory to its left neighbour only. */
static void groups(void)
{
    int right = (rank_world + 1) % size_world, left = (rank_world + size_world - 1) % size_world;
    MPI_Group all, to, from;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &right, &to);
    MPI_Group_incl(all, 1, &left, &from);
    for (int round = 0; round < 20; round++) {
        long value = rank_world + round * 10L;
        memory[round] = -1;
        MPI_Win_post(from, 0, window);
        MPI_Win_start(to, 0, window);
        MPI_Put(&value, 1, MPI_LONG, right, round, 1, MPI_LONG, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        CHECK(memory[round] == left + round * 10L, "round %d holds %ld", round, memory[round]);
    }
    MPI_Group_free(&all), MPI_Group_free(&to), MPI_Group_free(&from);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    memory = calloc(WORDS, sizeof *memory), local = calloc(WORDS, sizeof *local);
    MPI_Win_create(memory, WORDS * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &window);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < (int)(sizeof COUNTS / sizeof *COUNTS); i++)
            fences(COUNTS[i], round);
    locks();
    groups();
    MPI_Win_free(&window);
    free(memory), free(local);
    return check_finish("rma");
}
