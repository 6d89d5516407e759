/*
 * Stacks of Python frames, or of native ones. Each is stored once, for the life of the process, and named by a number. Knows
 * nothing about the interpreter: the caller describes the frames of a new stack.
 *
 * A stack is looked up by a 64-bit hash alone. Each frame is two words. A different constant is added to each, the two are
 * multiplied, and the products are summed (NH of Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message
 * Authentication", 1999); then 128 bits are folded to 64. With the maximum number of stacks, the odds that any two share a hash
 * are 1 in 8 billion.
 *
 * Thread safety: every function, from any thread. interned_find() takes no lock. interned_add() takes one and calls `describe`
 * under it; it is a leaf except for the host allocator.
 */
#pragma once

#include "native.h"

#define INTERNED_DEPTH STACK_READ
#define INTERNED_STACKS 65534    /* maximum; up to 0.4 KiB each */
#define INTERNED_CODES 32768     /* maximum; 96 bytes each, plus their text */
#define INTERNED_FULL UINT16_MAX /* the number of every stack that did not fit any more */

struct interned_code {
    uint64_t address;  /* of the code object */
    uint64_t identity; /* distinguishes it from other code objects at the same address at other times */
};

struct interned_frame {
    struct interned_code code;
    uint64_t instruction; /* identifies the code object and the position in it */
};

/* A hash under construction. All zero: no frame yet. */
struct interned_sum {
    unsigned __int128 products;
    size_t count;
};
extern const uint64_t interned_keys[2 * INTERNED_DEPTH];

/* A frame in readable form. The texts are copied. Of a native one, whose name is found when it is read: the file and the offset
 * of its module. */
struct interned_text {
    char function[160], file[256];
    int line;
    uint64_t offset; /* not 0: it is native */
};
typedef void (*interned_describe)(const struct interned_frame *frame, struct interned_text *out);

/* Adds a frame. Call innermost first, at most INTERNED_DEPTH times. */
static inline void interned_mix(struct interned_sum *sum, const struct interned_frame *frame)
{
    const uint64_t *keys = &interned_keys[2 * sum->count++];
    sum->products += (unsigned __int128)(frame->instruction + keys[0]) * (frame->code.identity + keys[1]);
}

/* Returns 0 if and only if there are no frames. */
static inline uint64_t interned_hash(const struct interned_sum *sum)
{
    uint64_t high = (uint64_t)(sum->products >> 64), hash = ((uint64_t)sum->products + sum->count) ^ high * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    return sum->count && !hash ? 1 : hash;
}

/* A stored stack. All zero: none. */
struct interned_stack {
    uint32_t number;
    uint32_t readable; /* frames that interned_read() returns */
};

/* Returns the stack with that hash, if it is stored. */
struct interned_stack interned_find(uint64_t hash);

/* Returns the stack with those frames (at most INTERNED_DEPTH, innermost first). A new one is described and stored. None if
 * there are no frames, or out of host memory. */
struct interned_stack interned_add(const struct interned_frame *frames, size_t count, interned_describe describe);

/* Reads the readable frames, innermost first; for INTERNED_FULL, one frame that says so. Returns their number, at most `max`; 0
 * for an unknown number, and for a stack of native frames. */
size_t interned_read(uint32_t number, struct stack_frame *out, size_t max);

/* Gets the frames of a native stack, innermost first. The paths stay valid. Returns their number, at most `max`; 0 for other
 * stacks. */
size_t interned_read_native(uint32_t number, struct native_place *out, size_t max);
