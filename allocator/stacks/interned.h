/*
 * Stacks of Python frames, kept once each, for as long as the process lives, as a number. Knows nothing of the interpreter:
 * whoever finds a new stack describes its frames.
 *
 * A stack is found again by a hash of 64 bits alone: the sum of the products of each frame's two words, with a constant of its
 * own added to each (NH of Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message Authentication", 1999),
 * 128 bits folded. With as many stacks as are kept at most, the odds that any two of them share one are 1 in 8 billion.
 *
 * Thread safety: every function, from any thread. interned_find() takes no lock; interned_add() takes one, a leaf but for the
 * allocator of host memory, and calls `describe` under it.
 */
#ifndef CUFENCE_STACKS_INTERNED_H
#define CUFENCE_STACKS_INTERNED_H

#include "stack.h"

#define INTERNED_DEPTH STACK_READ
#define INTERNED_STACKS 65534    /* kept at most: 0.4 KiB each at the deepest */
#define INTERNED_CODES 32768     /* kept at most: 88 bytes and their texts each */
#define INTERNED_FULL UINT16_MAX /* the number of every stack that comes after the last one that is kept */

struct interned_code {
    uint64_t address;  /* of the code object */
    uint64_t identity; /* tells it from any other one that is there at another time */
};

struct interned_frame {
    struct interned_code code;
    uint64_t instruction; /* of which code object, and where in it */
};

/* On the way to a hash. All zero: no frame yet. */
struct interned_sum {
    unsigned __int128 products;
    size_t count;
};
extern const uint64_t interned_keys[2 * INTERNED_DEPTH];

/* What a frame reads like. The texts are copied. */
struct interned_text {
    char function[160], file[256];
    int line;
};
typedef void (*interned_describe)(const struct interned_frame *frame, struct interned_text *out);

/* Innermost first, at most INTERNED_DEPTH. */
static inline void interned_mix(struct interned_sum *sum, const struct interned_frame *frame)
{
    const uint64_t *keys = &interned_keys[2 * sum->count++];
    sum->products += (unsigned __int128)(frame->instruction + keys[0]) * (frame->code.identity + keys[1]);
}

/* 0 without frames, and only then. */
static inline uint64_t interned_hash(const struct interned_sum *sum)
{
    uint64_t high = (uint64_t)(sum->products >> 64), hash = ((uint64_t)sum->products + sum->count) ^ high * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    return sum->count && !hash ? 1 : hash;
}

/* A stack that is kept. All zero: none. */
struct interned_stack {
    uint32_t number;
    uint32_t readable; /* frames that interned_read() knows */
};

/* The stack with that hash, if it is kept. */
struct interned_stack interned_find(uint64_t hash);

/* The stack with those frames, at most INTERNED_DEPTH, innermost first; a new one is described and kept. None without frames or
 * without host memory. */
struct interned_stack interned_add(const struct interned_frame *frames, size_t count, interned_describe describe);

/* The readable frames, innermost first; of INTERNED_FULL one that says so. Returns how many, at most `max`; 0 for a number that
 * was not given out. */
size_t interned_read(uint32_t number, struct stack_frame *out, size_t max);

#endif
