/* Calls that block: one common sequence of transfers, which every rank walks through in the
 * same order. So the first one that has not ended has both of its ends in it, and none waits
 * for ever. Also persistent and partitioned requests, and ways to complete requests. */
#include "program.h"

enum { TRANSFERS_MAX = 40, ROUNDS_MAX = 4, PERSISTENT_MAX = 24, TAG_GO = 77, PARTS_MAX = 8 };

/* Completing. */

static int some_done(struct rng *rng, MPI_Request *requests, MPI_Status *statuses, int count)
{
    int indices[256], done = 0, flag;
    MPI_Status some[256];
    count = count > 256 ? 256 : count;
    switch (draw(rng, 5)) {
    case 0:
        COUNT(waitany);
        MPI_Waitany(count, requests, &indices[0], &some[0]);
        done = indices[0] != MPI_UNDEFINED;
        break;
    case 1:
        COUNT(waitsome);
        MPI_Waitsome(count, requests, &done, indices, some);
        break;
    case 2:
        COUNT(testany);
        MPI_Testany(count, requests, &indices[0], &flag, &some[0]);
        done = flag && indices[0] != MPI_UNDEFINED;
        break;
    case 3:
        COUNT(testsome);
        MPI_Testsome(count, requests, &done, indices, some);
        break;
    default: {
        int at = draw(rng, count);
        if (requests[at] == MPI_REQUEST_NULL)
            return 0;
        COUNT(test);
        MPI_Test(&requests[at], &flag, &some[0]);
        indices[0] = at;
        done = flag;
        break;
    }
    }
    for (int i = 0; i < done && done != MPI_UNDEFINED; i++)
        statuses[indices[i]] = some[i];
    return done == MPI_UNDEFINED ? 0 : done;
}

void complete(struct rng *rng, MPI_Request *requests, MPI_Status *statuses, int count)
{
    int flag = 0, steps = draw(rng, 2 * count + 1);
    for (int i = 0; i < steps && count > 0; i++)
        some_done(rng, requests, statuses, count);
    /* The rest: one by one, or all at once. Waiting for all would give requests that have
     * ended empty statuses. */
    if (chance(rng, 50) || steps > 0) {
        for (int i = 0; i < count; i++) {
            if (requests[i] == MPI_REQUEST_NULL)
                continue;
            if (chance(rng, 30)) {
                COUNT(request_get_status);
                MPI_Request_get_status(requests[i], &flag, &statuses[i]);
            }
            COUNT(wait);
            MPI_Wait(&requests[i], &statuses[i]);
        }
    } else if (chance(rng, 50)) {
        COUNT(waitall);
        MPI_Waitall(count, requests, statuses);
    } else {
        for (flag = 0; !flag;) {
            COUNT(testall);
            MPI_Testall(count, requests, &flag, statuses);
        }
    }
}

static void expect_envelope(const MPI_Status *status, int source, int tag, enum element element,
                            int elements, const char *said)
{
    int count;
    MPI_Get_elements(status, element_type(element), &count);
    EXPECT(status->MPI_SOURCE == source && status->MPI_TAG == tag && count == elements,
           "%s: source %d, tag %d, %d elements; expected %d, %d, %d", said, status->MPI_SOURCE,
           status->MPI_TAG, count, source, tag, elements);
}

/* One transfer from a rank to another. */

struct transfer {
    int source, target, tag, elements, way;
    enum element element;
    uint64_t seed;
};

enum { WAY_SEND, WAY_SSEND, WAY_BSEND, WAY_RSEND, WAYS };

static void send_it(const struct transfer *transfer, MPI_Comm comm, struct rng *mine)
{
    struct layout layout = layout_draw(mine, transfer->element, transfer->elements, true);
    layout_fill(&layout, transfer->seed);
    if (layout.is_derived)
        COUNT(derived_sends);
    switch (transfer->way) {
    case WAY_SSEND:
        COUNT(ssend);
        MPI_Ssend(layout.buffer, layout.count, layout.type, transfer->target, transfer->tag, comm);
        break;
    case WAY_BSEND:
        COUNT(bsend);
        MPI_Bsend(layout.buffer, layout.count, layout.type, transfer->target, transfer->tag, comm);
        break;
    case WAY_RSEND:
        /* The receiver says that its receive is posted. */
        COUNT(rsend);
        MPI_Recv(NULL, 0, MPI_BYTE, transfer->target, TAG_GO, comm, MPI_STATUS_IGNORE);
        MPI_Rsend(layout.buffer, layout.count, layout.type, transfer->target, transfer->tag, comm);
        break;
    default:
        COUNT(send);
        MPI_Send(layout.buffer, layout.count, layout.type, transfer->target, transfer->tag, comm);
        break;
    }
    layout_free(&layout);
}

