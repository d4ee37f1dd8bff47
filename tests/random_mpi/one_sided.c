/* One-sided operations on a window whose contents every rank computes for all ranks.
 *
 * A window has a part that is put and got, in cells that one operation of an epoch touches at
 * most, a part that is only accumulated into, by one operation an epoch, and counters. */
#include "program.h"

enum { CELLS = 24, CELL = 512, WORDS = 64, COUNTERS = 8, RANKS_MAX = 16, EPOCH_OPS_MAX = 30 };
enum { ACCUMULATED = CELLS * CELL, COUNTED = ACCUMULATED + WORDS * 8,
       WINDOW = COUNTED + COUNTERS * 8 };

struct windows {
    const struct group *group;
    MPI_Win win;
    uint8_t *own;
    /* What each rank's window must hold. */
    uint8_t *model[RANKS_MAX];
    bool is_allocated;
};

/* An operation of an epoch. */
struct operation {
    int origin, target, cell, len, word, words;
    bool is_put;
    uint64_t seed;
};

static void check_window(struct windows *it, const char *said)
{
    const uint8_t *model = it->model[it->group->rank];
    for (int i = 0; i < WINDOW; i++)
        EXPECT(it->own[i] == model[i], "byte %d of the window is %d, not %d, after %s", i,
               it->own[i], model[i], said);
}

/* Operations of one epoch: no cell has two of them, so that they may come in any order. */
static int draw_operations(struct rng *all, int size, struct operation *operations)
{
    static bool is_used[RANKS_MAX][CELLS];
    memset(is_used, 0, sizeof is_used);
    int count = 0;
    for (int i = draw(all, EPOCH_OPS_MAX); i > 0; i--) {
        struct operation it = {.origin = draw(all, size), .target = draw(all, size),
                               .cell = draw(all, CELLS), .is_put = chance(all, 50),
                               .seed = draw64(all)};
        it.len = chance(all, 10) ? 0 : 1 + draw(all, CELL);
        it.word = draw(all, WORDS);
        it.words = 1 + draw(all, WORDS - it.word);
        if (is_used[it.target][it.cell])
            continue;
        is_used[it.target][it.cell] = true;
        operations[count++] = it;
    }
    return count;
}

static void start_operation(struct windows *it, const struct operation *operation,
                            struct layout *layout, struct rng *mine)
{
    *layout = layout_draw(mine, BYTES, operation->len, true);
    MPI_Aint place = operation->cell * CELL;
    if (operation->is_put) {
        COUNT(put);
        layout_fill(layout, operation->seed);
        MPI_Put(layout->buffer, layout->count, layout->type, operation->target, place,
                operation->len, MPI_BYTE, it->win);
    } else {
        COUNT(get);
        MPI_Get(layout->buffer, layout->count, layout->type, operation->target, place,
                operation->len, MPI_BYTE, it->win);
    }
}

/* Every origin adds to words of every window, with one operation for all in the epoch. */
static void accumulate(struct windows *it, const struct operation *operation, bool is_sum,
                       uint64_t *words)
{
    COUNT(accumulate);
    for (int i = 0; i < operation->words; i++)
        words[i] = mix64(operation->seed + (uint64_t)i);
    MPI_Accumulate(words, operation->words, MPI_UINT64_T, operation->target,
                   ACCUMULATED + operation->word * 8, operation->words, MPI_UINT64_T,
                   is_sum ? MPI_SUM : MPI_BXOR, it->win);
}

static void apply_to_model(struct windows *it, const struct operation *operation, bool is_sum,
                           bool accumulates)
{
    uint8_t *model = it->model[operation->target];
    if (operation->is_put)
        fill(model + operation->cell * CELL, (size_t)operation->len, operation->seed);
    if (!accumulates)
        return;
    for (int i = 0; i < operation->words; i++) {
        uint64_t word, more = mix64(operation->seed + (uint64_t)i);
        uint8_t *at = model + ACCUMULATED + (operation->word + i) * 8;
        memcpy(&word, at, 8);
        word = is_sum ? word + more : word ^ more;
        memcpy(at, &word, 8);
    }
}

