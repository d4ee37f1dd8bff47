/* Thousands of receives at once before their messages, and thousands of messages at once
 * before their receives; in the order of their tags, in reverse order, and receives from
 * anybody. Each rank sends to the next one and receives from the one before. How many is the
 * argument. Rank 0 prints how long each part has taken.
 *
 * What a transport keeps of so many messages serves for the next as many: no rank grows any
 * more when all of it is done again. */
#include "check.h"
#include <sys/resource.h>

static int count = 5000;

enum { LEN = 24, ORDERS = 3 };
enum order { FORWARD, REVERSE, ANYBODY };
static const char *order_names[ORDERS] = {"in order", "in reverse order", "from anybody"};

/* Most that a rank grows by when as many messages wait once more. A buffer of 16 KiB for each of
 * 5,000 would be five times as much. */
enum { GROWTH_KIB_MAX = 16 << 10 };

static long peak_kib(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "the system tells what this process uses");
    return usage.ru_maxrss;
}

static uint8_t *in, *out;
static MPI_Request *receives, *sends;
static int before, next;

static void send_all(int round)
{
    for (int tag = 0; tag < count; tag++) {
        uint8_t *bytes = out + (size_t)tag * LEN;
        fill(bytes, LEN, seed_of(rank_world, next, tag, round));
        MPI_Isend(bytes, LEN, MPI_BYTE, next, tag, MPI_COMM_WORLD, &sends[tag]);
    }
}

static void receive_all(enum order order)
{
    for (int i = 0; i < count; i++) {
        int tag = order == REVERSE ? count - 1 - i : i;
        int source = order == ANYBODY ? MPI_ANY_SOURCE : before;
        MPI_Irecv(in + (size_t)tag * LEN, LEN, MPI_BYTE, source, tag, MPI_COMM_WORLD,
                  &receives[tag]);
    }
}

static void exchange(enum order order, int is_expected, int round)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (is_expected) {
        receive_all(order);
        MPI_Barrier(MPI_COMM_WORLD);
        send_all(round);
    } else {
        send_all(round);
        /* Also the last message is there before the first receive, or waits at its sender. */
        MPI_Barrier(MPI_COMM_WORLD);
        receive_all(order);
    }
    for (int tag = 0; tag < count; tag++) {
        MPI_Status status;
        MPI_Wait(&receives[tag], &status);
        CHECK_STATUS(status, before, tag, LEN);
        VERIFY(in + (size_t)tag * LEN, LEN, seed_of(before, rank_world, tag, round), "tag %d", tag);
    }
    MPI_Waitall(count, sends, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_world == 0)
        printf("%s %s: %.0f ms\n", is_expected ? "receives first," : "messages first,",
               order_names[order], 1e3 * (MPI_Wtime() - begin));
}

static void exchange_all(void)
{
    for (int order = 0; order < ORDERS; order++)
        for (int is_expected = 0; is_expected < 2; is_expected++)
            exchange(order, is_expected, 2 * order + is_expected);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    if (argc > 1)
        count = atoi(argv[1]);
    next = (rank_world + 1) % size_world;
    before = (rank_world + size_world - 1) % size_world;
    in = malloc((size_t)count * LEN), out = malloc((size_t)count * LEN);
    receives = malloc(sizeof *receives * count), sends = malloc(sizeof *sends * count);
    CHECK(in && out && receives && sends, "no memory for %d messages", count);
    exchange_all();
    long kib = peak_kib();
    exchange_all();
    long grown = peak_kib() - kib;
    CHECK(grown <= GROWTH_KIB_MAX, "it grew from %ld KiB by %ld", kib, grown);
    return check_finish("many");
}
