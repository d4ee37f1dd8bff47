/* Every length around the borders where a protocol changes, verified, with
 * guard bytes; receiver first and sender first; at odd addresses too. */
#include "check.h"

static const int BORDERS[] = {0,    8,    16,   24,   32,    40,    48,    56,    64,     96,
                              112,  128,  192,  256,  512,   1024,  2048,  4096,  8192,   16384,
                              32768, 65536, 131072, 262144, 524288};

static uint8_t *out, *in;

static void one(int len, int offset, int expected, int number)
{
    uint64_t there = seed_of(0, 1, len, number), back = seed_of(1, 0, len, number);
    MPI_Status status;
    MPI_Request request;
    uint8_t *from = out + offset, *to = in + offset;
    guard_set(to, len);
    if (rank_world == 0) {
        fill(from, len, there);
        if (expected)
            MPI_Irecv(to, len, MPI_BYTE, 1, number, MPI_COMM_WORLD, &request);
        MPI_Send(from, len, MPI_BYTE, 1, number, MPI_COMM_WORLD);
        VERIFY(from, len, there, "the send buffer itself, length %d", len);
        if (expected)
            MPI_Wait(&request, &status);
        else
            MPI_Recv(to, len, MPI_BYTE, 1, number, MPI_COMM_WORLD, &status);
        CHECK_STATUS(status, 1, number, len);
        VERIFY(to, len, back, "length %d, offset %d, expected %d", len, offset, expected);
    } else if (rank_world == 1) {
        fill(from, len, back);
        MPI_Recv(to, len, MPI_BYTE, 0, number, MPI_COMM_WORLD, &status);
        CHECK_STATUS(status, 0, number, len);
        VERIFY(to, len, there, "length %d, offset %d, expected %d", len, offset, expected);
        MPI_Send(from, len, MPI_BYTE, 0, number, MPI_COMM_WORLD);
    }
    CHECK_GUARD(to, len);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    const int max = 16 << 20;
    out = guarded(max + 8);
    in = guarded(max + 8);
    int number = 0;
    for (int len = 0; len <= 300; len++)
        one(len, len % 3, len % 2, number++);
    for (size_t i = 0; i < sizeof BORDERS / sizeof *BORDERS; i++)
        for (int delta = -9; delta <= 9; delta++)
            for (int expected = 0; expected < 2; expected++)
                if (BORDERS[i] + delta >= 0)
                    one(BORDERS[i] + delta, (delta + 9) % 4, expected, number++);
    for (int eager = 8192 - 80; eager <= 8192; eager++)
        one(eager, 0, eager % 2, number++);
    const int large[] = {1 << 20, 4 << 20, 16 << 20};
    for (int i = 0; i < 3; i++)
        for (int delta = -1; delta <= 1; delta++)
            one(large[i] + (large[i] == max && delta > 0 ? 0 : delta), delta + 1, delta == 0,
                number++);
    return check_finish("lengths");
}
