/* All kinds of windows, with passive targets: puts, gets, accumulates, counters and exchanges
 * under lock_all, flushes, and operations that are requests. With the word "unshared", without
 * a window of shared memory. */
#include "check.h"

enum { WORDS = 9000, ROUNDS = 12 };
/* In words: within a packet, just beyond it, and more than is sent eagerly. */
static const int COUNTS[] = {1, 100, 130, 520, 7000};

static long *memory;
static MPI_Win window;
/* What the displacement of the first word is, at each rank. */
static MPI_Aint *base;
static int unit;

static MPI_Aint at(int rank, long word)
{
    return base[rank] + word * (unit == 1 ? (MPI_Aint)sizeof(long) : 1);
}

static long value_of(int rank, int count, int round, int word)
{
    return rank * 1000000007L + count * 10007L + round * 101L + word;
}

/* Each rank writes to its right neighbour and reads that back, which is in no call of MPI. */
static void puts_and_gets(int count, int round)
{
    int right = (rank_world + 1) % size_world;
    long *out = malloc(count * sizeof *out), *in = calloc(count, sizeof *in);
    for (int i = 0; i < count; i++)
        out[i] = value_of(rank_world, count, round, i);
    TRY(MPI_Put(out, count, MPI_LONG, right, at(right, 16), count, MPI_LONG, window));
    TRY(MPI_Win_flush(right, window));
    TRY(MPI_Get(in, count, MPI_LONG, right, at(right, 16), count, MPI_LONG, window));
    TRY(MPI_Win_flush_local(right, window));
    for (int i = 0; i < count; i++)
        CHECK(in[i] == out[i], "%d words, word %d is %ld, not %ld", count, i, in[i], out[i]);
    /* As requests, and every other word alone. */
    MPI_Request requests[2];
    MPI_Datatype spaced;
    MPI_Type_vector((count + 1) / 2, 1, 2, MPI_LONG, &spaced);
    MPI_Type_commit(&spaced);
    for (int i = 0; i < count; i++)
        out[i] = -out[i], in[i] = 0;
    TRY(MPI_Rput(out, 1, spaced, right, at(right, 16), 1, spaced, window, &requests[0]));
    TRY(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    TRY(MPI_Win_flush_all(window));
    TRY(MPI_Rget(in, count, MPI_LONG, right, at(right, 16), count, MPI_LONG, window, &requests[1]));
    TRY(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    for (int i = 0; i < count; i++) {
        long expected = i % 2 ? -out[i] : out[i];
        CHECK(in[i] == expected, "%d words, spaced, word %d is %ld, not %ld", count, i, in[i],
              expected);
    }
    MPI_Type_free(&spaced);
    free(out), free(in);
}

/* Everybody counts at everybody, and exchanges what only one can have. */
static void counters(void)
{
    long one = 1, free_word = 0, mine = rank_world + 1, got;
    for (int round = 0; round < ROUNDS; round++)
        for (int target = 0; target < size_world; target++) {
            TRY(MPI_Fetch_and_op(&one, &got, MPI_LONG, target, at(target, 0), MPI_SUM, window));
            TRY(MPI_Win_flush(target, window));
            CHECK(got >= 0 && got < (long)ROUNDS * size_world, "counted %ld", got);
            TRY(MPI_Accumulate(&mine, 1, MPI_LONG, target, at(target, 1), 1, MPI_LONG, MPI_SUM,
                               window));
        }
    TRY(MPI_Win_flush_all(window));
    for (int round = 0; round < ROUNDS; round++) {
        int target = round % size_world;
        do {
            TRY(MPI_Compare_and_swap(&mine, &free_word, &got, MPI_LONG, target, at(target, 2),
                                     window));
            TRY(MPI_Win_flush(target, window));
        } while (got != 0);
        long count;
        TRY(MPI_Get(&count, 1, MPI_LONG, target, at(target, 3), 1, MPI_LONG, window));
        TRY(MPI_Win_flush(target, window));
        count++;
        TRY(MPI_Put(&count, 1, MPI_LONG, target, at(target, 3), 1, MPI_LONG, window));
        TRY(MPI_Win_flush(target, window));
        TRY(MPI_Compare_and_swap(&free_word, &mine, &got, MPI_LONG, target, at(target, 2), window));
        TRY(MPI_Win_flush(target, window));
        CHECK(got == mine, "rank %ld had what rank %d has taken", got - 1, rank_world);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    long all[4], zero[4] = {0};
    for (int target = 0; target < size_world; target++) {
        TRY(MPI_Get_accumulate(zero, 4, MPI_LONG, all, 4, MPI_LONG, target, at(target, 0), 4,
                               MPI_LONG, MPI_NO_OP, window));
        TRY(MPI_Win_flush(target, window));
        long sum = (long)ROUNDS * size_world * (size_world + 1) / 2;
        long takers = 0;
        for (int round = 0; round < ROUNDS; round++)
            takers += round % size_world == target ? size_world : 0;
        CHECK(all[0] == (long)ROUNDS * size_world, "%d counted %ld", target, all[0]);
        CHECK(all[1] == sum, "%d added up to %ld, not %ld", target, all[1], sum);
        CHECK(all[2] == 0 && all[3] == takers, "%d was taken %ld times, not %ld", target, all[3],
              takers);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A rank looks at its own window alone until another one has written there, word by word: what is
 * done to a window goes on although its owner asks nothing of others. */
static void told_by_another(int owner)
{
    long nothing = 0, got;
    if (rank_world == owner) {
        TRY(MPI_Put(&nothing, 1, MPI_LONG, owner, at(owner, 4), 1, MPI_LONG, window));
        TRY(MPI_Win_flush(owner, window));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_world == (owner + 1) % size_world)
        for (long round = 1; round <= ROUNDS; round++) {
            TRY(MPI_Put(&round, 1, MPI_LONG, owner, at(owner, 4), 1, MPI_LONG, window));
            TRY(MPI_Win_flush(owner, window));
        }
    if (rank_world == owner)
        do {
            TRY(MPI_Get(&got, 1, MPI_LONG, owner, at(owner, 4), 1, MPI_LONG, window));
            TRY(MPI_Win_flush(owner, window));
        } while (got != ROUNDS);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void passive(const char *kind)
{
    MPI_Aint own = 0;
    if (unit == 1)
        MPI_Get_address(memory, &own);
    base = malloc(size_world * sizeof *base);
    MPI_Allgather(&own, 1, MPI_AINT, base, 1, MPI_AINT, MPI_COMM_WORLD);
    TRY(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_world, 0, window));
    memset(memory, 0, WORDS * sizeof *memory);
    TRY(MPI_Win_unlock(rank_world, window));
    MPI_Barrier(MPI_COMM_WORLD);
    TRY(MPI_Win_lock_all(0, window));
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < (int)(sizeof COUNTS / sizeof *COUNTS); i++)
            puts_and_gets(COUNTS[i], round);
    counters();
    for (int owner = 0; owner < size_world; owner++)
        told_by_another(owner);
    TRY(MPI_Win_unlock_all(window));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_world == 0)
        printf("windows: %s correct\n", kind);
    free(base);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    MPI_Aint bytes = WORDS * sizeof(long);
    int word = sizeof(long);
    unit = word;
    memory = malloc(bytes);
    TRY(MPI_Win_create(memory, bytes, word, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    passive("of given memory");
    TRY(MPI_Win_free(&window));
    free(memory);

    TRY(MPI_Win_allocate(bytes, word, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    passive("of memory that MPI allocates");
    TRY(MPI_Win_free(&window));

    /* The displacement is an address. */
    unit = 1;
    memory = malloc(bytes);
    TRY(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    TRY(MPI_Win_attach(window, memory, bytes));
    passive("of memory that is attached");
    TRY(MPI_Win_detach(window, memory));
    TRY(MPI_Win_free(&window));
    free(memory);

    /* Only ranks of one host can have it, and only by way of their memory. */
    MPI_Comm host;
    int size_host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &size_host);
    if (size_host == size_world && !(argc > 1 && !strcmp(argv[1], "unshared"))) {
        unit = word;
        TRY(MPI_Win_allocate_shared(bytes, word, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
        passive("of shared memory");
        TRY(MPI_Win_free(&window));
    }
    MPI_Comm_free(&host);
    return check_finish("windows");
}
