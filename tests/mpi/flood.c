/* Far more unexpected messages than any bound allows, to a receiver that looks
 * away first. They wait at their senders; the receiver's memory stays small.
 * Arguments: "reverse" receives the last tag first; "messages N" and "size N"
 * of each sender. */
#include "check.h"
#include <sys/resource.h>

/* Messages of equal content share their buffer. */
enum { CONTENTS = 1024, GROWTH_KIB_MAX = 16 * 1024 };

static int messages = 20000, size = 1024, reverse;

/* The largest resident set so far. */
static long resident_kib_peak(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int has_value = i + 1 < argc;
        if (strcmp(argv[i], "reverse") == 0)
            reverse = 1;
        else if (strcmp(argv[i], "messages") == 0 && has_value)
            messages = atoi(argv[++i]);
        else if (strcmp(argv[i], "size") == 0 && has_value)
            size = atoi(argv[++i]);
        else
            CHECK(0, "unknown argument %s", argv[i]);
    }
    CHECK(messages > 0 && size > 0, "%d messages of %d bytes", messages, size);
}

static void receive(void)
{
    uint8_t *in = guarded(size);
    long before = resident_kib_peak();
    sleep_ms(300);
    for (int spin = 0; spin < 1000; spin++) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, messages + 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag, "nobody sends this tag");
    }
    double start = MPI_Wtime();
    for (int i = 0; i < messages; i++)
        for (int source = 1; source < size_world; source++) {
            int number = reverse ? messages - 1 - i : i;
            MPI_Status status;
            MPI_Recv(in, size, MPI_BYTE, source, number, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, source, number, size);
            VERIFY(in, size, seed_of(source, 0, 0, number % CONTENTS), "message %d of %d", number,
                   source);
        }
    long growth = resident_kib_peak() - before;
    if (getenv("SLUICE_TEST_STRICT"))
        CHECK(growth <= GROWTH_KIB_MAX, "the receiver grew by %ld KiB, more than %d", growth,
              GROWTH_KIB_MAX);
    printf("flood: the receiver grew by %ld KiB under %ld KiB of unexpected messages, "
           "received in %.3f s\n",
           growth, (long)messages * size / 1024 * (size_world - 1), MPI_Wtime() - start);
    fflush(stdout);
}

static void send_all(void)
{
    uint8_t *out = malloc((size_t)CONTENTS * size);
    MPI_Request *requests = malloc(sizeof *requests * messages);
    for (int i = 0; i < CONTENTS; i++)
        fill(out + (size_t)i * size, size, seed_of(rank_world, 0, 0, i));
    for (int i = 0; i < messages; i++)
        MPI_Isend(out + (size_t)(i % CONTENTS) * size, size, MPI_BYTE, 0, i, MPI_COMM_WORLD,
                  &requests[i]);
    MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
    free(out), free(requests);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    read_arguments(argc, argv);
    if (rank_world == 0)
        receive();
    else
        send_all();
    return check_finish("flood");
}
