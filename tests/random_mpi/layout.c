/* Layouts of messages: derived datatypes whose elements lie where this file says, which it
 * computes without MPI. Whatever is no element of a buffer must stay untouched. */
#include "program.h"

enum { DERIVED_ELEMENTS_MAX = 20000, BLOCKS_MAX = 64, FILLER = 0xa5, BEHIND = 64 };

size_t element_len(enum element element)
{
    return element == BYTES ? 1 : element == INTS ? sizeof(int) : sizeof(double);
}

MPI_Datatype element_type(enum element element)
{
    return element == BYTES ? MPI_BYTE : element == INTS ? MPI_INT : MPI_DOUBLE;
}

int draw_elements(struct rng *rng, enum element element, bool may_be_long)
{
    int len;
    switch (draw(rng, 10)) {
    case 0: len = 0; break;
    case 1: len = 4096 - 40 + draw(rng, 80); break;
    case 2: len = 8192 - 60 + draw(rng, 120); break;
    case 3: len = draw(rng, 20000); break;
    case 4: len = may_be_long ? 65536 - 100 + draw(rng, 200) : draw(rng, 4000); break;
    case 5: len = may_be_long ? draw(rng, 8) == 0 ? 1500000 : draw(rng, 300000) : 1; break;
    default: len = draw(rng, 300); break;
    }
    return len / (int)element_len(element);
}

/* The greatest of the lengths 5 to 1 that divides a count. */
static int block_of(struct rng *rng, int count)
{
    int block = 1 + draw(rng, 5);
    while (count % block != 0)
        block--;
    return block;
}

static void strided(struct layout *layout, struct rng *rng, bool in_bytes)
{
    size_t len = element_len(layout->element);
    int block = block_of(rng, layout->elements), stride = block + draw(rng, 4);
    int blocks = layout->elements / block;
    MPI_Datatype base = element_type(layout->element);
    if (in_bytes)
        MPI_Type_create_hvector(blocks, block, (MPI_Aint)(stride * len), base, &layout->type);
    else
        MPI_Type_vector(blocks, block, stride, base, &layout->type);
    layout->count = 1;
    for (int i = 0; i < layout->elements; i++)
        layout->at[i] = (size_t)(i / block * stride + i % block) * len;
}

/* Blocks of drawn lengths, which lie in the buffer in another order than in the message. */
static void scattered(struct layout *layout, struct rng *rng, bool is_struct)
{
    int lengths[BLOCKS_MAX], places[BLOCKS_MAX], order[BLOCKS_MAX];
    int blocks = 1 + draw(rng, is_struct ? 4 : BLOCKS_MAX), left = layout->elements;
    for (int i = 0; i < blocks; i++) {
        lengths[i] = i + 1 == blocks ? left : draw(rng, 2 * left / (blocks - i) + 1);
        lengths[i] = lengths[i] > left ? left : lengths[i];
        left -= lengths[i];
        order[i] = i;
    }
    shuffle(rng, order, blocks);
    int place = draw(rng, 3);
    for (int i = 0; i < blocks; i++) {
        places[order[i]] = place;
        place += lengths[order[i]] + draw(rng, 4);
    }
    size_t len = element_len(layout->element);
    MPI_Datatype base = element_type(layout->element);
    if (is_struct) {
        MPI_Aint offsets[BLOCKS_MAX];
        MPI_Datatype types[BLOCKS_MAX];
        for (int i = 0; i < blocks; i++) {
            offsets[i] = (MPI_Aint)(places[i] * len);
            types[i] = base;
        }
        MPI_Type_create_struct(blocks, lengths, offsets, types, &layout->type);
    } else {
        MPI_Type_indexed(blocks, lengths, places, base, &layout->type);
    }
    layout->count = 1;
    for (int i = 0, at = 0; i < blocks; i++)
        for (int j = 0; j < lengths[i]; j++)
            layout->at[at++] = (size_t)(places[i] + j) * len;
}

