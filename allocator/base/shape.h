/* The dimensions of a launch, and a number. Pure. */
#pragma once

#include <stdint.h>

struct shape {
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* zeros: it has none, or it is not known */
};

/* A member of a struct that has them under their own names, and all together as `shape`. */
#define SHAPE                                                                                                                  \
    union {                                                                                                                    \
        struct {                                                                                                               \
            uint32_t grid[3], block[3], cluster[3];                                                                            \
        };                                                                                                                     \
        struct shape shape;                                                                                                    \
    }

/* A number that is an integer, or not. */
struct scalar {
    double value;
    int64_t whole;
    enum {
        SCALAR_REAL,
        SCALAR_WHOLE,
        SCALAR_HUGE
    } kind; /* HUGE: `whole` without sign is above INT64_MAX, and told as a text */
};
