/* MPI_ANY_SOURCE and MPI_ANY_TAG: order, status fields, and receives with and
 * without wildcards posted together. */
#include "check.h"

enum { ROUNDS = 200 };

struct note {
    int source, number, tag, len;
};

/* Everybody sends to rank 0, which takes whatever comes; from each source, the
 * messages must come in order. */
static void any_any(void)
{
    MPI_Status status;
    if (rank_world == 0) {
        int next[64] = {0};
        static uint8_t buffer[20000 + GUARD_BYTES];
        for (int i = 0; i < ROUNDS * (size_world - 1); i++) {
            MPI_Recv(buffer, 20000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                     &status);
            int source = status.MPI_SOURCE, number = next[source]++;
            uint64_t draw = mix64(number);
            CHECK_STATUS(status, source, (int)(draw % 7), (int)(draw >> 8) & 0x3fff);
            VERIFY(buffer, (draw >> 8) & 0x3fff, seed_of(source, 0, 0, number),
                   "message %d of source %d", number, source);
        }
    } else {
        static uint8_t buffer[20000];
        for (int number = 0; number < ROUNDS; number++) {
            uint64_t draw = mix64(number);
            int len = (int)(draw >> 8) & 0x3fff;
            fill(buffer, len, seed_of(rank_world, 0, 0, number));
            MPI_Send(buffer, len, MPI_BYTE, 0, (int)(draw % 7), MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Receives posted first, in a fixed mixture. The oldest receive that matches
 * takes each message: here every outcome is determined. */
static void posted_first(void)
{
    struct note in[6], out;
    MPI_Request requests[6];
    MPI_Status status[6];
    if (rank_world == 0) {
        const int sources[] = {MPI_ANY_SOURCE, 1, 1, MPI_ANY_SOURCE, 1, MPI_ANY_SOURCE};
        const int tags[] = {5, MPI_ANY_TAG, 5, MPI_ANY_TAG, 7, 5};
        for (int i = 0; i < 6; i++)
            MPI_Irecv(&in[i], sizeof in[i], MPI_BYTE, sources[i], tags[i], MPI_COMM_WORLD,
                      &requests[i]);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 99, MPI_COMM_WORLD);
        MPI_Waitall(6, requests, status);
        /* Sent by rank 1 in this order: 5 5 7 5 7 5. */
        const int expected[] = {0, 1, 3, 2, 4, 5};
        for (int i = 0; i < 6; i++) {
            CHECK(in[i].number == expected[i], "receive %d took message %d, not %d", i,
                  in[i].number, expected[i]);
            CHECK_STATUS(status[i], 1, in[i].tag, sizeof in[i]);
        }
    } else if (rank_world == 1) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        const int tags[] = {5, 5, 7, 5, 7, 5};
        for (int i = 0; i < 6; i++) {
            out = (struct note){1, i, tags[i], 0};
            MPI_Send(&out, sizeof out, MPI_BYTE, 0, tags[i], MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The same with the messages there first: each receive takes the oldest
 * message that it matches. */
static void sent_first(void)
{
    struct note note;
    MPI_Status status;
    if (rank_world == 1) {
        const int tags[] = {5, 6, 7, 5, 6, 7};
        for (int i = 0; i < 6; i++) {
            note = (struct note){1, i, tags[i], 0};
            MPI_Send(&note, sizeof note, MPI_BYTE, 0, tags[i], MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_world == 0) {
        const int asked[] = {7, MPI_ANY_TAG, 5, MPI_ANY_TAG, 7, MPI_ANY_TAG};
        const int expected[] = {2, 0, 3, 1, 5, 4};
        for (int i = 0; i < 6; i++) {
            MPI_Recv(&note, sizeof note, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : 1, asked[i],
                     MPI_COMM_WORLD, &status);
            CHECK(note.number == expected[i], "receive %d took message %d, not %d", i, note.number,
                  expected[i]);
            CHECK_STATUS(status, 1, note.tag, sizeof note);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One directed receive for each peer, and as many of any source, over small
 * and large messages at once: nothing is lost, and each source stays in order. */
static void mixed(int round)
{
    const int each = 20;
    if (rank_world == 0) {
        int count = each * (size_world - 1);
        MPI_Request *requests = malloc(sizeof *requests * count);
        uint8_t **in = malloc(sizeof *in * count);
        int *source = malloc(sizeof *source * count);
        for (int i = 0; i < count; i++) {
            in[i] = guarded(40000);
            source[i] = mix64(round * 1000 + i) % 2 ? MPI_ANY_SOURCE : 1 + i % (size_world - 1);
        }
        /* No source is asked for more than it sends: a message too few for a
         * directed receive would be a mistake of this program. */
        int directed[64] = {0};
        for (int i = 0; i < count; i++)
            if (source[i] != MPI_ANY_SOURCE)
                directed[source[i]]++;
        for (int i = 0; i < count; i++)
            if (source[i] == MPI_ANY_SOURCE)
                for (int s = 1; s < size_world; s++)
                    CHECK(directed[s] <= each, "this program is wrong");
        /* Directed ones are posted first, so that the rest is free for all. */
        int posted = 0;
        int *order = malloc(sizeof *order * count);
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < count; i++)
                if ((source[i] == MPI_ANY_SOURCE) == pass) {
                    MPI_Irecv(in[i], 40000, MPI_BYTE, source[i], round, MPI_COMM_WORLD,
                              &requests[posted]);
                    order[posted++] = i;
                }
        MPI_Status *status = malloc(sizeof *status * count);
        MPI_Waitall(count, requests, status);
        int next[64] = {0};
        for (int p = 0; p < count; p++) {
            int i = order[p], from = status[p].MPI_SOURCE, number = next[from]++;
            int len = mix64(from * 7919 + number) % 40001;
            CHECK(source[i] == MPI_ANY_SOURCE || source[i] == from, "receive from %d took from %d",
                  source[i], from);
            CHECK_STATUS(status[p], from, round, len);
            VERIFY(in[i], len, seed_of(from, 0, round, number), "message %d of source %d", number,
                   from);
            CHECK_GUARD(in[i], 40000);
            free(in[i]);
        }
        free(requests), free(in), free(source), free(order), free(status);
    } else {
        static uint8_t buffer[40001];
        for (int number = 0; number < each; number++) {
            int len = mix64(rank_world * 7919 + number) % 40001;
            fill(buffer, len, seed_of(rank_world, 0, round, number));
            MPI_Send(buffer, len, MPI_BYTE, 0, round, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    CHECK(size_world <= 64, "at most 64 ranks");
    any_any();
    posted_first();
    sent_first();
    for (int round = 0; round < 30; round++)
        mixed(round);
    return check_finish("wildcards");
}
