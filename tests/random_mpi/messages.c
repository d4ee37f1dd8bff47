/* A phase of messages that overlap: sends and receives that do not block, probes and
 * cancels, then the completion of all.
 *
 * Why it is legal, and ends over any MPI: first every rank starts all of its sends and posts
 * its receives, none of which blocks. Then it receives by probes; each waits for a message
 * that its sender has started, or will without waiting for anybody. Then it completes all.
 *
 * Which message a receive with a wildcard gets is open. But receives of one communicator are
 * posted in tiers: first those that name source and tag, then those that name one of the
 * two (all of them the same one), then those that name none. So the patterns of a later
 * tier contain those of an earlier, or exclude them, and whatever matches first, each
 * receive finds a message and each message a receive. A phase with wildcards ends with a
 * barrier, lest a message of the next one comes between.
 *
 * What is checked: the messages of one source and tag are received in the order of their
 * sends, by the receives that have them in the order of their posting. So the envelopes
 * say which message each receive must have, to the byte. Of two receives that have messages
 * of one source, the first does not have the later message if it accepts the other. */
#include "program.h"

enum { MESSAGES_MAX = 100, TAGS = 4, TAG_NEVER_SENT = 32000, TAG_RACES = 1000 };
enum mode { STANDARD, SYNCHRONOUS, BUFFERED };

struct message {
    int source, target, tag, context, elements;
    enum element element;
    enum mode mode;
    uint64_t seed;
    bool is_received;
};

/* A receive that was posted, or a send that was started. */
struct operation {
    struct layout layout;
    int message, source, tag;
};

struct phase {
    const struct group *group;
    struct rng *mine;
    struct message messages[MESSAGES_MAX];
    int count;
    bool has_wildcards;
    MPI_Request requests[3 * MESSAGES_MAX];
    MPI_Status statuses[3 * MESSAGES_MAX];
    struct operation operations[3 * MESSAGES_MAX];
    int started;
    /* Receives of the tiers, in the order of their posting. */
    struct operation posts[MESSAGES_MAX];
    int posts_count;
};

static void message_said(const struct message *message, char *text, size_t len)
{
    snprintf(text, len, "from %d to %d, tag %d, %d elements of %zu bytes", message->source,
             message->target, message->tag, message->elements, element_len(message->element));
}

static void draw_messages(struct phase *phase, struct rng *all)
{
    static const int bases[] = {0, 1000, 30000};
    int size = phase->group->size, base = bases[draw(all, 3)];
    bool may_be_long = chance(all, 25);
    enum element elements[CONTEXTS][16];
    for (int context = 0; context < CONTEXTS; context++)
        for (int rank = 0; rank < size; rank++)
            elements[context][rank] = draw(all, ELEMENT_KINDS);
    phase->has_wildcards = chance(all, 75);
    phase->count = 1 + draw(all, 12 * size < MESSAGES_MAX ? 12 * size : MESSAGES_MAX);
    for (int i = 0; i < phase->count; i++) {
        struct message *message = &phase->messages[i];
        int where = draw(all, 10);
        message->context = where < 6 || !phase->has_wildcards ? POSTED : where < 9 ? PROBED
                                                                                   : CANCELLED;
        message->source = draw(all, size);
        message->target = draw(all, size);
        message->tag = message->context == CANCELLED ? TAG_RACES + i : base + draw(all, TAGS);
        message->element = elements[message->context][message->target];
        message->elements = draw_elements(all, message->element, may_be_long);
        int mode = draw(all, 10);
        bool is_short = message->elements * element_len(message->element) <= 2000;
        message->mode = mode < 2                ? SYNCHRONOUS
                        : mode < 3 && is_short ? BUFFERED
                                               : STANDARD;
        if (message->context == PROBED && message->mode == SYNCHRONOUS && limits.no_sync_to_mrecv)
            message->mode = STANDARD;
        message->seed = draw64(all);
        message->is_received = false;
        if (message->source == phase->group->rank) {
            COUNT(messages);
            COUNT_MORE(bytes, message->elements * (long long)element_len(message->element));
            if (message->target == message->source)
                COUNT(self_messages);
        }
    }
}

/* Receives in tiers. */

