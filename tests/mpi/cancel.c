/* MPI_Cancel of receives: an unmatched one is cancelled and takes nothing; a
 * matched one is not, and its data is right; one cancelled while its message
 * comes is one or the other, and the message is never lost. */
#include "check.h"

enum { TAG = 3, GO = 4, LEN = 200000 };

static uint8_t in[10][64];

static int cancel(MPI_Request *request, MPI_Status *status)
{
    int cancelled;
    MPI_Cancel(request);
    MPI_Wait(request, status);
    MPI_Test_cancelled(status, &cancelled);
    return cancelled;
}

static void unmatched(void)
{
    MPI_Status status;
    if (rank_world == 0) {
        MPI_Request requests[10];
        for (int i = 0; i < 10; i++)
            MPI_Irecv(in[i], 64, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : 1, TAG, MPI_COMM_WORLD,
                      &requests[i]);
        for (int i = 1; i < 10; i += 3)
            CHECK(cancel(&requests[i], &status), "receive %d was not cancelled", i);
        MPI_Send(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD);
        int number = 0;
        for (int i = 0; i < 10; i++) {
            if (i % 3 == 1)
                continue;
            MPI_Wait(&requests[i], &status);
            CHECK_STATUS(status, 1, TAG, 64);
            VERIFY(in[i], 64, seed_of(1, 0, TAG, number), "receive %d, message %d", i, number);
            number++;
        }
    } else if (rank_world == 1) {
        uint8_t out[64];
        MPI_Recv(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD, &status);
        for (int number = 0; number < 7; number++) {
            fill(out, 64, seed_of(1, 0, TAG, number));
            MPI_Send(out, 64, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void matched(int len)
{
    MPI_Status status;
    uint8_t *buffer = guarded(len);
    if (rank_world == 0) {
        MPI_Request request;
        MPI_Irecv(buffer, len, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        /* The next message of the same sender has come, so this one was matched. */
        MPI_Recv(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD, &status);
        CHECK(!cancel(&request, &status), "a matched receive of %d was cancelled", len);
        CHECK_STATUS(status, 1, TAG, len);
        VERIFY(buffer, len, seed_of(1, 0, TAG, len), "length %d", len);
        CHECK_GUARD(buffer, len);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank_world == 1) {
            MPI_Request request;
            fill(buffer, len, seed_of(1, 0, TAG, len));
            MPI_Isend(buffer, len, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
            MPI_Send(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    free(buffer);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void race(int len)
{
    int cancels = 0;
    uint8_t *buffer = guarded(len);
    for (int number = 0; number < 200; number++) {
        MPI_Status status;
        if (rank_world == 0) {
            MPI_Request request;
            MPI_Irecv(buffer, len, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
            MPI_Send(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD);
            for (volatile int spin = 0; spin < number * 50; spin++)
                ;
            if (number % 3 == 0) {
                int done;
                MPI_Iprobe(1, GO, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE);
            }
            if (cancel(&request, &status)) {
                cancels++;
                MPI_Recv(buffer, len, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &status);
            }
            CHECK_STATUS(status, 1, TAG, len);
            VERIFY(buffer, len, seed_of(1, 0, len, number), "length %d, round %d", len, number);
        } else if (rank_world == 1) {
            fill(buffer, len, seed_of(1, 0, len, number));
            MPI_Recv(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD, &status);
            MPI_Send(buffer, len, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
    if (rank_world == 0)
        printf("cancel: %d of 200 races of %d bytes were won by the cancel\n", cancels, len);
    free(buffer);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    unmatched();
    matched(8);
    matched(8000);
    matched(LEN);
    race(8);
    race(LEN);
    return check_finish("cancel");
}