/* Many of a small type, whose extent is more than it holds. */
static void resized(struct layout *layout, struct rng *rng)
{
    size_t len = element_len(layout->element);
    int block = block_of(rng, layout->elements), extent = 2 * block + draw(rng, 3);
    MPI_Datatype inner;
    MPI_Type_vector(block, 1, 2, element_type(layout->element), &inner);
    MPI_Type_create_resized(inner, 0, (MPI_Aint)(extent * len), &layout->type);
    MPI_Type_free(&inner);
    layout->count = layout->elements / block;
    for (int i = 0; i < layout->elements; i++)
        layout->at[i] = (size_t)(i / block * extent + i % block * 2) * len;
}

static void subarray(struct layout *layout, struct rng *rng)
{
    size_t len = element_len(layout->element);
    int columns = block_of(rng, layout->elements), rows = layout->elements / columns;
    int above = draw(rng, 3), before = draw(rng, 3);
    int whole[2] = {rows + above + draw(rng, 2), columns + before + draw(rng, 3)};
    int part[2] = {rows, columns}, start[2] = {above, before};
    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, element_type(layout->element),
                             &layout->type);
    layout->count = 1;
    for (int i = 0; i < layout->elements; i++)
        layout->at[i] = (size_t)((i / columns + above) * whole[1] + i % columns + before) * len;
}

struct layout layout_draw(struct rng *rng, enum element element, int elements, bool may_derive)
{
    struct layout layout = {.type = element_type(element), .count = elements, .element = element,
                            .elements = elements};
    size_t len = element_len(element), end = (size_t)elements * len;
    int kind = draw(rng, 12);
    if (may_derive && kind < 6 && elements > 0 && elements <= DERIVED_ELEMENTS_MAX) {
        layout.is_derived = true;
        layout.at = allocate((size_t)elements * sizeof *layout.at);
        switch (kind) {
        case 0: strided(&layout, rng, false); break;
        case 1: strided(&layout, rng, true); break;
        case 2: scattered(&layout, rng, false); break;
        case 3: scattered(&layout, rng, true); break;
        case 4: resized(&layout, rng); break;
        default: subarray(&layout, rng); break;
        }
        MPI_Type_commit(&layout.type);
        end = 0;
        for (int i = 0; i < elements; i++)
            end = layout.at[i] + len > end ? layout.at[i] + len : end;
    }
    layout.buffer_len = end + BEHIND;
    layout.buffer = allocate(layout.buffer_len);
    memset(layout.buffer, FILLER, layout.buffer_len);
    return layout;
}

static size_t offset_of(const struct layout *layout, int element)
{
    return layout->at ? layout->at[element] : (size_t)element * element_len(layout->element);
}

void layout_fill(struct layout *layout, uint64_t seed)
{
    static int filled;
    size_t len = element_len(layout->element);
    if (limits.is_broken && ++filled % 50 == 0)
        seed ^= 1;
    if (!layout->at) {
        fill(layout->buffer, (size_t)layout->elements * len, seed);
        return;
    }
    uint8_t *stream = allocate((size_t)layout->elements * len);
    fill(stream, (size_t)layout->elements * len, seed);
    for (int i = 0; i < layout->elements; i++)
        memcpy(layout->buffer + layout->at[i], stream + (size_t)i * len, len);
    free(stream);
}

void layout_check(const struct layout *layout, int elements, uint64_t seed, const char *said)
{
    size_t len = element_len(layout->element), total = (size_t)elements * len;
    uint8_t *stream = allocate(total);
    uint8_t *rest = allocate(layout->buffer_len);
    memcpy(rest, layout->buffer, layout->buffer_len);
    for (int i = 0; i < elements; i++) {
        memcpy(stream + (size_t)i * len, layout->buffer + offset_of(layout, i), len);
        memset(rest + offset_of(layout, i), FILLER, len);
    }
    size_t wrong = differs_at(stream, total, seed);
    EXPECT(wrong == total, "byte %zu of %zu is wrong: %s", wrong, total, said);
    for (size_t i = 0; i < layout->buffer_len; i++)
        EXPECT(rest[i] == FILLER, "byte %zu of the buffer is no part of it and was written: %s", i,
               said);
    free(stream);
    free(rest);
}

void layout_free(struct layout *layout)
{
    if (layout->is_derived)
        MPI_Type_free(&layout->type);
    free(layout->at);
    free(layout->buffer);
}
