/* What each atomic operation does to one item, computed by the compiler. */
#ifndef SLUICE_PORTALS_REFERENCE_H
#define SLUICE_PORTALS_REFERENCE_H

#include "harness.h"

#include <complex.h>

#define ITEM_MAX 32

#define INTEGER_TYPES(X)                                                                           \
    X(PTL_INT8_T, int8_t)                                                                          \
    X(PTL_UINT8_T, uint8_t)                                                                        \
    X(PTL_INT16_T, int16_t)                                                                        \
    X(PTL_UINT16_T, uint16_t)                                                                      \
    X(PTL_INT32_T, int32_t)                                                                        \
    X(PTL_UINT32_T, uint32_t)                                                                      \
    X(PTL_INT64_T, int64_t)                                                                        \
    X(PTL_UINT64_T, uint64_t)
#define REAL_TYPES(X)                                                                              \
    X(PTL_FLOAT, float)                                                                            \
    X(PTL_DOUBLE, double)                                                                          \
    X(PTL_LONG_DOUBLE, long double)
#define COMPLEX_TYPES(X)                                                                           \
    X(PTL_FLOAT_COMPLEX, float complex)                                                            \
    X(PTL_DOUBLE_COMPLEX, double complex)                                                          \
    X(PTL_LONG_DOUBLE_COMPLEX, long double complex)
#define ALL_TYPES(X) INTEGER_TYPES(X) REAL_TYPES(X) COMPLEX_TYPES(X)

static inline size_t type_size(ptl_datatype_t type)
{
#define SIZE(name, c)                                                                              \
    case name:                                                                                     \
        return sizeof(c);
    switch (type) {
        ALL_TYPES(SIZE)
    }
#undef SIZE
    FAIL("there is no type %d", type);
}

static inline bool is_complex(ptl_datatype_t type)
{
    return type == PTL_FLOAT_COMPLEX || type == PTL_DOUBLE_COMPLEX ||
           type == PTL_LONG_DOUBLE_COMPLEX;
}

static inline bool is_real(ptl_datatype_t type)
{
    return type == PTL_FLOAT || type == PTL_DOUBLE || type == PTL_LONG_DOUBLE;
}

/* Whether the operation has a meaning for the type. */
static inline bool is_defined(ptl_op_t op, ptl_datatype_t type)
{
    switch (op) {
    case PTL_SUM:
    case PTL_PROD:
    case PTL_SWAP:
    case PTL_CSWAP:
    case PTL_CSWAP_NE:
        return true;
    case PTL_MIN:
    case PTL_MAX:
    case PTL_CSWAP_LE:
    case PTL_CSWAP_LT:
    case PTL_CSWAP_GE:
    case PTL_CSWAP_GT:
        return !is_complex(type);
    }
    return !is_complex(type) && !is_real(type);
}

/* An item that is exact in every type, also after a product. */
static inline void item_set(void *item, ptl_datatype_t type, uint64_t seed)
{
    uint64_t word = mix64(seed);
    int small = (int)(word % 41) - 20, other = (int)(word >> 32 & 31) - 16;
#define WHOLE(name, c)                                                                             \
    case name: {                                                                                   \
        c value = word >> 60 < 6 ? (c)small : (c)word;                                             \
        memcpy(item, &value, sizeof value);                                                        \
        break;                                                                                     \
    }
#define REAL(name, c)                                                                              \
    case name: {                                                                                   \
        c value = (c)small + (c)0.5;                                                               \
        memset(item, 0, sizeof value);                                                             \
        memcpy(item, &value, sizeof value);                                                        \
        break;                                                                                     \
    }
#define COMPLEX(name, c)                                                                           \
    case name: {                                                                                   \
        c value = (c)small + (c)other * I;                                                         \
        memcpy(item, &value, sizeof value);                                                        \
        break;                                                                                     \
    }
    switch (type) {
        INTEGER_TYPES(WHOLE)
        REAL_TYPES(REAL)
        COMPLEX_TYPES(COMPLEX)
    }
#undef WHOLE
#undef REAL
#undef COMPLEX
}

/* By value: a long double has bytes that mean nothing. */
static inline bool item_same(const void *a, const void *b, ptl_datatype_t type)
{
#define SAME(name, c)                                                                              \
    case name: {                                                                                   \
        c x, y;                                                                                    \
        memcpy(&x, a, sizeof x);                                                                   \
        memcpy(&y, b, sizeof y);                                                                   \
        return x == y;                                                                             \
    }
    switch (type) {
        ALL_TYPES(SAME)
    }
#undef SAME
    return false;
}

