/* The send modes in turn: synchronous, buffered, ready, persistent receives with
 * them, in place exchange, and vector types, all around a ring. */
#include "check.h"

static const int LENS[] = {0, 1, 8, 64, 1000, 4096, 8192, 8193, 50000, 1 << 20};
enum { COUNT = sizeof LENS / sizeof *LENS };

static int right, left;

/* Receives are posted and known to be posted before the sends, as a ready send
 * asks; by Send, Ssend, Rsend and Bsend in turn. */
static void posted(void)
{
    size_t room = 0;
    for (int i = 0; i < COUNT; i++)
        room += LENS[i] + MPI_BSEND_OVERHEAD;
    void *attached = malloc(room), *detached;
    int detached_len;
    MPI_Buffer_attach(attached, (int)room);
    uint8_t *out = guarded(1 << 20), *in[COUNT];
    MPI_Request requests[COUNT];
    MPI_Status status[COUNT];
    for (int i = 0; i < COUNT; i++) {
        in[i] = guarded(LENS[i]);
        MPI_Recv_init(in[i], LENS[i], MPI_BYTE, left, i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int mode = 0; mode < 8; mode++) {
        MPI_Startall(COUNT, requests);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++) {
            fill(out, LENS[i], seed_of(rank_world, right, i, mode));
            if (mode % 4 == 0)
                MPI_Send(out, LENS[i], MPI_BYTE, right, i, MPI_COMM_WORLD);
            else if (mode % 4 == 1)
                MPI_Ssend(out, LENS[i], MPI_BYTE, right, i, MPI_COMM_WORLD);
            else if (mode % 4 == 2)
                MPI_Rsend(out, LENS[i], MPI_BYTE, right, i, MPI_COMM_WORLD);
            else
                MPI_Bsend(out, LENS[i], MPI_BYTE, right, i, MPI_COMM_WORLD);
            /* A buffered send's bytes are the user's again at once. */
            memset(out, 0xdd, LENS[i]);
        }
        MPI_Waitall(COUNT, requests, status);
        for (int i = 0; i < COUNT; i++) {
            CHECK_STATUS(status[i], left, i, LENS[i]);
            VERIFY(in[i], LENS[i], seed_of(left, rank_world, i, mode), "mode %d, length %d", mode,
                   LENS[i]);
            CHECK_GUARD(in[i], LENS[i]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < COUNT; i++) {
        MPI_Request_free(&requests[i]);
        free(in[i]);
    }
    MPI_Buffer_detach(&detached, &detached_len);
    CHECK(detached == attached, "another buffer came back");
    free(attached), free(out);
}

/* Buffered sends to receives that come later, in reverse order; within what a
 * receiver keeps of one peer. */
static void buffered_early(void)
{
    enum { MESSAGES = 100, LEN = 300 };
    size_t room = MESSAGES * (LEN + MPI_BSEND_OVERHEAD);
    void *attached = malloc(room);
    uint8_t out[LEN], in[LEN];
    int len;
    MPI_Buffer_attach(attached, (int)room);
    for (int i = 0; i < MESSAGES; i++) {
        fill(out, LEN, seed_of(rank_world, right, i, 99));
        MPI_Bsend(out, LEN, MPI_BYTE, right, i, MPI_COMM_WORLD);
    }
    for (int i = MESSAGES - 1; i >= 0; i--) {
        MPI_Recv(in, LEN, MPI_BYTE, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        VERIFY(in, LEN, seed_of(left, rank_world, i, 99), "buffered message %d", i);
    }
    MPI_Buffer_detach(&attached, &len);
    free(attached);
}

/* Every third block of two integers, sent by a vector type and received as one
 * row, then the other way; eager and long. */
static void vectors(int blocks)
{
    int *wide = malloc(sizeof *wide * blocks * 6), *row = malloc(sizeof *row * blocks * 2);
    MPI_Datatype type;
    MPI_Status status;
    MPI_Type_vector(blocks, 2, 6, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < blocks * 6; i++)
        wide[i] = rank_world * 1000 + i;
    MPI_Sendrecv(wide, 1, type, right, 1, row, blocks * 2, MPI_INT, left, 1, MPI_COMM_WORLD,
                 &status);
    CHECK_STATUS(status, left, 1, blocks * 2 * sizeof(int));
    for (int i = 0; i < blocks * 2; i++)
        CHECK(row[i] == left * 1000 + i / 2 * 6 + i % 2, "element %d of %d is %d", i, blocks * 2,
              row[i]);
    for (int i = 0; i < blocks * 6; i++)
        wide[i] = -1;
    MPI_Sendrecv(row, blocks * 2, MPI_INT, left, 2, wide, 1, type, right, 2, MPI_COMM_WORLD,
                 &status);
    for (int i = 0; i < blocks * 6; i++) {
        int expected = i % 6 < 2 ? rank_world * 1000 + i : -1;
        CHECK(wide[i] == expected, "element %d is %d, not %d", i, wide[i], expected);
    }
    MPI_Type_free(&type);
    free(wide), free(row);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    right = (rank_world + 1) % size_world, left = (rank_world + size_world - 1) % size_world;
    posted();
    buffered_early();
    vectors(1);
    vectors(10);
    vectors(1025);
    vectors(60000);
    return check_finish("modes");
}