static void receive_it(const struct transfer *transfer, MPI_Comm comm, struct rng *mine)
{
    MPI_Status status;
    struct layout layout =
        layout_draw(mine, transfer->element, transfer->elements + draw(mine, 3), true);
    if (layout.is_derived)
        COUNT(derived_receives);
    if (transfer->way == WAY_RSEND) {
        MPI_Request request;
        MPI_Irecv(layout.buffer, layout.count, layout.type, transfer->source, transfer->tag, comm,
                  &request);
        MPI_Send(NULL, 0, MPI_BYTE, transfer->source, TAG_GO, comm);
        MPI_Wait(&request, &status);
    } else {
        MPI_Recv(layout.buffer, layout.count, layout.type, transfer->source, transfer->tag, comm,
                 &status);
    }
    expect_envelope(&status, transfer->source, transfer->tag, transfer->element,
                    transfer->elements, "a transfer in order");
    layout_check(&layout, transfer->elements, transfer->seed, "a transfer in order");
    layout_free(&layout);
}

/* Everybody sends to the rank that is `shift` further, and receives. */
static void shift_all(const struct group *group, struct rng *all, struct rng *mine)
{
    MPI_Comm comm = group->comms[POSTED];
    int shift = draw(all, group->size), tag = draw(all, 1000);
    int elements = draw_elements(all, INTS, chance(all, 10));
    bool is_replaced = chance(all, 30), is_open = chance(all, 20);
    uint64_t seed = draw64(all);
    int right = group->rank + shift, left = group->rank - shift;
    /* Without the ends joined, those at an end have nobody. */
    if (is_open) {
        right = right >= group->size ? MPI_PROC_NULL : right;
        left = left < 0 ? MPI_PROC_NULL : left;
    } else {
        right %= group->size;
        left = (left + group->size) % group->size;
    }
    MPI_Status status;
    struct layout out = layout_draw(mine, INTS, elements, true);
    struct layout in = layout_draw(mine, INTS, elements, true);
    layout_fill(&out, mix64(seed + (uint64_t)group->rank));
    if (is_replaced) {
        COUNT(sendrecv_replace);
        MPI_Sendrecv_replace(out.buffer, out.count, out.type, right, tag, left, tag, comm, &status);
    } else {
        COUNT(sendrecv);
        MPI_Sendrecv(out.buffer, out.count, out.type, right, tag, in.buffer, in.count, in.type,
                     left, tag, comm, &status);
    }
    if (left == MPI_PROC_NULL) {
        COUNT(proc_null);
        expect_envelope(&status, MPI_PROC_NULL, MPI_ANY_TAG, INTS, 0, "from nobody");
        layout_check(is_replaced ? &out : &in, is_replaced ? elements : 0,
                     mix64(seed + (uint64_t)group->rank), "from nobody");
    } else {
        expect_envelope(&status, left, tag, INTS, elements, "a shift");
        layout_check(is_replaced ? &out : &in, elements, mix64(seed + (uint64_t)left), "a shift");
    }
    layout_free(&out);
    layout_free(&in);
}

void phase_ordered(const struct group *group, struct rng *all, struct rng *mine)
{
    int count = 1 + draw(all, TRANSFERS_MAX);
    bool may_be_long = chance(all, 20);
    for (int i = 0; i < count; i++) {
        if (chance(all, 15)) {
            shift_all(group, all, mine);
            continue;
        }
        struct transfer transfer = {.source = draw(all, group->size), .tag = draw(all, 5),
                                    .element = draw(all, ELEMENT_KINDS), .way = draw(all, WAYS)};
        int further = group->size > 1 ? 1 + draw(all, group->size - 1) : 0;
        transfer.target = (transfer.source + further) % group->size;
        transfer.elements = draw_elements(all, transfer.element, may_be_long);
        transfer.seed = draw64(all);
        if (transfer.way == WAY_BSEND && transfer.elements > 200)
            transfer.way = WAY_SEND;
        /* A rank alone has nobody to send to who could receive meanwhile. */
        if (transfer.source == transfer.target)
            continue;
        if (transfer.source == group->rank)
            send_it(&transfer, group->comms[POSTED], mine);
        else if (transfer.target == group->rank)
            receive_it(&transfer, group->comms[POSTED], mine);
    }
}

/* Persistent requests: the same transfers in several rounds, with new data in each. */

struct persistent {
    struct transfer transfer;
    struct layout layout;
    bool is_send;
};

static MPI_Request persistent_init(struct persistent *it, MPI_Comm comm)
{
    MPI_Request request;
    const struct layout *layout = &it->layout;
    const struct transfer *transfer = &it->transfer;
    if (!it->is_send)
        MPI_Recv_init(layout->buffer, layout->count, layout->type, transfer->source, transfer->tag,
                      comm, &request);
    else if (transfer->way == WAY_SSEND)
        MPI_Ssend_init(layout->buffer, layout->count, layout->type, transfer->target,
                       transfer->tag, comm, &request);
    else
        MPI_Send_init(layout->buffer, layout->count, layout->type, transfer->target, transfer->tag,
                      comm, &request);
    return request;
}

