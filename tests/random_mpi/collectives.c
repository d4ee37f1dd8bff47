/* Collectives, blocking and not, on data that every rank can compute. All ranks of the group
 * call the same ones in the same order. */
#include "program.h"

enum { RANKS_MAX = 16, PENDING_MAX = 4 };

enum kind {
    BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL,
    ALLTOALLV, ALLTOALLW, REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN,
    NEIGHBOR, KINDS
};

/* A collective that is drawn, its buffers and what must be in the result. */
struct collective {
    enum kind kind;
    bool is_blocking, is_in_place;
    int root, counts[RANKS_MAX], count;
    uint64_t seed;
    MPI_Op op;
    bool is_user_op;
    uint8_t *send, *receive;
    size_t receive_len;
    int send_counts[RANKS_MAX], send_places[RANKS_MAX];
    int receive_counts[RANKS_MAX], receive_places[RANKS_MAX];
    MPI_Datatype types[RANKS_MAX];
    MPI_Comm comm;
};

/* 2 by 2 matrices modulo a prime: their product depends on the order. */
enum { MODULUS = 65521 };

static void multiply(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    const uint64_t *a = left;
    uint64_t *b = right;
    for (int i = 0; i < *count; i++, a += 4, b += 4) {
        uint64_t product[4] = {(a[0] * b[0] + a[1] * b[2]) % MODULUS,
                               (a[0] * b[1] + a[1] * b[3]) % MODULUS,
                               (a[2] * b[0] + a[3] * b[2]) % MODULUS,
                               (a[2] * b[1] + a[3] * b[3]) % MODULUS};
        memcpy(b, product, sizeof product);
    }
}

static MPI_Op product;
static MPI_Datatype matrix;

