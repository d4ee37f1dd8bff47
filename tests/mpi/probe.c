/* MPI_Probe, Iprobe, Mprobe, Improbe, Mrecv and Imrecv: with wildcards, out of
 * order, small and large. A matched message is nobody else's. */
#include "check.h"

static const int LENS[] = {0, 8, 100, 4096, 8192, 8193, 100000, 1 << 20};
enum { LENS_COUNT = 8 };
static uint8_t *buffer;

static void probes(void)
{
    MPI_Status status;
    for (int i = 0; i < LENS_COUNT; i++) {
        int len = LENS[i], flag = 0;
        uint64_t seed = seed_of(1, 0, i, 0);
        if (rank_world == 0) {
            MPI_Iprobe(1, 1000, MPI_COMM_WORLD, &flag, &status);
            CHECK(!flag, "a probe found what nobody sent");
            MPI_Probe(i % 2 ? MPI_ANY_SOURCE : 1, i % 3 ? i : MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            CHECK_STATUS(status, 1, i, len);
            /* Probing again finds the same message. */
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
            CHECK(flag, "the message that was probed is gone");
            CHECK_STATUS(status, 1, i, len);
            MPI_Recv(buffer, len, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
                     &status);
            CHECK_STATUS(status, 1, i, len);
            VERIFY(buffer, len, seed, "length %d", len);
        } else if (rank_world == 1) {
            fill(buffer, len, seed);
            MPI_Send(buffer, len, MPI_BYTE, 0, i, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void matched(void)
{
    MPI_Status status;
    MPI_Message message;
    for (int i = 0; i < LENS_COUNT; i++) {
        int len = LENS[i], flag = 0;
        if (rank_world == 0) {
            MPI_Improbe(1, 1000, MPI_COMM_WORLD, &flag, &message, &status);
            CHECK(!flag, "a probe found what nobody sent");
            if (i % 2)
                MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
            else
                while (!flag)
                    MPI_Improbe(1, i, MPI_COMM_WORLD, &flag, &message, &status);
            CHECK_STATUS(status, 1, i, len);
            /* The message is taken: a probe finds the one after it. */
            MPI_Status next;
            MPI_Probe(MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &next);
            CHECK_STATUS(next, 1, i, 5);
            /* So does a receive. */
            MPI_Recv(buffer, 5, MPI_BYTE, 1, i, MPI_COMM_WORLD, &next);
            VERIFY(buffer, 5, seed_of(1, 0, i, 2), "the message after the matched one");
            guard_set(buffer, len);
            if (i % 3) {
                MPI_Mrecv(buffer, len, MPI_BYTE, &message, &status);
            } else {
                MPI_Request request;
                MPI_Imrecv(buffer, len, MPI_BYTE, &message, &request);
                MPI_Wait(&request, &status);
            }
            CHECK(message == MPI_MESSAGE_NULL, "the message handle is still there");
            CHECK_STATUS(status, 1, i, len);
            VERIFY(buffer, len, seed_of(1, 0, i, 1), "length %d", len);
            CHECK_GUARD(buffer, len);
        } else if (rank_world == 1) {
            uint8_t second[5];
            fill(buffer, len, seed_of(1, 0, i, 1));
            fill(second, 5, seed_of(1, 0, i, 2));
            MPI_Request request;
            MPI_Isend(buffer, len, MPI_BYTE, 0, i, MPI_COMM_WORLD, &request);
            MPI_Send(second, 5, MPI_BYTE, 0, i, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Takes many messages by Mprobe, then receives them backwards. */
static void backwards(void)
{
    enum { COUNT = 40 };
    int per = COUNT / (size_world - 1) * (size_world - 1);
    if (rank_world == 0) {
        MPI_Message messages[COUNT];
        MPI_Status status[COUNT];
        for (int i = 0; i < per; i++)
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &messages[i], &status[i]);
        for (int i = per - 1; i >= 0; i--) {
            MPI_Status got;
            int len, source = status[i].MPI_SOURCE, tag = status[i].MPI_TAG;
            MPI_Get_count(&status[i], MPI_BYTE, &len);
            MPI_Mrecv(buffer, len, MPI_BYTE, &messages[i], &got);
            CHECK_STATUS(got, source, tag, LENS[tag % (LENS_COUNT - 1)]);
            VERIFY(buffer, len, seed_of(source, 0, tag, 3), "tag %d of %d", tag, source);
        }
    } else {
        int count = per / (size_world - 1);
        MPI_Request requests[COUNT];
        uint8_t *out[COUNT];
        for (int tag = 0; tag < count; tag++) {
            int len = LENS[tag % (LENS_COUNT - 1)];
            out[tag] = guarded(len);
            fill(out[tag], len, seed_of(rank_world, 0, tag, 3));
            MPI_Isend(out[tag], len, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &requests[tag]);
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        for (int tag = 0; tag < count; tag++)
            free(out[tag]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    buffer = guarded(1 << 20);
    probes();
    matched();
    backwards();
    return check_finish("probe");
}
