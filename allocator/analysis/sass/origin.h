/*
 * Where the address of one thread's access comes from: the pointer that it starts from, what is added to that, and whether a
 * 32-bit number on the way had no room for its value.
 *
 * The thread's path is executed again with one input changed at a time (path.h), so what is told here does not rest on how the
 * compiler has written it. What does not add up to the address is left out. Which buffers these addresses lie in is not known
 * here.
 * Pure. The work is bounded for any code.
 */
#pragma once

#include <stdint.h>

struct emulate_launch;
struct emulate_lane;
struct sass_access;

#define ORIGIN_TERMS 10
#define ORIGIN_WRAPS 2

/* What may be added. */
enum origin_input { ORIGIN_LOADED, ORIGIN_BLOCK, ORIGIN_THREAD, ORIGIN_PARAMETER };

/* Where an instruction is. */
struct origin_place {
    uint64_t code_at; /* its offset in the kernel's code */
    int32_t line;     /* 0: unknown */
    char file[84];
};

/* One input, and what it adds to the address. */
struct origin_term {
    uint32_t input;  /* enum origin_input */
    uint32_t at;     /* the axis, or the offset in the parameters */
    uint64_t value;  /* as it counts: with its sign extended, or not */
    int is_negative; /* it counts as a number with a sign, below 0 */
    uint64_t adds;   /* bytes, modulo 2^64 */
    uint64_t factor; /* `value` times this is what it adds; 0: it does not add a multiple */
    int32_t times;   /* the factor is a multiple of the 4-byte parameter at this offset, -1: of none that is known */
    uint32_t times_value;
    uint64_t from; /* LOADED: the address of these bytes, and: */
    uint32_t bytes;
    struct origin_place place;
};

/* A result that does not fit into its 32 bits, as it is used. */
struct origin_wrap {
    struct origin_place place;
    uint32_t kind; /* enum origin_wrap_kind */
    int64_t a, b, c;
    int64_t exact;    /* what it should be */
    int64_t wrapped;  /* what it counts as */
    uint64_t address; /* of the access, if it were exact */
};
enum origin_wrap_kind {
    ORIGIN_WRAPPED_PRODUCT,
    ORIGIN_WRAPPED_SUM,
    ORIGIN_WRAPPED_SHIFT
}; /* a * b + c; a + b + c; (a << b) + c */

struct origin {
    int is_known;    /* the fields below are valid: the address is the sum of base, terms and constant */
    int has_formula; /* each term adds what it adds, whatever the others are */
    uint64_t address;
    uint64_t base;                          /* the pointer */
    int32_t base_at;                        /* its offset in the parameters, -1: it was loaded from: */
    uint64_t base_from;                     /* this address */
    uint64_t constant;                      /* bytes that are added besides, modulo 2^64 */
    struct origin_term terms[ORIGIN_TERMS]; /* those that add something; what was loaded comes first */
    uint32_t term_count;
    struct origin_wrap wraps[ORIGIN_WRAPS]; /* in the order of the code */
    uint32_t wrap_count;
};

struct origin_access {
    uint64_t code_at, address;
    uint32_t block[3], thread[3];
};

/* Fills in *out, without lines, for the access of `lane` at `address`. Returns out->is_known. */
int origin_find(const struct emulate_launch *launch, const struct emulate_lane *lane, uint64_t access_pc,
                const struct sass_access *access, uint64_t address, struct origin *out);