static bool is_mine(const struct phase *phase, const struct message *message, int context)
{
    return message->target == phase->group->rank && message->context == context;
}

static bool accepts(const struct operation *receive, const struct message *message)
{
    return (receive->source == MPI_ANY_SOURCE || receive->source == message->source) &&
           (receive->tag == MPI_ANY_TAG || receive->tag == message->tag);
}

/* Plans a receive for as many elements as the longest message that it may get. */
static void plan_receive(struct phase *phase, int source, int tag)
{
    struct operation *receive = &phase->posts[phase->posts_count++];
    *receive = (struct operation){.message = -1, .source = source, .tag = tag};
    int elements = 0;
    enum element element = BYTES;
    for (int i = 0; i < phase->count; i++)
        if (is_mine(phase, &phase->messages[i], POSTED) &&
            accepts(receive, &phase->messages[i])) {
            element = phase->messages[i].element;
            if (phase->messages[i].elements > elements)
                elements = phase->messages[i].elements;
        }
    receive->layout = layout_draw(phase->mine, element, elements, true);
    if (receive->layout.is_derived)
        COUNT(derived_receives);
}

static void plan_receives(struct phase *phase)
{
    struct rng *mine = phase->mine;
    int mode = phase->has_wildcards ? draw(mine, 5) : 0;
    /* How likely the tiers are: of 100, named in full and by one of the two. */
    int full = mode == 0 ? 100 : mode == 4 ? 0 : 40, half = mode == 1 || mode == 2 ? 100 : 50;
    bool names_source = mode == 2 || (mode == 3 && chance(mine, 50));
    int tiers[3][MESSAGES_MAX], counts_of[3] = {0};
    for (int i = 0; i < phase->count; i++) {
        if (!is_mine(phase, &phase->messages[i], POSTED))
            continue;
        int tier = chance(mine, full) ? 0 : chance(mine, half) && mode != 4 ? 1 : 2;
        tiers[tier][counts_of[tier]++] = i;
    }
    for (int tier = 0; tier < 3; tier++) {
        shuffle(mine, tiers[tier], counts_of[tier]);
        for (int i = 0; i < counts_of[tier]; i++) {
            const struct message *message = &phase->messages[tiers[tier][i]];
            bool has_source = tier == 0 || (tier == 1 && names_source);
            bool has_tag = tier == 0 || (tier == 1 && !names_source);
            plan_receive(phase, has_source ? message->source : MPI_ANY_SOURCE,
                         has_tag ? message->tag : MPI_ANY_TAG);
        }
    }
    counts[COUNT_irecv_specific] += counts_of[0];
    counts[names_source ? COUNT_irecv_any_tag : COUNT_irecv_any_source] += counts_of[1];
    counts[COUNT_irecv_any] += counts_of[2];
}

/* Starting. */

static struct operation *start(struct phase *phase, MPI_Request **request)
{
    EXPECT(phase->started < 3 * MESSAGES_MAX, "more operations than there is place for");
    *request = &phase->requests[phase->started];
    struct operation *operation = &phase->operations[phase->started++];
    *operation = (struct operation){.message = -1};
    return operation;
}

static void start_send(struct phase *phase, int index)
{
    struct message *message = &phase->messages[index];
    MPI_Request *request;
    struct operation *send = start(phase, &request);
    send->layout = layout_draw(phase->mine, message->element, message->elements, true);
    layout_fill(&send->layout, message->seed);
    if (send->layout.is_derived)
        COUNT(derived_sends);
    MPI_Comm comm = phase->group->comms[message->context];
    const struct layout *layout = &send->layout;
    int target = message->target, tag = message->tag;
    switch (message->mode) {
    case SYNCHRONOUS:
        COUNT(issend);
        MPI_Issend(layout->buffer, layout->count, layout->type, target, tag, comm, request);
        break;
    case BUFFERED:
        COUNT(ibsend);
        MPI_Ibsend(layout->buffer, layout->count, layout->type, target, tag, comm, request);
        break;
    default:
        COUNT(isend);
        MPI_Isend(layout->buffer, layout->count, layout->type, target, tag, comm, request);
        break;
    }
}