static void make_operation(void)
{
    if (matrix)
        return;
    MPI_Type_contiguous(4, MPI_UINT64_T, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(multiply, 0, &product);
}

/* What a rank contributes to a reduction, a word at a time. */
static uint64_t word_of(const struct collective *it, int rank, size_t at)
{
    uint64_t word = mix64(it->seed ^ mix64(((uint64_t)rank << 40) + at));
    return it->is_user_op ? word % MODULUS : word;
}

static void reduce_into(const struct collective *it, uint64_t *sum, int rank, size_t from,
                        size_t words)
{
    uint64_t *next = allocate(words * 8);
    for (size_t i = 0; i < words; i++)
        next[i] = word_of(it, rank, from + i);
    if (it->is_user_op) {
        int count = (int)(words / 4);
        multiply(sum, next, &count, NULL);
        memcpy(sum, next, words * 8);
    } else {
        for (size_t i = 0; i < words; i++)
            sum[i] = it->op == MPI_SUM    ? sum[i] + next[i]
                     : it->op == MPI_BXOR ? sum[i] ^ next[i]
                     : it->op == MPI_MAX  ? (sum[i] > next[i] ? sum[i] : next[i])
                                          : (sum[i] < next[i] ? sum[i] : next[i]);
    }
    free(next);
}

static void check_reduced(const struct collective *it, int first, int last, size_t from,
                          size_t words, const char *name)
{
    uint64_t *sum = allocate(words * 8);
    for (size_t i = 0; i < words; i++)
        sum[i] = word_of(it, first, from + i);
    for (int rank = first + 1; rank <= last; rank++)
        reduce_into(it, sum, rank, from, words);
    EXPECT(memcmp(sum, it->receive, words * 8) == 0, "%s of %zu words from ranks %d to %d", name,
           words, first, last);
    free(sum);
}

/* A part of data: what `source` gives to `target`. */
static uint64_t part_seed(const struct collective *it, int source, int target)
{
    return mix64(it->seed + (uint64_t)source * 64 + (uint64_t)target);
}

static void check_part(const struct collective *it, size_t from, int len, uint64_t seed,
                       const char *name)
{
    size_t wrong = differs_at(it->receive + from, (size_t)len, seed);
    EXPECT(wrong == (size_t)len, "%s: byte %zu of %d is wrong", name, wrong, len);
}

static void draw_collective(struct collective *it, const struct group *group, struct rng *all)
{
    make_operation();
    *it = (struct collective){.kind = draw(all, KINDS), .root = draw(all, group->size),
                              .seed = draw64(all), .comm = group->comms[COLLECTIVE]};
    int longest = chance(all, 20) ? 20000 : 400;
    it->count = draw(all, longest);
    for (int rank = 0; rank < group->size; rank++)
        it->counts[rank] = chance(all, 20) ? 0 : draw(all, longest);
    static MPI_Op ops[] = {MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL};
    ops[0] = MPI_SUM, ops[1] = MPI_BXOR, ops[2] = MPI_MAX, ops[3] = MPI_MIN;
    int op = draw(all, 5);
    it->is_user_op = op == 4;
    it->op = it->is_user_op ? product : ops[op];
    it->is_blocking = chance(all, 60);
    it->is_in_place = chance(all, 25);
}

/* Calls the blocking one or the other. */
#define CALL(blocking, other, ...)                                                                 \
    do {                                                                                           \
        if (it->is_blocking)                                                                       \
            MPI_##blocking(__VA_ARGS__);                                                           \
        else                                                                                       \
            MPI_##other(__VA_ARGS__, request);                                                     \
    } while (0)

/* Lays parts of counts behind each other; gives the sum. */
static int lay_out(const int *counts, int *places, int size)
{
    int sum = 0;
    for (int i = 0; i < size; i++) {
        places[i] = sum;
        sum += counts[i];
    }
    return sum;
}

/* How much a rank gives to another in a complete exchange. */
static int amount(const struct collective *it, int source, int target, int size)
{
    return it->kind == ALLTOALL ? it->count : it->counts[(source + 3 * target) % size];
}

static void start_exchange(struct collective *it, const struct group *group, MPI_Request *request)
{
    int size = group->size, me = group->rank;
    for (int i = 0; i < size; i++) {
        it->send_counts[i] = amount(it, me, i, size);
        it->types[i] = MPI_BYTE;
    }
    int *receives = it->receive_counts;
    for (int i = 0; i < size; i++)
        receives[i] = amount(it, i, me, size);
    it->send = allocate((size_t)lay_out(it->send_counts, it->send_places, size));
    it->receive_len = (size_t)lay_out(receives, it->receive_places, size);
    it->receive = allocate(it->receive_len);
    for (int i = 0; i < size; i++)
        fill(it->send + it->send_places[i], (size_t)it->send_counts[i], part_seed(it, me, i));
    if (it->kind == ALLTOALL) {
        COUNT(alltoall);
        CALL(Alltoall, Ialltoall, it->send, it->count, MPI_BYTE, it->receive, it->count, MPI_BYTE, it->comm);
    } else if (it->kind == ALLTOALLV) {
        COUNT(alltoallv);
        CALL(Alltoallv, Ialltoallv, it->send, it->send_counts, it->send_places, MPI_BYTE, it->receive,
             receives, it->receive_places, MPI_BYTE, it->comm);
    } else {
        COUNT(alltoallw);
        CALL(Alltoallw, Ialltoallw, it->send, it->send_counts, it->send_places, it->types, it->receive,
             receives, it->receive_places, it->types, it->comm);
    }
}

static void start_gathering(struct collective *it, const struct group *group, MPI_Request *request)
{
    int size = group->size, me = group->rank;
    bool is_even = it->kind == GATHER || it->kind == ALLGATHER || it->kind == SCATTER;
    bool is_scatter = it->kind == SCATTER || it->kind == SCATTERV;
    for (int i = 0; i < size; i++)
        it->counts[i] = is_even ? it->count : it->counts[i];
    int sum = lay_out(it->counts, it->receive_places, size), own = it->counts[me];
    int source = is_scatter ? it->root : me;
    it->send = allocate((size_t)sum);
    it->receive_len = (size_t)sum;
    it->receive = allocate(it->receive_len);
    if (is_scatter)
        for (int i = 0; i < size; i++)
            fill(it->send + it->receive_places[i], (size_t)it->counts[i], part_seed(it, source, i));
    else
        fill(it->send, (size_t)own, part_seed(it, me, 0));
    bool in_place = it->is_in_place && !is_scatter &&
                    (me == it->root || it->kind == ALLGATHER || it->kind == ALLGATHERV);
    if (in_place) {
        COUNT(in_place);
        memcpy(it->receive + it->receive_places[me], it->send, (size_t)own);
    }
    void *send = in_place ? MPI_IN_PLACE : it->send;
    switch (it->kind) {
    case GATHER:
        COUNT(gather);
        CALL(Gather, Igather, send, own, MPI_BYTE, it->receive, own, MPI_BYTE, it->root, it->comm);
        break;
    case GATHERV:
        COUNT(gatherv);
        CALL(Gatherv, Igatherv, send, own, MPI_BYTE, it->receive, it->counts, it->receive_places, MPI_BYTE,
             it->root, it->comm);
        break;
    case SCATTER:
        COUNT(scatter);
        CALL(Scatter, Iscatter, send, own, MPI_BYTE, it->receive, own, MPI_BYTE, it->root, it->comm);
        break;
    case SCATTERV:
        COUNT(scatterv);
        CALL(Scatterv, Iscatterv, send, it->counts, it->receive_places, MPI_BYTE, it->receive, own, MPI_BYTE,
             it->root, it->comm);
        break;
    case ALLGATHER:
        COUNT(allgather);
        CALL(Allgather, Iallgather, send, own, MPI_BYTE, it->receive, own, MPI_BYTE, it->comm);
        break;
    default:
        COUNT(allgatherv);
        CALL(Allgatherv, Iallgatherv, send, own, MPI_BYTE, it->receive, it->counts, it->receive_places,
             MPI_BYTE, it->comm);
        break;
    }
}

/* Elements of a reduction are words, or matrices of four words. */
static void start_reduction(struct collective *it, const struct group *group, MPI_Request *request)
{
    int size = group->size, me = group->rank, count = it->count, width = it->is_user_op ? 4 : 1;
    MPI_Datatype type = it->is_user_op ? matrix : MPI_UINT64_T;
    if (it->kind == REDUCE_SCATTER)
        count = lay_out(it->counts, it->receive_places, size);
    if (it->kind == REDUCE_SCATTER_BLOCK)
        count = size * it->count;
    size_t words = (size_t)count * (size_t)width;
    it->send = allocate(words * 8);
    it->receive_len = words * 8;
    it->receive = allocate(it->receive_len);
    for (size_t i = 0; i < words; i++)
        ((uint64_t *)it->send)[i] = word_of(it, me, i);
    bool in_place = it->is_in_place && (it->kind != REDUCE || me == it->root);
    void *send = in_place ? MPI_IN_PLACE : it->send;
    if (in_place)
        memcpy(it->receive, it->send, it->receive_len);
    COUNT_MORE(in_place, in_place);
    COUNT_MORE(user_defined_op, it->is_user_op);
    switch (it->kind) {
    case REDUCE:
        COUNT(reduce);
        CALL(Reduce, Ireduce, send, it->receive, count, type, it->op, it->root, it->comm);
        break;
    case ALLREDUCE:
        COUNT(allreduce);
        CALL(Allreduce, Iallreduce, send, it->receive, count, type, it->op, it->comm);
        break;
    case REDUCE_SCATTER:
        COUNT(reduce_scatter);
        CALL(Reduce_scatter, Ireduce_scatter, send, it->receive, it->counts, type, it->op, it->comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        COUNT(reduce_scatter_block);
        CALL(Reduce_scatter_block, Ireduce_scatter_block, send, it->receive, it->count, type, it->op, it->comm);
        break;
    case SCAN:
        COUNT(scan);
        CALL(Scan, Iscan, send, it->receive, count, type, it->op, it->comm);
        break;
    default:
        COUNT(exscan);
        CALL(Exscan, Iexscan, send, it->receive, count, type, it->op, it->comm);
        break;
    }
}

/* With the neighbours in a ring, which is a communicator of its own. */
static void neighbours(const struct collective *it, const struct group *group)
{
    MPI_Comm ring;
    int periodic = 1, size = group->size, me = group->rank, count = it->count;
    int left = (me + size - 1) % size, right = (me + 1) % size;
    COUNT(neighbor_alltoall);
    MPI_Cart_create(it->comm, 1, &size, &periodic, 0, &ring);
    struct collective data = *it;
    uint8_t *send = allocate((size_t)(2 * count));
    data.receive = allocate((size_t)(2 * count));
    fill(send, (size_t)count, part_seed(it, me, 0));
    fill(send + count, (size_t)count, part_seed(it, me, 1));
    MPI_Neighbor_alltoall(send, count, MPI_BYTE, data.receive, count, MPI_BYTE, ring);
    check_part(&data, 0, count, part_seed(it, left, 1), "from the left");
    check_part(&data, (size_t)count, count, part_seed(it, right, 0), "from the right");
    free(send);
    free(data.receive);
    MPI_Comm_free(&ring);
}

static void start(struct collective *it, const struct group *group, MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    COUNT_MORE(nonblocking_collectives, !it->is_blocking && it->kind != NEIGHBOR);
    switch (it->kind) {
    case BARRIER:
        COUNT(barrier);
        CALL(Barrier, Ibarrier, it->comm);
        break;
    case BCAST:
        COUNT(bcast);
        it->receive = allocate((size_t)it->count);
        if (group->rank == it->root)
            fill(it->receive, (size_t)it->count, it->seed);
        CALL(Bcast, Ibcast, it->receive, it->count, MPI_BYTE, it->root, it->comm);
        break;
    case ALLTOALL: case ALLTOALLV: case ALLTOALLW: start_exchange(it, group, request); break;
    case NEIGHBOR:
        /* With two ranks or less both neighbours are one, and what is whose is open. */
        if (group->size > 2)
            neighbours(it, group);
        break;
    default:
        if (it->kind >= REDUCE)
            start_reduction(it, group, request);
        else
            start_gathering(it, group, request);
        break;
    }
}

static void finish(struct collective *it, const struct group *group)
{
    int me = group->rank, size = group->size, width = it->is_user_op ? 4 : 1;
    size_t words = (size_t)it->count * (size_t)width;
    bool is_root = me == it->root;
    switch (it->kind) {
    case BARRIER: case NEIGHBOR: break;
    case BCAST: check_part(it, 0, it->count, it->seed, "bcast"); break;
    case ALLTOALL: case ALLTOALLV: case ALLTOALLW:
        for (int i = 0; i < size; i++)
            check_part(it, (size_t)it->receive_places[i], amount(it, i, me, size),
                       part_seed(it, i, me), "exchange");
        break;
    case SCATTER: case SCATTERV:
        check_part(it, 0, it->counts[me], part_seed(it, it->root, me), "scatter");
        break;
    case GATHER: case GATHERV: case ALLGATHER: case ALLGATHERV:
        for (int i = 0; i < size && (is_root || it->kind >= ALLGATHER); i++)
            check_part(it, (size_t)it->receive_places[i], it->counts[i], part_seed(it, i, 0),
                       "gather");
        break;
    case REDUCE:
        if (is_root)
            check_reduced(it, 0, size - 1, 0, words, "reduce");
        break;
    case ALLREDUCE: check_reduced(it, 0, size - 1, 0, words, "allreduce"); break;
    case REDUCE_SCATTER:
        check_reduced(it, 0, size - 1, (size_t)(it->receive_places[me] * width),
                      (size_t)(it->counts[me] * width), "reduce_scatter");
        break;
    case REDUCE_SCATTER_BLOCK:
        check_reduced(it, 0, size - 1, (size_t)me * words, words, "reduce_scatter_block");
        break;
    case SCAN: check_reduced(it, 0, me, 0, words, "scan"); break;
    default:
        if (me > 0)
            check_reduced(it, 0, me - 1, 0, words, "exscan");
        break;
    }
    free(it->send);
    free(it->receive);
}

void one_collective(const struct group *group, struct rng *all, struct rng *mine)
{
    struct collective it;
    MPI_Request request;
    (void)mine;
    draw_collective(&it, group, all);
    start(&it, group, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    finish(&it, group);
}

void phase_collectives(const struct group *group, struct rng *all, struct rng *mine)
{
    int count = 1 + draw(all, 12), pending = 0;
    struct collective its[PENDING_MAX];
    MPI_Request requests[PENDING_MAX];
    MPI_Status statuses[PENDING_MAX];
    for (int i = 0; i < count; i++) {
        draw_collective(&its[pending], group, all);
        start(&its[pending], group, &requests[pending]);
        if (its[pending].is_blocking) {
            finish(&its[pending], group);
        } else if (++pending == PENDING_MAX || chance(all, 40)) {
            complete(mine, requests, statuses, pending);
            while (pending > 0)
                finish(&its[--pending], group);
        }
    }
    complete(mine, requests, statuses, pending);
    while (pending > 0)
        finish(&its[--pending], group);
}