static void persistent_round(struct persistent *list, MPI_Request *requests, int count, int round,
                             struct rng *mine)
{
    MPI_Status statuses[2 * PERSISTENT_MAX];
    int order[2 * PERSISTENT_MAX];
    for (int i = 0; i < count; i++) {
        order[i] = i;
        memset(list[i].layout.buffer, 0xa5, list[i].layout.buffer_len);
        if (list[i].is_send)
            layout_fill(&list[i].layout, list[i].transfer.seed + (uint64_t)round);
    }
    COUNT_MORE(persistent_starts, count);
    if (chance(mine, 50)) {
        MPI_Startall(count, requests);
    } else {
        /* Tags differ, so that any order of starts is right. */
        shuffle(mine, order, count);
        for (int i = 0; i < count; i++)
            MPI_Start(&requests[order[i]]);
    }
    COUNT(waitall);
    MPI_Waitall(count, requests, statuses);
    for (int i = 0; i < count; i++) {
        const struct transfer *transfer = &list[i].transfer;
        if (list[i].is_send)
            continue;
        expect_envelope(&statuses[i], transfer->source, transfer->tag, transfer->element,
                        transfer->elements, "a persistent receive");
        layout_check(&list[i].layout, transfer->elements, transfer->seed + (uint64_t)round,
                     "a persistent receive");
    }
}

void phase_persistent(const struct group *group, struct rng *all, struct rng *mine)
{
    struct persistent list[2 * PERSISTENT_MAX];
    MPI_Request requests[2 * PERSISTENT_MAX];
    int transfers = 1 + draw(all, PERSISTENT_MAX), rounds = 1 + draw(all, ROUNDS_MAX), count = 0;
    bool may_be_long = chance(all, 20);
    for (int i = 0; i < transfers; i++) {
        struct transfer transfer = {.source = draw(all, group->size), .tag = 2000 + i,
                                    .target = draw(all, group->size),
                                    .element = draw(all, ELEMENT_KINDS), .way = draw(all, 2)};
        transfer.elements = draw_elements(all, transfer.element, may_be_long);
        transfer.seed = draw64(all);
        for (int end = 0; end < 2; end++) {
            if ((end ? transfer.target : transfer.source) != group->rank)
                continue;
            list[count] = (struct persistent){.transfer = transfer, .is_send = end == 0};
            list[count].layout = layout_draw(mine, transfer.element, transfer.elements,
                                             !limits.no_derived_persistent);
            requests[count] = persistent_init(&list[count], group->comms[POSTED]);
            count++;
        }
    }
    for (int round = 0; round < rounds; round++)
        persistent_round(list, requests, count, round, mine);
    for (int i = 0; i < count; i++) {
        MPI_Request_free(&requests[i]);
        layout_free(&list[i].layout);
    }
}

/* Partitioned requests (MPI 4): each part of a message is made ready by itself. */

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
void phase_partitioned(const struct group *group, struct rng *all, struct rng *mine)
{
    int parts = 1 + draw(all, PARTS_MAX), part = 1 + draw(all, 3000), shift = draw(all, group->size);
    int rounds = 1 + draw(all, ROUNDS_MAX), len = parts * part, flag;
    uint64_t seed = draw64(all);
    int right = (group->rank + shift) % group->size;
    int left = (group->rank - shift + group->size) % group->size;
    uint8_t *out = allocate((size_t)len), *in = allocate((size_t)len + 1);
    MPI_Request requests[2];
    MPI_Comm comm = group->comms[POSTED];
    MPI_Psend_init(out, parts, part, MPI_BYTE, right, 5, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, parts, part, MPI_BYTE, left, 5, comm, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < rounds; round++) {
        int order[PARTS_MAX];
        memset(in, 0, (size_t)len + 1);
        fill(out, (size_t)len, mix64(seed + (uint64_t)(group->rank + 100 * round)));
        MPI_Startall(2, requests);
        COUNT(partitioned);
        COUNT_MORE(partitions, parts);
        for (int i = 0; i < parts; i++)
            order[i] = i;
        shuffle(mine, order, parts);
        for (int i = 0; i < parts; i++) {
            MPI_Pready(order[i], requests[0]);
            if (chance(mine, 30))
                MPI_Parrived(requests[1], draw(mine, parts), &flag);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        size_t wrong = differs_at(in, (size_t)len, mix64(seed + (uint64_t)(left + 100 * round)));
        EXPECT(wrong == (size_t)len && in[len] == 0, "byte %zu of %d of a partitioned message",
               wrong, len);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(out);
    free(in);
}
#else
void phase_partitioned(const struct group *group, struct rng *all, struct rng *mine)
{
    phase_persistent(group, all, mine);
}
#endif
