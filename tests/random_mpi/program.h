/* What the parts of the random program share: draws, checks, counts of what was drawn,
 * layouts of messages, and the group of ranks that a phase runs on.
 *
 * Every rank draws the same program from the seed. What only one rank does (the order of
 * its calls, its datatypes) it draws from a stream of its own, which never shifts the
 * common one. */
#ifndef SLUICE_RANDOM_MPI_H
#define SLUICE_RANDOM_MPI_H

#include "../mpi/check.h"
#include <stdbool.h>

/* Draws. */

struct rng {
    uint64_t state;
};

uint64_t draw64(struct rng *rng);
/* Uniform from 0 to below - 1. */
int draw(struct rng *rng, int below);
/* Whether something of this share in percent comes. */
bool chance(struct rng *rng, int percent);
void shuffle(struct rng *rng, int *items, int count);
/* A stream of its own. */
struct rng fork_rng(struct rng *rng, uint64_t what);

/* Checks: a failure names the seed, the phase and what the phase does. */

__attribute__((noreturn, format(printf, 4, 5))) void
program_fail(const char *file, int line, const char *what, const char *format, ...);

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            program_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                             \
    } while (0)

void *allocate(size_t len);

/* Counts of what was drawn and done, by name; summed over ranks at the end. */
#define COUNTS(X)                                                                                  \
    X(programs) X(phases) X(messages) X(bytes) X(isend) X(issend) X(ibsend) X(send) X(ssend)       \
    X(bsend) X(rsend) X(sendrecv) X(sendrecv_replace) X(self_messages) X(proc_null)                \
    X(persistent_starts) X(partitioned) X(partitions) X(irecv_specific) X(irecv_any_source)        \
    X(irecv_any_tag) X(irecv_any) X(unexpected_order) X(probe) X(iprobe) X(mprobe) X(improbe)      \
    X(mrecv) X(imrecv) X(iprobe_nothing) X(cancelled) X(cancel_lost_race) X(cancel_won_race)       \
    X(short_receives) X(derived_sends) X(derived_receives) X(waitall) X(waitany) X(waitsome)       \
    X(testall) X(testany) X(testsome) X(wait) X(test) X(request_get_status) X(barrier) X(bcast)    \
    X(gather) X(gatherv) X(scatter) X(scatterv) X(allgather) X(allgatherv) X(alltoall)             \
    X(alltoallv) X(alltoallw) X(reduce) X(allreduce) X(reduce_scatter) X(reduce_scatter_block)     \
    X(scan) X(exscan) X(neighbor_alltoall) X(nonblocking_collectives) X(in_place)                  \
    X(user_defined_op) X(collectives_amid_messages) X(put) X(get) X(accumulate)                    \
    X(get_accumulate) X(fetch_and_op) X(compare_and_swap) X(fence) X(post_start) X(lock_shared)    \
    X(lock_exclusive) X(lock_all) X(flush) X(split_groups)

enum count {
#define COUNT_NAME(name) COUNT_##name,
    COUNTS(COUNT_NAME)
#undef COUNT_NAME
        COUNT_KINDS
};

extern long long counts[COUNT_KINDS];
#define COUNT(name) (counts[COUNT_##name]++)
#define COUNT_MORE(name, more) (counts[COUNT_##name] += (more))

/* What the MPI under test cannot do, by its own fault: the runner says which. */
struct limits {
    bool no_sync_to_mrecv, no_derived_mrecv, no_derived_persistent, no_one_sided;
    /* Partitioned requests on communicators of some ranks, or of all in another order. */
    bool no_partitioned_apart;
    /* A flush behind what fetches a value: an unlock instead. */
    bool no_flush_of_answers;
    /* Some data is spoiled, to see that it is noticed. */
    bool is_broken;
};
extern struct limits limits;

/* The ranks that run a phase. Each kind of traffic has a communicator of its own, so that
 * no wildcard meets what is not meant for it. */
enum { POSTED, PROBED, CANCELLED, COLLECTIVE, CONTEXTS };

struct group {
    MPI_Comm comms[CONTEXTS];
    int rank, size;
    /* All ranks, in the order of the world. */
    bool is_of_all;
};

/* Layouts: where the elements of a message lie in its buffer. */

enum element { BYTES, INTS, DOUBLES, ELEMENT_KINDS };

struct layout {
    MPI_Datatype type;
    int count;
    enum element element;
    /* Elements, and where each begins; contiguous ones have no list. */
    int elements;
    size_t *at;
    uint8_t *buffer;
    size_t buffer_len;
    bool is_derived;
};

size_t element_len(enum element element);
MPI_Datatype element_type(enum element element);
/* A layout of that many elements, of any kind if it may be derived. */
struct layout layout_draw(struct rng *rng, enum element element, int elements, bool may_derive);
void layout_fill(struct layout *layout, uint64_t seed);
/* Checks that the first elements are those of this seed, and that all else is untouched. */
void layout_check(const struct layout *layout, int elements, uint64_t seed, const char *said);
void layout_free(struct layout *layout);

/* How long a message is, in elements. */
int draw_elements(struct rng *rng, enum element element, bool may_be_long);

/* Completes all requests, in ways that are drawn; statuses are by index. */
void complete(struct rng *rng, MPI_Request *requests, MPI_Status *statuses, int count);

/* The phases. `all` is the stream that the ranks of the group have in common. */
void phase_messages(const struct group *group, struct rng *all, struct rng *mine);
void phase_ordered(const struct group *group, struct rng *all, struct rng *mine);
void phase_persistent(const struct group *group, struct rng *all, struct rng *mine);
void phase_partitioned(const struct group *group, struct rng *all, struct rng *mine);
void phase_collectives(const struct group *group, struct rng *all, struct rng *mine);
void phase_one_sided(const struct group *group, struct rng *all, struct rng *mine);
/* One collective, which the others call in the same order. */
void one_collective(const struct group *group, struct rng *all, struct rng *mine);

#endif