static void post_receive(struct phase *phase, int index)
{
    const struct operation *post = &phase->posts[index];
    MPI_Request *request;
    struct operation *receive = start(phase, &request);
    *receive = *post;
    MPI_Irecv(post->layout.buffer, post->layout.count, post->layout.type, post->source, post->tag,
              phase->group->comms[POSTED], request);
}

/* Receives that a message races with their cancel, and one that nothing matches. */
struct races {
    MPI_Request requests[MESSAGES_MAX], unmatched;
    struct layout layouts[MESSAGES_MAX];
    int messages[MESSAGES_MAX], count, nothing;
    bool has_unmatched;
};

static void post_races(struct phase *phase, struct races *races)
{
    MPI_Comm comm = phase->group->comms[CANCELLED];
    races->count = 0;
    for (int i = 0; i < phase->count; i++) {
        const struct message *message = &phase->messages[i];
        if (!is_mine(phase, message, CANCELLED))
            continue;
        int at = races->count++;
        races->messages[at] = i;
        struct layout *layout = &races->layouts[at];
        *layout = layout_draw(phase->mine, message->element, message->elements, true);
        MPI_Irecv(layout->buffer, layout->count, layout->type, message->source, message->tag, comm,
                  &races->requests[at]);
    }
    races->has_unmatched = chance(phase->mine, 30);
    if (races->has_unmatched)
        MPI_Irecv(&races->nothing, 1, MPI_INT, draw(phase->mine, 2) ? MPI_ANY_SOURCE : 0,
                  TAG_NEVER_SENT, comm, &races->unmatched);
}

static void end_races(struct phase *phase, struct races *races)
{
    int is_cancelled;
    MPI_Status status;
    char said[128];
    if (races->has_unmatched) {
        MPI_Cancel(&races->unmatched);
        MPI_Wait(&races->unmatched, &status);
        MPI_Test_cancelled(&status, &is_cancelled);
        EXPECT(is_cancelled, "a receive that nothing matches was not cancelled");
        COUNT(cancelled);
    }
    for (int i = 0; i < races->count; i++) {
        const struct message *message = &phase->messages[races->messages[i]];
        MPI_Cancel(&races->requests[i]);
        MPI_Wait(&races->requests[i], &status);
        MPI_Test_cancelled(&status, &is_cancelled);
        counts[is_cancelled ? COUNT_cancel_won_race : COUNT_cancel_lost_race]++;
        message_said(message, said, sizeof said);
        if (is_cancelled) {
            /* Then it has touched nothing, and the message comes to the next receive. */
            layout_check(&races->layouts[i], 0, 0, said);
            MPI_Request *request;
            struct operation *receive = start(phase, &request);
            receive->layout = races->layouts[i];
            receive->message = races->messages[i];
            MPI_Irecv(receive->layout.buffer, receive->layout.count, receive->layout.type,
                      message->source, message->tag, phase->group->comms[CANCELLED], request);
            continue;
        }
        EXPECT(status.MPI_SOURCE == message->source && status.MPI_TAG == message->tag,
               "source %d, tag %d: %s", status.MPI_SOURCE, status.MPI_TAG, said);
        layout_check(&races->layouts[i], message->elements, message->seed, said);
        layout_free(&races->layouts[i]);
    }
}

/* Receiving by probes. */

/* The message that a probe must have found, by the source that it says. */
static int found_by_probe(struct phase *phase, const MPI_Status *status,
                          const struct operation *pattern)
{
    for (int i = 0; i < phase->count; i++) {
        struct message *message = &phase->messages[i];
        if (!is_mine(phase, message, PROBED) || message->is_received ||
            message->source != status->MPI_SOURCE || !accepts(pattern, message))
            continue;
        int elements;
        char said[128];
        message_said(message, said, sizeof said);
        MPI_Get_elements(status, element_type(message->element), &elements);
        EXPECT(status->MPI_TAG == message->tag && elements == message->elements,
               "a probe found tag %d, %d elements, not the message %s", status->MPI_TAG, elements,
               said);
        message->is_received = true;
        return i;
    }
    program_fail(__FILE__, __LINE__, "a probe finds what was sent", "source %d, tag %d",
                 status->MPI_SOURCE, status->MPI_TAG);
}

