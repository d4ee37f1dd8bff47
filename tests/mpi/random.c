/* A random program, the same in every rank by its seed: each round, everybody
 * sends a random number of messages of random length, tag and mode to random
 * ranks and posts a receive for each that comes, in random order but for each
 * pair of source and tag, before its sends or after them. Argument: the seed. */
#include "check.h"

enum { ROUNDS = 40, MESSAGES_MAX = 60, TAGS = 4 };

struct message {
    int source, target, tag, len, number;
};

static uint64_t state;
static int draw(int below)
{
    state += 0x9e3779b97f4a7c15u;
    return (int)(mix64(state) % (uint64_t)below);
}

static int draw_len(void)
{
    switch (draw(8)) {
    case 0: return 0;
    case 1: return draw(64);
    case 2: return 8192 - 40 + draw(80);
    case 3: return draw(60000);
    case 4: return draw(400) == 0 ? 2000000 : draw(9000);
    default: return draw(300);
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    if (rank_world == 0)
        printf("random: seed %llu\n", (unsigned long long)seed);
    state = mix64(seed);
    for (int round = 0; round < ROUNDS; round++) {
        static struct message messages[MESSAGES_MAX * 16];
        int count = 1 + draw(MESSAGES_MAX * (size_world < 16 ? size_world : 16));
        for (int i = 0; i < count; i++)
            messages[i] = (struct message){draw(size_world), draw(size_world), draw(TAGS),
                                           draw_len(), i};
        int late = draw(3);
        uint64_t shared = state;
        state = mix64(state ^ (uint64_t)rank_world);

        /* A rank's plan: its sends in order, its receives shuffled among tags but
         * in order within a pair of source and tag. */
        static MPI_Request requests[2 * MESSAGES_MAX * 16];
        static uint8_t *buffers[2 * MESSAGES_MAX * 16];
        static int of[2 * MESSAGES_MAX * 16];
        static char taken[MESSAGES_MAX * 16];
        int total = 0;
        memset(taken, 0, sizeof taken);
        for (int phase = 0; phase < 2; phase++) {
            if ((phase == 0) == (late == 0 || late == 2)) {
                for (int i = 0; i < count; i++) {
                    struct message *m = &messages[i];
                    if (m->source != rank_world)
                        continue;
                    buffers[total] = guarded(m->len);
                    fill(buffers[total], m->len, seed_of(m->source, m->target, m->tag, i));
                    of[total] = -1;
                    if (draw(6) == 0)
                        MPI_Issend(buffers[total], m->len, MPI_BYTE, m->target, m->tag,
                                   MPI_COMM_WORLD, &requests[total]);
                    else
                        MPI_Isend(buffers[total], m->len, MPI_BYTE, m->target, m->tag,
                                  MPI_COMM_WORLD, &requests[total]);
                    total++;
                }
                if (late == 2)
                    sleep_ms(draw(5));
            } else {
                int left = 0;
                for (int i = 0; i < count; i++)
                    left += messages[i].target == rank_world;
                while (left > 0) {
                    /* The oldest message not yet taken of a random source and tag. */
                    int source = draw(size_world), tag = draw(TAGS), found = -1;
                    for (int i = 0; i < count && found < 0; i++)
                        if (!taken[i] && messages[i].target == rank_world &&
                            messages[i].source == source && messages[i].tag == tag)
                            found = i;
                    if (found < 0)
                        continue;
                    taken[found] = 1;
                    left--;
                    buffers[total] = guarded(messages[found].len);
                    of[total] = found;
                    MPI_Irecv(buffers[total], messages[found].len, MPI_BYTE, source, tag,
                              MPI_COMM_WORLD, &requests[total]);
                    total++;
                }
            }
        }
        static MPI_Status status[2 * MESSAGES_MAX * 16];
        MPI_Waitall(total, requests, status);
        for (int i = 0; i < total; i++) {
            if (of[i] >= 0) {
                struct message *m = &messages[of[i]];
                CHECK_STATUS(status[i], m->source, m->tag, m->len);
                VERIFY(buffers[i], m->len, seed_of(m->source, m->target, m->tag, m->number),
                       "seed %llu, round %d, message %d from %d tag %d",
                       (unsigned long long)seed, round, m->number, m->source, m->tag);
                CHECK_GUARD(buffers[i], m->len);
            }
            free(buffers[i]);
        }
        state = shared;
        if (draw(2))
            MPI_Barrier(MPI_COMM_WORLD);
    }
    return check_finish("random");
}
