/* A receiver that takes a message now and then, and a sender that sends as many as it
 * may: for tests that look at both. Goes on until it is ended. */
#include "check.h"

enum { WINDOW = 2000, SIZE = 1024 };

static void receive(void)
{
    uint8_t *in = guarded(SIZE);
    for (;;) {
        MPI_Recv(in, SIZE, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sleep_ms(5);
    }
}

static void send_all(void)
{
    static MPI_Request requests[WINDOW];
    uint8_t *out = guarded(SIZE);
    for (;;) {
        for (int i = 0; i < WINDOW; i++)
            MPI_Isend(out, SIZE, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    if (rank_world == 0)
        receive();
    send_all();
    return check_finish("slow");
}