static void check_received(const struct message *message, const struct layout *layout,
                           const MPI_Status *status)
{
    int elements;
    char said[128];
    message_said(message, said, sizeof said);
    MPI_Get_elements(status, element_type(message->element), &elements);
    EXPECT(status->MPI_SOURCE == message->source && status->MPI_TAG == message->tag &&
               elements == message->elements,
           "source %d, tag %d, %d elements: %s", status->MPI_SOURCE, status->MPI_TAG, elements,
           said);
    layout_check(layout, elements, message->seed, said);
}

/* A matched message that is kept for a while. */
struct kept {
    MPI_Message handle;
    int message;
};

static void receive_matched(struct phase *phase, struct kept *kept)
{
    const struct message *message = &phase->messages[kept->message];
    struct layout layout =
        layout_draw(phase->mine, message->element, message->elements, !limits.no_derived_mrecv);
    if (chance(phase->mine, 50)) {
        MPI_Status status;
        COUNT(mrecv);
        MPI_Mrecv(layout.buffer, layout.count, layout.type, &kept->handle, &status);
        check_received(message, &layout, &status);
        layout_free(&layout);
        return;
    }
    MPI_Request *request;
    struct operation *receive = start(phase, &request);
    receive->layout = layout;
    receive->message = kept->message;
    COUNT(imrecv);
    MPI_Imrecv(layout.buffer, layout.count, layout.type, &kept->handle, request);
}

/* Finds a message by a pattern that one of those to come fits. */
static void receive_one(struct phase *phase, int expected, struct kept *kept, int *kept_count)
{
    struct rng *mine = phase->mine;
    MPI_Comm comm = phase->group->comms[PROBED];
    const struct message *likely = &phase->messages[expected];
    struct operation pattern = {
        .source = chance(mine, 50) ? MPI_ANY_SOURCE : likely->source,
        .tag = chance(mine, 50) ? MPI_ANY_TAG : likely->tag,
    };
    MPI_Status status;
    MPI_Message handle;
    int way = draw(mine, 4), is_found = 0;
    switch (way) {
    case 0:
        COUNT(probe);
        MPI_Probe(pattern.source, pattern.tag, comm, &status);
        break;
    case 1:
        COUNT(iprobe);
        while (!is_found)
            MPI_Iprobe(pattern.source, pattern.tag, comm, &is_found, &status);
        break;
    case 2:
        COUNT(mprobe);
        MPI_Mprobe(pattern.source, pattern.tag, comm, &handle, &status);
        break;
    default:
        COUNT(improbe);
        while (!is_found)
            MPI_Improbe(pattern.source, pattern.tag, comm, &is_found, &handle, &status);
        break;
    }
    int index = found_by_probe(phase, &status, &pattern);
    if (way >= 2) {
        kept[(*kept_count)++] = (struct kept){handle, index};
        return;
    }
    const struct message *message = &phase->messages[index];
    struct layout layout = layout_draw(mine, message->element, message->elements, true);
    if (chance(mine, 50)) {
        MPI_Recv(layout.buffer, layout.count, layout.type, message->source, message->tag, comm,
                 &status);
        check_received(message, &layout, &status);
        layout_free(&layout);
        return;
    }
    MPI_Request *request;
    struct operation *receive = start(phase, &request);
    receive->layout = layout;
    receive->message = index;
    MPI_Irecv(layout.buffer, layout.count, layout.type, message->source, message->tag, comm,
              request);
}

static void receive_by_probes(struct phase *phase)
{
    struct kept kept[MESSAGES_MAX];
    int kept_count = 0, order[MESSAGES_MAX], count = 0, is_found;
    for (int i = 0; i < phase->count; i++)
        if (is_mine(phase, &phase->messages[i], PROBED))
            order[count++] = i;
    shuffle(phase->mine, order, count);
    /* A pattern finds a message, but maybe not the one that it was made of. */
    for (int i = 0; i < count; i++) {
        while (!phase->messages[order[i]].is_received)
            receive_one(phase, order[i], kept, &kept_count);
        if (chance(phase->mine, 20)) {
            MPI_Iprobe(MPI_ANY_SOURCE, TAG_NEVER_SENT, phase->group->comms[PROBED], &is_found,
                       MPI_STATUS_IGNORE);
            EXPECT(!is_found, "a probe found a tag that nobody sends");
            COUNT(iprobe_nothing);
        }
        while (kept_count > 0 && chance(phase->mine, 50)) {
            int at = draw(phase->mine, kept_count);
            struct kept one = kept[at];
            kept[at] = kept[--kept_count];
            receive_matched(phase, &one);
        }
    }
    while (kept_count > 0)
        receive_matched(phase, &kept[--kept_count]);
}