enum synchronization { FENCE, POST_START, LOCK_SHARED, LOCK_ALL, SYNCHRONIZATIONS };

static void open_epoch(struct windows *it, enum synchronization how)
{
    if (how == FENCE) {
        COUNT(fence);
        MPI_Win_fence(MPI_MODE_NOPRECEDE, it->win);
    } else if (how == POST_START) {
        MPI_Group group;
        COUNT(post_start);
        MPI_Comm_group(it->group->comms[COLLECTIVE], &group);
        MPI_Win_post(group, 0, it->win);
        MPI_Win_start(group, 0, it->win);
        MPI_Group_free(&group);
    } else if (how == LOCK_ALL) {
        COUNT(lock_all);
        MPI_Win_lock_all(0, it->win);
    }
}

static void close_epoch(struct windows *it, enum synchronization how)
{
    if (how == FENCE) {
        MPI_Win_fence(MPI_MODE_NOSUCCEED, it->win);
    } else if (how == POST_START) {
        MPI_Win_complete(it->win);
        MPI_Win_wait(it->win);
    } else if (how == LOCK_ALL) {
        MPI_Win_unlock_all(it->win);
    }
}

static void epoch(struct windows *it, struct rng *all, struct rng *mine)
{
    int size = it->group->size, me = it->group->rank;
    struct operation operations[EPOCH_OPS_MAX];
    struct layout layouts[EPOCH_OPS_MAX];
    uint64_t words[EPOCH_OPS_MAX][WORDS];
    enum synchronization how = draw(all, SYNCHRONIZATIONS);
    bool is_sum = chance(all, 50), accumulates = chance(all, 60);
    int count = draw_operations(all, size, operations);
    open_epoch(it, how);
    for (int i = 0; i < count; i++) {
        const struct operation *operation = &operations[i];
        if (operation->origin != me)
            continue;
        if (how == LOCK_SHARED) {
            COUNT(lock_shared);
            MPI_Win_lock(MPI_LOCK_SHARED, operation->target, 0, it->win);
        }
        start_operation(it, operation, &layouts[i], mine);
        if (accumulates)
            accumulate(it, operation, is_sum, words[i]);
        if (how == LOCK_SHARED)
            MPI_Win_unlock(operation->target, it->win);
        if (how == LOCK_ALL && chance(mine, 20)) {
            COUNT(flush);
            MPI_Win_flush(operation->target, it->win);
        }
    }
    close_epoch(it, how);
    for (int i = 0; i < count; i++) {
        const struct operation *operation = &operations[i];
        if (operation->origin == me) {
            /* What was got is as before the epoch, in which nobody wrote there. */
            struct layout *layout = &layouts[i];
            for (int j = 0; j < operation->len && !operation->is_put; j++) {
                uint8_t byte = layout->buffer[layout->at ? layout->at[j] : (size_t)j];
                uint8_t right = it->model[operation->target][operation->cell * CELL + j];
                EXPECT(byte == right, "byte %d of %d that was got from rank %d is %d, not %d", j,
                       operation->len, operation->target, byte, right);
            }
            layout_free(layout);
        }
        apply_to_model(it, operation, is_sum, accumulates);
    }
    MPI_Barrier(it->group->comms[COLLECTIVE]);
    /* What others wrote is seen in a locked epoch of one's own. */
    MPI_Win_lock(MPI_LOCK_SHARED, me, 0, it->win);
    check_window(it, how == FENCE        ? "a fence"
                     : how == POST_START ? "post and start"
                     : how == LOCK_ALL   ? "a lock of all"
                                         : "locks");
    MPI_Win_unlock(me, it->win);
    MPI_Barrier(it->group->comms[COLLECTIVE]);
}

/* Has what a counter's operation fetched be there, in an epoch that goes on. */
static void await_answer(struct windows *it, int root)
{
    if (limits.no_flush_of_answers) {
        MPI_Win_unlock(root, it->win);
        MPI_Win_lock(MPI_LOCK_SHARED, root, 0, it->win);
    } else {
        MPI_Win_flush(root, it->win);
    }
}

