/* Messages longer than an int counts: 2 GiB - 1 bytes, and 3 GiB by a derived
 * type. Blocks spread over the whole length, its head and its tail are verified;
 * what lies between is zero. One buffer for each rank. */
#include "check.h"

static const size_t MIB = 1 << 20;

/* Every 8 MiB less a little, so that the blocks lie at all kinds of places. */
static const size_t STEP = (8 << 20) - 4999, BLOCK = 32 << 10;

static void fill_blocks(uint8_t *buffer, size_t len, uint64_t seed)
{
    for (size_t at = 0; at + BLOCK < len; at += STEP)
        fill(buffer + at, BLOCK, seed + at);
    fill(buffer + len - BLOCK, BLOCK, seed);
}

static void verify_blocks(const uint8_t *buffer, size_t len, uint64_t seed)
{
    VERIFY(buffer + len - BLOCK, BLOCK, seed, "the tail of %zu", len);
    for (size_t at = 0; at + BLOCK < len - BLOCK; at += STEP) {
        VERIFY(buffer + at, BLOCK, seed + at, "the block at %zu of %zu", at, len);
        for (size_t i = at + BLOCK; i < at + 2 * BLOCK && i < len - BLOCK; i++)
            CHECK(buffer[i] == 0, "byte %zu of %zu is not zero", i, len);
    }
}

static size_t available_kib(void)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && kib == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %zu", &kib) != 1)
            kib = 0;
    if (file)
        fclose(file);
    return kib;
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    int enough = available_kib() >= (size_t)8 << 20;
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!enough) {
        if (rank_world == 0)
            printf("skip: less than 8 GiB of memory is available\n");
        fflush(stdout);
        MPI_Finalize();
        return EXIT_SKIPPED;
    }
    const size_t len = 3072 * MIB;
    uint8_t *buffer = calloc(len + GUARD_BYTES, 1);
    CHECK(buffer != NULL, "no memory for %zu bytes", len);
    guard_set(buffer, len);
    MPI_Datatype mib;
    MPI_Type_contiguous((int)MIB, MPI_BYTE, &mib);
    MPI_Type_commit(&mib);
    MPI_Status status;
    MPI_Count count;

    if (rank_world == 0) {
        fill_blocks(buffer, len, 17);
        MPI_Send(buffer, 3072, mib, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(buffer, INT32_MAX, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &status);
        MPI_Get_elements_x(&status, MPI_BYTE, &count);
        CHECK(count == INT32_MAX, "got %lld bytes", (long long)count);
        verify_blocks(buffer, INT32_MAX, 18);
    } else if (rank_world == 1) {
        MPI_Recv(buffer, 3072, mib, 0, 1, MPI_COMM_WORLD, &status);
        MPI_Get_elements_x(&status, MPI_BYTE, &count);
        CHECK(count == (MPI_Count)len, "got %lld bytes of %zu", (long long)count, len);
        verify_blocks(buffer, len, 17);
        CHECK_GUARD(buffer, len);
        memset(buffer + INT32_MAX - 2 * BLOCK, 0, BLOCK);
        fill_blocks(buffer, INT32_MAX, 18);
        MPI_Send(buffer, INT32_MAX, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
    free(buffer);
    MPI_Type_free(&mib);
    return check_finish("huge");
}