/* What the receives of the tiers have got. */

static void check_posts(struct phase *phase, const int *places)
{
    for (int i = 0; i < phase->posts_count; i++) {
        struct operation *receive = &phase->operations[places[i]];
        const MPI_Status *status = &phase->statuses[places[i]];
        /* The first message of this source and tag that no earlier receive has. */
        for (int m = 0; m < phase->count && receive->message < 0; m++) {
            struct message *message = &phase->messages[m];
            if (is_mine(phase, message, POSTED) && !message->is_received &&
                message->source == status->MPI_SOURCE && message->tag == status->MPI_TAG) {
                message->is_received = true;
                receive->message = m;
            }
        }
        EXPECT(receive->message >= 0, "nobody sent what a receive got: source %d, tag %d",
               status->MPI_SOURCE, status->MPI_TAG);
        const struct message *message = &phase->messages[receive->message];
        EXPECT(accepts(receive, message), "a receive of source %d, tag %d got source %d, tag %d",
               receive->source, receive->tag, message->source, message->tag);
        if (message->elements < receive->layout.elements)
            COUNT(short_receives);
        check_received(message, &receive->layout, status);
    }
    for (int i = 0; i < phase->posts_count; i++)
        for (int j = i + 1; j < phase->posts_count; j++) {
            const struct operation *first = &phase->operations[places[i]];
            const struct operation *second = &phase->operations[places[j]];
            const struct message *one = &phase->messages[first->message];
            const struct message *other = &phase->messages[second->message];
            if (one->source != other->source || !accepts(first, other))
                continue;
            COUNT(unexpected_order);
            EXPECT(first->message < second->message,
                   "a message from %d, tag %d, overtook one of tag %d", one->source, one->tag,
                   other->tag);
        }
}

/* Starts sends and posts receives, in an order of both that is drawn. */
static void start_all(struct phase *phase, int *places)
{
    int sends[MESSAGES_MAX], sends_count = 0, sent = 0, posted = 0;
    for (int i = 0; i < phase->count; i++)
        if (phase->messages[i].source == phase->group->rank)
            sends[sends_count++] = i;
    int bias = draw(phase->mine, 3);
    while (sent < sends_count || posted < phase->posts_count) {
        bool is_send = bias == 0 || (bias == 2 && chance(phase->mine, 50));
        if (sent == sends_count || (!is_send && posted < phase->posts_count)) {
            post_receive(phase, posted);
            places[posted++] = phase->started - 1;
        } else {
            start_send(phase, sends[sent++]);
        }
    }
}

void phase_messages(const struct group *group, struct rng *all, struct rng *mine)
{
    struct phase *phase = allocate(sizeof *phase);
    struct races *races = allocate(sizeof *races);
    int places[MESSAGES_MAX];
    *phase = (struct phase){.group = group, .mine = mine};
    draw_messages(phase, all);
    bool has_collective = chance(all, 30);
    plan_receives(phase);
    post_races(phase, races);
    start_all(phase, places);
    if (has_collective) {
        COUNT(collectives_amid_messages);
        one_collective(group, all, mine);
    }
    end_races(phase, races);
    receive_by_probes(phase);
    complete(mine, phase->requests, phase->statuses, phase->started);
    check_posts(phase, places);
    for (int i = 0; i < phase->started; i++) {
        struct operation *operation = &phase->operations[i];
        bool is_checked = operation->message < 0;
        for (int post = 0; post < phase->posts_count; post++)
            is_checked |= places[post] == i;
        if (!is_checked)
            check_received(&phase->messages[operation->message], &operation->layout,
                           &phase->statuses[i]);
        layout_free(&operation->layout);
    }
    if (phase->has_wildcards)
        MPI_Barrier(group->comms[COLLECTIVE]);
    free(races);
    free(phase);
}
