/* How much of a large transfer each side can compute through, after Rashti and
 * Afsahi; the method and the definition are those of `sluice perf overlap`.
 *
 * Rank 0 is measured: it posts a non-blocking operation, computes without a call
 * of MPI, then waits. Rank 1 posts and waits at once. Which of the two comes first
 * is a part of the case; they meet at moments of the machine's clock, so that
 * nobody makes progress by waiting for the other. Any rank beyond looks on.
 *
 * overlap = 100 % * (1 - (total - t) / comm), from 0 to 100: comm is how long the
 * communication takes alone, t the computation alone, total both; all three from
 * the moment at which both sides are there, medians over the repetitions. One in which
 * either side loses its core to another program is done again, and counts as disturbed
 * if that is no use.
 *
 * Arguments: "--json"; "--repetitions N"; "--size BYTES" instead of the four sizes;
 * "--compute TIMES", the length of the computation in times of the communication; "--first
 * receiver|sender" and "--side receive|send", these cases alone; "--any-core": a repetition
 * counts whoever took the core, as a thread that makes progress there has to. */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include "check.h"
#include <sys/resource.h>

enum { TRIALS = 5, CHOICES_MAX = 3, TRIES_MAX = 2000, CLEAN_TRIES_MAX = 5, STAMPED_BYTES = 4096,
       REPETITIONS_MAX = 100000 };
/* A computation shorter than this share of what it should be is chosen anew. */
#define SHORTEST 0.9
static const double LEAD_NS_MIN = 20000;

/* One way to meet. The four of them, in the order of the table. */
static const struct { int sender_first, sends; } CASES[] = {{0, 0}, {1, 1}, {1, 0}, {0, 1}};
enum { CASES_COUNT = sizeof CASES / sizeof *CASES };

/* What rank 0 tells rank 1 of one repetition: when to come, and how long to say
 * nothing from then on but the message. */
struct order { int64_t at_ns, quiet_ns, sends, seed; };

/* When rank 0 came, when rank 1 did, when rank 0 had ended, and whether one of them
 * lost its core meanwhile. */
struct moments { int64_t came_ns, other_came_ns, ended_ns; int is_disturbed; };

