/* A message longer than its receive: MPI_ERR_TRUNCATE at the receiver, nothing
 * written behind the buffer, no harm to the sender or to the next message. */
#include "check.h"

/* Open MPI's own shared memory does write behind the buffer here. */
static int strict;

static void one(int sent, int room, int expected, int number)
{
    uint8_t *out = guarded(sent), *in = guarded(sent + 8);
    uint8_t next[32];
    MPI_Status status;
    if (rank_world == 0) {
        MPI_Request request;
        memset(in, GUARD, sent + 8);
        if (expected)
            MPI_Irecv(in, room, MPI_BYTE, 1, number, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!expected) {
            sleep_ms(2);
            MPI_Irecv(in, room, MPI_BYTE, 1, number, MPI_COMM_WORLD, &request);
        }
        int code = MPI_Wait(&request, &status), class = MPI_SUCCESS;
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_TRUNCATE, "error class %d for %d bytes into %d, expected %d", class,
              sent, room, expected);
        for (int i = room; strict && i < sent + 8; i++)
            CHECK(in[i] == GUARD, "byte %d was written: the receive had room for %d", i, room);
        TRY(MPI_Recv(next, 32, MPI_BYTE, 1, number, MPI_COMM_WORLD, &status));
        CHECK_STATUS(status, 1, number, 32);
        VERIFY(next, 32, seed_of(1, 0, number, 1), "the message after the truncated one");
        TRY(MPI_Send(next, 32, MPI_BYTE, 1, number, MPI_COMM_WORLD));
    } else {
        fill(out, sent, seed_of(1, 0, number, 0));
        fill(next, 32, seed_of(1, 0, number, 1));
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank_world == 1) {
            MPI_Request request;
            TRY(MPI_Isend(out, sent, MPI_BYTE, 0, number, MPI_COMM_WORLD, &request));
            TRY(MPI_Send(next, 32, MPI_BYTE, 0, number, MPI_COMM_WORLD));
            /* Whether the sender learns of it is left open; that it ends is not. */
            MPI_Wait(&request, &status);
            TRY(MPI_Recv(next, 32, MPI_BYTE, 0, number, MPI_COMM_WORLD, &status));
        }
    }
    free(out), free(in);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    strict = getenv("SLUICE_TEST_STRICT") != NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int cases[][2] = {{1, 0},      {8, 7},        {100, 10},        {100, 0},
                            {4096, 100}, {8192, 8191},  {8193, 8192},     {100000, 99999},
                            {100000, 0}, {1 << 20, 10}, {1 << 20, 500000}, {3 << 20, 1 << 20}};
    for (int i = 0; i < 12; i++)
        for (int expected = 0; expected < 2; expected++)
            one(cases[i][0], cases[i][1], expected, 2 * i + expected);
    return check_finish("truncate");
}
