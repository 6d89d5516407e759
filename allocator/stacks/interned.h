/*
 * Stacks of Python frames, kept once each, for as long as the process lives, as a number. Knows nothing of the interpreter:
 * whoever finds a new stack describes its frames.
 *
 * Thread safety: every function, from any thread. interned_find() takes no lock; interned_add() takes one, a leaf but for the
 * allocator of host memory, and calls `describe` under it.
 */
#ifndef CUFENCE_STACKS_INTERNED_H
#define CUFENCE_STACKS_INTERNED_H

#include "stack.h"

#define INTERNED_DEPTH 16        /* frames of a stack that are looked at, the innermost */
#define INTERNED_STACKS 65534    /* kept at most: 0.5 KiB each at the deepest */
#define INTERNED_CODES 32768     /* kept at most: 64 bytes and their texts each */
#define INTERNED_FULL UINT16_MAX /* the number of every stack that comes after the last one that is kept */

/* Which code object it is: its address, where its parts lie, and `texts`, which changes with the contents of filename and name.
 * Programs that compile code and drop it get the same addresses again and again, all of them, so those alone do not tell. */
struct interned_identity {
    uint64_t code, filename, name, linetable, first_line, texts;
};

struct interned_frame {
    struct interned_identity identity;
    int64_t position; /* of the instruction */
};

/* What a frame reads like. The texts are copied. */
struct interned_text {
    char function[160], file[256];
    int line;
};
typedef void (*interned_describe)(const struct interned_frame *frame, struct interned_text *out);

/* The number of a stack that is kept, 0 if it is new. `count` frames, at most INTERNED_DEPTH, innermost first. */
uint32_t interned_find(const struct interned_frame *frames, size_t count);

/* The same; a new stack is described and kept. 0 without frames or without host memory. */
uint32_t interned_add(const struct interned_frame *frames, size_t count, interned_describe describe);

/* The readable frames, innermost first; of INTERNED_FULL one that says so. Returns how many, at most `max`; 0 for a number that
 * was not given out. */
size_t interned_read(uint32_t number, struct stack_frame *out, size_t max);

#endif