#define ORDERED_CASES                                                                              \
    case PTL_MIN:                                                                                  \
        t = d < t ? d : t;                                                                         \
        break;                                                                                     \
    case PTL_MAX:                                                                                  \
        t = d > t ? d : t;                                                                         \
        break;                                                                                     \
    case PTL_CSWAP_LE:                                                                             \
        t = o <= t ? d : t;                                                                        \
        break;                                                                                     \
    case PTL_CSWAP_LT:                                                                             \
        t = o < t ? d : t;                                                                         \
        break;                                                                                     \
    case PTL_CSWAP_GE:                                                                             \
        t = o >= t ? d : t;                                                                        \
        break;                                                                                     \
    case PTL_CSWAP_GT:                                                                             \
        t = o > t ? d : t;                                                                         \
        break;
#define SWAP_CASES                                                                                 \
    case PTL_SWAP:                                                                                 \
        t = d;                                                                                     \
        break;                                                                                     \
    case PTL_CSWAP:                                                                                \
        t = o == t ? d : t;                                                                        \
        break;                                                                                     \
    case PTL_CSWAP_NE:                                                                             \
        t = o != t ? d : t;                                                                        \
        break;

/* Applies one operation to the item `target`, with the item sent and the operand. */
static inline void item_apply(ptl_op_t op, ptl_datatype_t type, void *target, const void *sent,
                              const void *operand)
{
#define LOAD(c)                                                                                    \
    c t, d, o;                                                                                     \
    memcpy(&t, target, sizeof t);                                                                  \
    memcpy(&d, sent, sizeof d);                                                                    \
    memcpy(&o, operand ? operand : sent, sizeof o);
#define INTEGER(name, c)                                                                           \
    case name: {                                                                                   \
        LOAD(c)                                                                                    \
        switch (op) {                                                                              \
            ORDERED_CASES SWAP_CASES case PTL_SUM : t = (c)((uint64_t)t + (uint64_t)d);            \
            break;                                                                                 \
        case PTL_PROD:                                                                             \
            t = (c)((uint64_t)t * (uint64_t)d);                                                    \
            break;                                                                                 \
        case PTL_LOR:                                                                              \
            t = t || d;                                                                            \
            break;                                                                                 \
        case PTL_LAND:                                                                             \
            t = t && d;                                                                            \
            break;                                                                                 \
        case PTL_LXOR:                                                                             \
            t = !t != !d;                                                                          \
            break;                                                                                 \
        case PTL_BOR:                                                                              \
            t = (c)(t | d);                                                                        \
            break;                                                                                 \
        case PTL_BAND:                                                                             \
            t = (c)(t & d);                                                                        \
            break;                                                                                 \
        case PTL_BXOR:                                                                             \
            t = (c)(t ^ d);                                                                        \
            break;                                                                                 \
        case PTL_MSWAP:                                                                            \
            t = (c)((t & ~o) | (d & o));                                                           \
            break;                                                                                 \
        }                                                                                          \
        memcpy(target, &t, sizeof t);                                                              \
        break;                                                                                     \
    }
#define REAL(name, c)                                                                              \
    case name: {                                                                                   \
        LOAD(c)                                                                                    \
        switch (op) {                                                                              \
            ORDERED_CASES SWAP_CASES case PTL_SUM : t = t + d;                                     \
            break;                                                                                 \
        case PTL_PROD:                                                                             \
            t = t * d;                                                                             \
            break;                                                                                 \
        }                                                                                          \
        memcpy(target, &t, sizeof t);                                                              \
        break;                                                                                     \
    }
#define COMPLEX(name, c)                                                                           \
    case name: {                                                                                   \
        LOAD(c)                                                                                    \
        switch (op) {                                                                              \
            SWAP_CASES case PTL_SUM : t = t + d;                                                   \
            break;                                                                                 \
        case PTL_PROD:                                                                             \
            t = t * d;                                                                             \
            break;                                                                                 \
        }                                                                                          \
        memcpy(target, &t, sizeof t);                                                              \
        break;                                                                                     \
    }
    switch (type) {
        INTEGER_TYPES(INTEGER)
        REAL_TYPES(REAL)
        COMPLEX_TYPES(COMPLEX)
    }
#undef LOAD
#undef INTEGER
#undef REAL
#undef COMPLEX
}

#endif
