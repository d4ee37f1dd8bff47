/* Far more unexpected messages than any bound allows, to a receiver that looks
 * away first. They wait at their senders; the receiver's memory stays small.
 * With the argument "reverse" they are received in reverse order. */
#include "check.h"

enum { COUNT = 20000, LEN = 1024, GROWTH_KIB_MAX = 16 * 1024 };

static long resident_kib(void)
{
    long total, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &total, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    int reverse = argc > 1 && strcmp(argv[1], "reverse") == 0;
    int bounded = getenv("SLUICE_TEST_STRICT") != NULL;
    if (rank_world == 0) {
        uint8_t *in = guarded(LEN);
        long before = resident_kib();
        sleep_ms(300);
        for (int spin = 0; spin < 1000; spin++) {
            int flag;
            MPI_Iprobe(MPI_ANY_SOURCE, COUNT + 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            CHECK(!flag, "nobody sends this tag");
        }
        for (int i = 0; i < COUNT; i++)
            for (int source = 1; source < size_world; source++) {
                int number = reverse ? COUNT - 1 - i : i;
                MPI_Status status;
                MPI_Recv(in, LEN, MPI_BYTE, source, number, MPI_COMM_WORLD, &status);
                CHECK_STATUS(status, source, number, LEN);
                VERIFY(in, LEN, seed_of(source, 0, 0, number), "message %d of %d", number, source);
            }
        long growth = resident_kib() - before;
        if (bounded)
            CHECK(growth <= GROWTH_KIB_MAX, "the receiver grew by %ld KiB, more than %d", growth,
                  GROWTH_KIB_MAX);
        printf("flood: the receiver grew by %ld KiB under %d KiB of unexpected messages\n", growth,
               COUNT * (size_world - 1));
        fflush(stdout);
    } else {
        uint8_t *out = malloc((size_t)COUNT * LEN);
        MPI_Request *requests = malloc(sizeof *requests * COUNT);
        for (int i = 0; i < COUNT; i++) {
            fill(out + (size_t)i * LEN, LEN, seed_of(rank_world, 0, 0, i));
            MPI_Isend(out + (size_t)i * LEN, LEN, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
        free(out), free(requests);
    }
    return check_finish("flood");
}
