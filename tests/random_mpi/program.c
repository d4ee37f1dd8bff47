/* A random MPI program, checked to the byte: from each seed all ranks draw the same sequence
 * of phases. Arguments: seeds (`FIRST..LAST`), and what the MPI cannot do (`no-…`).
 *
 * A seed is for a fixed count of ranks (2 to 6), which tests/run_random.py knows too: seeds
 * of other counts are left out. Before each one, rank 0 says which it is. */
#include "program.h"

enum { RANKS_MIN = 2, RANKS_MAX = 6, PHASES_MAX = 8, BSEND_BYTES = 4 << 20 };

long long counts[COUNT_KINDS];
struct limits limits;

static struct {
    uint64_t seed;
    int number;
    const char *name;
} now = {.name = "start"};

uint64_t draw64(struct rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15u;
    return mix64(rng->state);
}

int draw(struct rng *rng, int below)
{
    return (int)(draw64(rng) % (uint64_t)below);
}

bool chance(struct rng *rng, int percent)
{
    return draw(rng, 100) < percent;
}

void shuffle(struct rng *rng, int *items, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = draw(rng, i + 1), item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

struct rng fork_rng(struct rng *rng, uint64_t what)
{
    return (struct rng){mix64(draw64(rng) ^ mix64(what))};
}

void program_fail(const char *file, int line, const char *what, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    check_fail(file, line, what, "seed %llu, phase %d (%s): %s", (unsigned long long)now.seed,
               now.number, now.name, text);
}

void *allocate(size_t len)
{
    void *memory = malloc(len ? len : 1);
    EXPECT(memory != NULL, "no memory for %zu bytes", len);
    return memory;
}

static struct group make_group(MPI_Comm comm, bool is_of_all)
{
    struct group group = {.is_of_all = is_of_all};
    for (int i = 0; i < CONTEXTS; i++)
        MPI_Comm_dup(comm, &group.comms[i]);
    MPI_Comm_rank(comm, &group.rank);
    MPI_Comm_size(comm, &group.size);
    return group;
}

static void free_group(struct group *group)
{
    for (int i = 0; i < CONTEXTS; i++)
        MPI_Comm_free(&group->comms[i]);
}

static const struct {
    const char *name;
    int weight;
    void (*run)(const struct group *, struct rng *, struct rng *);
} phases[] = {
    {"messages", 45, phase_messages},       {"in order", 12, phase_ordered},
    {"persistent", 10, phase_persistent},   {"partitioned", 8, phase_partitioned},
    {"collectives", 15, phase_collectives}, {"one-sided", 10, phase_one_sided},
};

static void run_phase(const struct group *group, struct rng *all)
{
    int drawn = draw(all, 100), kind = 0;
    while (drawn >= phases[kind].weight)
        drawn -= phases[kind++].weight;
    if ((phases[kind].run == phase_one_sided && limits.no_one_sided) ||
        (phases[kind].run == phase_partitioned && limits.no_partitioned_apart &&
         !group->is_of_all))
        kind = 0;
    now.name = phases[kind].name;
    COUNT(phases);
    struct rng mine = fork_rng(all, (uint64_t)rank_world + 1);
    phases[kind].run(group, all, &mine);
    /* Messages that are still in the buffer are sent now. */
    void *buffer;
    int len;
    MPI_Buffer_detach(&buffer, &len);
    MPI_Buffer_attach(buffer, len);
}

/* The ranks in another order, or in two groups that run other programs side by side. */
static void run_regrouped(const struct group *group, struct rng *all)
{
    bool is_split = chance(all, 50);
    int color = 0;
    MPI_Comm comm;
    /* Each rank's side is drawn by all, so that all know it. */
    for (int rank = 0; rank < group->size; rank++) {
        int side = draw(all, 2);
        if (rank == group->rank)
            color = is_split ? side : 0;
    }
    MPI_Comm_split(group->comms[COLLECTIVE], color, -group->rank, &comm);
    struct group part = make_group(comm, false);
    struct rng theirs = fork_rng(all, (uint64_t)color);
    COUNT(split_groups);
    for (int i = 1 + draw(&theirs, 2); i > 0; i--)
        run_phase(&part, &theirs);
    free_group(&part);
    MPI_Comm_free(&comm);
}

static void run_program(uint64_t seed)
{
    struct rng all = {mix64(seed)};
    now.seed = seed;
    now.number = 0;
    now.name = "start";
    COUNT(programs);
    struct group group = make_group(MPI_COMM_WORLD, true);
    for (int count = 1 + draw(&all, PHASES_MAX); now.number < count; now.number++) {
        if (chance(&all, 15))
            run_regrouped(&group, &all);
        else
            run_phase(&group, &all);
    }
    free_group(&group);
}

static void say_counts(void)
{
    static const char *const names[] = {
#define COUNT_TEXT(name) #name,
        COUNTS(COUNT_TEXT)
#undef COUNT_TEXT
    };
    long long sums[COUNT_KINDS];
    MPI_Reduce(counts, sums, COUNT_KINDS, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank_world != 0)
        return;
    printf("counts {");
    for (int i = 0; i < COUNT_KINDS; i++)
        printf("%s\"%s\": %lld", i ? ", " : "", names[i],
               i == COUNT_programs ? counts[i] : sums[i]);
    printf("}\n");
}

static void run_programs(uint64_t first, uint64_t last)
{
    for (uint64_t seed = first; seed < last; seed++) {
        if (RANKS_MIN + (int)(mix64(seed) % (RANKS_MAX - RANKS_MIN + 1)) != size_world)
            continue;
        if (rank_world == 0) {
            printf("seed %llu\n", (unsigned long long)seed);
            fflush(stdout);
        }
        run_program(seed);
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv, RANKS_MIN);
    EXPECT(size_world <= RANKS_MAX, "%d ranks", size_world);
    for (int i = 1; i < argc; i++) {
        limits.no_sync_to_mrecv |= strcmp(argv[i], "no-sync-to-mrecv") == 0;
        limits.no_derived_mrecv |= strcmp(argv[i], "no-derived-mrecv") == 0;
        limits.no_derived_persistent |= strcmp(argv[i], "no-derived-persistent") == 0;
        limits.no_flush_of_answers |= strcmp(argv[i], "no-flush-of-answers") == 0;
        limits.is_broken |= strcmp(argv[i], "broken") == 0;
        limits.no_one_sided |= strcmp(argv[i], "no-one-sided") == 0;
        limits.no_partitioned_apart |= strcmp(argv[i], "no-partitioned-apart") == 0;
    }
    void *buffer = allocate(BSEND_BYTES);
    MPI_Buffer_attach(buffer, BSEND_BYTES);
    for (int i = 1; i < argc; i++) {
        char *dots = strstr(argv[i], "..");
        if (dots)
            run_programs(strtoull(argv[i], NULL, 10), strtoull(dots + 2, NULL, 10));
    }
    say_counts();
    int len;
    MPI_Buffer_detach(&buffer, &len);
    free(buffer);
    return check_finish("random programs");
}