static int sizes[4] = {64 << 10, 256 << 10, 1 << 20, 4 << 20}, sizes_count = 4;
static int repetitions = 101, json, rows, any_core;
static const char *only_first, *only_side;
static double compute_times = 3, rounds_per_ns;
static uint8_t *out, *in;
static int64_t seed;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* How often this rank has lost its core to another program. */
static long core_losses(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

/* Busily: a process that sleeps wakes too late. */
static void wait_until(int64_t at_ns)
{
    while (now_ns() < at_ns)
        ;
}

/* An amount of work, not a time: whatever takes the core away from it is seen. */
static void compute(int64_t rounds)
{
    uint64_t state = 1;
    for (int64_t i = 0; i < rounds; i++) {
        state = state * 6364136223846793005u + 1;
        __asm__ volatile("" : "+r"(state));
    }
}

static int64_t compute_timed(int64_t rounds)
{
    int64_t start = now_ns();
    compute(rounds);
    return now_ns() - start;
}

/* How long a computation takes alone, if that can be had. */
static int64_t compute_undisturbed(int64_t rounds)
{
    for (int i = 0; i < CLEAN_TRIES_MAX; i++) {
        long losses = core_losses();
        int64_t ns = compute_timed(rounds);
        if (core_losses() == losses)
            return ns;
    }
    return compute_timed(rounds);
}

static void calibrate(void)
{
    int64_t rounds = 1000, fastest_ns;
    while (compute_timed(rounds) < 200000)
        rounds *= 2;
    fastest_ns = compute_timed(rounds);
    for (int i = 0; i < TRIALS; i++) {
        int64_t ns = compute_timed(rounds);
        fastest_ns = ns < fastest_ns ? ns : fastest_ns;
    }
    rounds_per_ns = (double)rounds / fastest_ns;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The middle one, the lower of two. */
static double median(double *values, int count)
{
    qsort(values, count, sizeof *values, ascending);
    return values[(count - 1) / 2];
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int has_value = i + 1 < argc;
        if (strcmp(argv[i], "--json") == 0)
            json = 1;
        else if (strcmp(argv[i], "--repetitions") == 0 && has_value)
            repetitions = atoi(argv[++i]);
        else if (strcmp(argv[i], "--compute") == 0 && has_value)
            compute_times = atof(argv[++i]);
        else if (strcmp(argv[i], "--size") == 0 && has_value)
            sizes[0] = atoi(argv[++i]), sizes_count = 1;
        else if (strcmp(argv[i], "--first") == 0 && has_value)
            only_first = argv[++i];
        else if (strcmp(argv[i], "--side") == 0 && has_value)
            only_side = argv[++i];
        else if (strcmp(argv[i], "--any-core") == 0)
            any_core = 1;
        else
            CHECK(0, "unknown argument %s", argv[i]);
    }
    CHECK(repetitions > 0 && repetitions <= REPETITIONS_MAX, "%d repetitions", repetitions);
    CHECK(sizes[0] >= 8 && sizes[0] <= 1 << 30, "a size of %d bytes", sizes[0]);
    CHECK(compute_times >= 0.1 && compute_times <= 100, "%g times", compute_times);
}

/* Marks what will be sent, or wipes what an earlier repetition has left. */
static void prepare(int sends, int size, int64_t which)
{
    for (int at = 0; at + 8 <= size; at += STAMPED_BYTES) {
        uint64_t stamp = sends ? seed_of(0, 1, (int)which, at) : 0;
        memcpy((sends ? out : in) + at, &stamp, sizeof stamp);
    }
}

static void check_received(int size, int64_t which)
{
    for (int at = 0; at + 8 <= size; at += STAMPED_BYTES) {
        uint64_t stamp = seed_of(0, 1, (int)which, at);
        CHECK(memcmp(in + at, &stamp, sizeof stamp) == 0, "byte %d of %d is wrong", at, size);
    }
}

static void post(int sends, int size, int peer, MPI_Request *request)
{
    if (sends)
        MPI_Isend(out, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD, request);
    else
        MPI_Irecv(in, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD, request);
}

/* The side that is not measured, until it is told to end. It answers when it came;
 * the lowest bit tells whether it lost its core. The answer is no part of what is
 * measured, so it waits until that is over. */
static void serve(int size)
{
    for (;;) {
        struct order order;
        MPI_Request request;
        MPI_Recv(&order, sizeof order, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (order.at_ns == 0)
            return;
        prepare(order.sends, size, order.seed);
        long losses = core_losses();
        wait_until(order.at_ns);
        int64_t came_ns = now_ns();
        post(order.sends, size, 0, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        came_ns = came_ns * 2 + (core_losses() != losses);
        if (!order.sends)
            check_received(size, order.seed);
        wait_until(order.at_ns + order.quiet_ns);
        MPI_Send(&came_ns, sizeof came_ns, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    }
}

static struct moments try_once(int size, int sends, int is_first, int64_t lead_ns, int64_t rounds)
{
    struct moments moments;
    MPI_Request request;
    seed++;
    prepare(sends, size, seed);
    long losses = core_losses();
    /* Time for the other one to hear of it, and to prepare its buffer. */
    int64_t early_ns = now_ns() + 30000 + size / 32, late_ns = early_ns + lead_ns;
    int64_t own_ns = is_first ? early_ns : late_ns, at_ns = is_first ? late_ns : early_ns;
    /* This side ends that late at most, unless it is disturbed. */
    int64_t end_ns = own_ns + (int64_t)(rounds / rounds_per_ns);
    end_ns = (end_ns > late_ns ? end_ns : late_ns) + 2 * lead_ns;
    struct order order = {at_ns, end_ns - at_ns, !sends, seed};
    MPI_Send(&order, sizeof order, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
    wait_until(own_ns);
    moments.came_ns = now_ns();
    post(sends, size, 1, &request);
    compute(rounds);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    moments.ended_ns = now_ns();
    moments.is_disturbed = core_losses() != losses;
    MPI_Recv(&moments.other_came_ns, sizeof moments.other_came_ns, MPI_BYTE, 1, 3, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    moments.is_disturbed |= moments.other_came_ns & 1;
    moments.other_came_ns >>= 1;
    if (!sends)
        check_received(size, seed);
    return moments;
}

/* Until the two sides have come in the order wanted and, if that can be had, neither
 * has lost its core. On a machine that is too busy for that the sample counts as
 * disturbed: the data is checked all the same. */
static struct moments together(int size, int sends, int is_first, double lead_ns, int64_t rounds)
{
    static int tries_max = TRIES_MAX;
    for (int tries = 1;; tries++) {
        struct moments moments = try_once(size, sends, is_first, (int64_t)lead_ns, rounds);
        int64_t gap_ns = moments.other_came_ns - moments.came_ns;
        int in_order = (is_first ? gap_ns : -gap_ns) >= 0.75 * lead_ns;
        if (in_order && (any_core || !moments.is_disturbed || tries >= CLEAN_TRIES_MAX))
            return moments;
        if (tries == tries_max) {
            if (tries_max == TRIES_MAX)
                fprintf(stderr, "the two sides do not come in the order wanted: this machine is "
                                "too busy\n");
            tries_max = CLEAN_TRIES_MAX;
            moments.is_disturbed = 1;
            return moments;
        }
    }
}

/* From when both sides were there until the measured one had ended. */
static double both_there_ns(struct moments moments)
{
    int64_t from_ns =
        moments.came_ns > moments.other_came_ns ? moments.came_ns : moments.other_came_ns;
    return moments.ended_ns > from_ns ? (double)(moments.ended_ns - from_ns) : 0;
}

/* What all repetitions of a case say. */
struct row {
    double overlap_pct, comm_ns, compute_ns, total_ns;
    int disturbed;
};

static void print_row(int size, int sender_first, int sends, struct row row)
{
    if (json)
        printf("%s{\"size\":%d,\"first\":\"%s\",\"side\":\"%s\",\"overlap_pct\":%.1f,"
               "\"comm_us\":%.2f,\"compute_us\":%.2f,\"total_us\":%.2f,\"samples\":%d,\"disturbed\":%d}",
               rows++ ? "," : "", size, sender_first ? "sender" : "receiver",
               sends ? "send" : "receive", row.overlap_pct, row.comm_ns / 1e3,
               row.compute_ns / 1e3, row.total_ns / 1e3, repetitions, row.disturbed);
    else
        printf("%8d bytes, %-8s first, %-7s: overlap %5.1f %%, communication %.2f us, computation "
               "%.2f us, both %.2f us, %d of %d disturbed\n",
               size, sender_first ? "sender" : "receiver", sends ? "send" : "receive",
               row.overlap_pct, row.comm_ns / 1e3, row.compute_ns / 1e3, row.total_ns / 1e3,
               row.disturbed, repetitions);
    fflush(stdout);
}

/* By how much the other side comes later. */
static double lead_of(double comm_ns) { return LEAD_NS_MIN + 2 * comm_ns; }

/* How long a communication takes in a few tries. */
static double try_alone(int size, int sends, int is_first)
{
    /* At first nobody knows: a gigabyte a second. */
    double comm_ns = size;
    for (int round = 0; round < 2; round++) {
        double trials_ns[TRIALS];
        for (int i = 0; i < TRIALS; i++)
            trials_ns[i] = both_there_ns(together(size, sends, is_first, lead_of(comm_ns), 0));
        comm_ns = median(trials_ns, TRIALS);
    }
    return comm_ns;
}

/* All repetitions of a case, if a communication takes about so long. */
static struct row repeat(int size, int sends, int is_first, double about_ns)
{
    double lead_ns = lead_of(about_ns), before_ns = is_first ? lead_ns : 0;
    int64_t rounds = (int64_t)((before_ns + compute_times * about_ns) * rounds_per_ns) + 1;
    double *comm = malloc(sizeof *comm * repetitions);
    double *alone = malloc(sizeof *alone * repetitions);
    double *visible = malloc(sizeof *visible * repetitions);
    CHECK(comm && alone && visible, "no memory for %d repetitions", repetitions);
    struct row row = {0};
    for (int i = 0; i < repetitions; i++) {
        struct moments moments = together(size, sends, is_first, lead_ns, 0);
        int is_disturbed = moments.is_disturbed;
        comm[i] = both_there_ns(moments);
        alone[i] = (double)compute_undisturbed(rounds);
        moments = together(size, sends, is_first, lead_ns, rounds);
        row.disturbed += is_disturbed || moments.is_disturbed;
        visible[i] = (double)(moments.ended_ns - moments.came_ns) - alone[i];
    }
    double visible_ns = median(visible, repetitions);
    row.comm_ns = median(comm, repetitions);
    row.compute_ns = median(alone, repetitions) - before_ns;
    row.total_ns = row.compute_ns + visible_ns;
    double overlap_pct = row.comm_ns > 0 ? 100 * (1 - visible_ns / row.comm_ns) : 0;
    row.overlap_pct = overlap_pct < 0 ? 0 : overlap_pct > 100 ? 100 : overlap_pct;
    free(comm), free(alone), free(visible);
    return row;
}

/* Between computations a communication takes longer than in a few tries one after the other,
 * and a machine may change: where the computation turns out too short for what it was to hide,
 * its length is chosen anew. */
static void measure(int size, int sender_first, int sends)
{
    int is_first = sends == sender_first;
    struct row row = repeat(size, sends, is_first, try_alone(size, sends, is_first));
    for (int i = 1; i < CHOICES_MAX && row.compute_ns < SHORTEST * compute_times * row.comm_ns; i++)
        row = repeat(size, sends, is_first, row.comm_ns);
    print_row(size, sender_first, sends, row);
}

static int is_wanted(int sender_first, int sends)
{
    return (!only_first || strcmp(only_first, sender_first ? "sender" : "receiver") == 0) &&
           (!only_side || strcmp(only_side, sends ? "send" : "receive") == 0);
}

/* Every byte of a message each way. */
static void verify(int size)
{
    int peer = !rank_world;
    fill(out, size, seed_of(rank_world, peer, 4, size));
    MPI_Sendrecv(out, size, MPI_BYTE, peer, 4, in, size, MPI_BYTE, peer, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    VERIFY(in, size, seed_of(peer, rank_world, 4, size), "from %d", peer);
    CHECK_GUARD(in, size);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, 2);
    read_arguments(argc, argv);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        if (rank_world == 0)
            printf("skip: one side computes while the other communicates: that takes two cores\n");
        MPI_Finalize();
        return EXIT_SKIPPED;
    }
    if (rank_world == 0 && json)
        printf("{\"test\":\"overlap\",\"compute_times\":%g,\"rows\":[", compute_times);
    calibrate();
    for (int i = 0; i < sizes_count && rank_world < 2; i++) {
        out = guarded(sizes[i]), in = guarded(sizes[i]);
        verify(sizes[i]);
        if (rank_world == 1) {
            serve(sizes[i]);
        } else {
            struct order end = {0, 0, 0, 0};
            for (int c = 0; c < CASES_COUNT; c++)
                if (is_wanted(CASES[c].sender_first, CASES[c].sends))
                    measure(sizes[i], CASES[c].sender_first, CASES[c].sends);
            MPI_Send(&end, sizeof end, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        }
        verify(sizes[i]);
        free(out), free(in);
    }
    if (!json)
        return check_finish("overlap");
    if (rank_world == 0)
        printf("]}\n");
    MPI_Finalize();
    return 0;
}