/* All ranks add to one counter: every value is seen once, and the sum is right. */
static void count_up(struct windows *it, struct rng *all)
{
    int size = it->group->size, root = draw(all, size), counter = draw(all, COUNTERS);
    int times = 1 + draw(all, 12), way = draw(all, 4), total = size * times;
    MPI_Aint place = COUNTED + counter * 8;
    uint64_t first, one = 1, old, *seen = allocate((size_t)times * 8);
    uint64_t *all_seen = allocate((size_t)total * 8);
    memcpy(&first, it->model[root] + place, 8);
    for (int i = 0; i < times; i++) {
        bool is_exclusive = way == 3;
        counts[is_exclusive ? COUNT_lock_exclusive : COUNT_lock_shared]++;
        MPI_Win_lock(is_exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, root, 0, it->win);
        if (way == 0 || (is_exclusive && limits.no_flush_of_answers)) {
            COUNT(fetch_and_op);
            MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, root, place, MPI_SUM, it->win);
        } else if (way == 1) {
            COUNT(get_accumulate);
            MPI_Get_accumulate(&one, 1, MPI_UINT64_T, &old, 1, MPI_UINT64_T, root, place, 1,
                               MPI_UINT64_T, MPI_SUM, it->win);
        } else if (way == 2) {
            uint64_t guess = first, next;
            for (;; guess = old) {
                COUNT(compare_and_swap);
                next = guess + 1;
                MPI_Compare_and_swap(&next, &guess, &old, MPI_UINT64_T, root, place, it->win);
                await_answer(it, root);
                if (old == guess)
                    break;
            }
        } else {
            MPI_Get(&old, 8, MPI_BYTE, root, place, 8, MPI_BYTE, it->win);
            MPI_Win_flush(root, it->win);
            uint64_t next = old + 1;
            MPI_Put(&next, 8, MPI_BYTE, root, place, 8, MPI_BYTE, it->win);
            MPI_Win_flush(root, it->win);
        }
        MPI_Win_unlock(root, it->win);
        seen[i] = old;
    }
    MPI_Allgather(seen, times, MPI_UINT64_T, all_seen, times, MPI_UINT64_T,
                  it->group->comms[COLLECTIVE]);
    bool *is_seen = allocate((size_t)total);
    memset(is_seen, 0, (size_t)total);
    for (int i = 0; i < total; i++) {
        uint64_t at = all_seen[i] - first;
        EXPECT(at < (uint64_t)total && !is_seen[at],
               "value %llu of a counter of %d steps from %llu came twice, or never is",
               (unsigned long long)all_seen[i], total, (unsigned long long)first);
        is_seen[at] = true;
    }
    uint64_t last = first + (uint64_t)total;
    memcpy(it->model[root] + place, &last, 8);
    free(seen);
    free(all_seen);
    free(is_seen);
}

static void make_windows(struct windows *it, const struct group *group, struct rng *all)
{
    MPI_Comm comm = group->comms[COLLECTIVE];
    uint64_t seed = draw64(all);
    *it = (struct windows){.group = group, .is_allocated = chance(all, 50)};
    for (int rank = 0; rank < group->size; rank++) {
        it->model[rank] = allocate(WINDOW);
        fill(it->model[rank], WINDOW, mix64(seed + (uint64_t)rank));
    }
    if (it->is_allocated) {
        MPI_Win_allocate(WINDOW, 1, MPI_INFO_NULL, comm, &it->own, &it->win);
    } else {
        it->own = allocate(WINDOW);
        MPI_Win_create(it->own, WINDOW, 1, MPI_INFO_NULL, comm, &it->win);
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, group->rank, 0, it->win);
    memcpy(it->own, it->model[group->rank], WINDOW);
    MPI_Win_unlock(group->rank, it->win);
    MPI_Barrier(comm);
}

void phase_one_sided(const struct group *group, struct rng *all, struct rng *mine)
{
    struct windows it;
    make_windows(&it, group, all);
    for (int i = 1 + draw(all, 5); i > 0; i--) {
        if (chance(all, 30))
            count_up(&it, all);
        else
            epoch(&it, all, mine);
    }
    MPI_Win_free(&it.win);
    for (int rank = 0; rank < group->size; rank++)
        free(it.model[rank]);
    if (!it.is_allocated)
        free(it.own);
}
