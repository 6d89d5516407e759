/*
 * Figures of memory, made by the kernels of kernels/figures.cu: submitted to a stream, and read where they are done.
 *
 * Accuracy: counts, minimum, maximum and hash are exact. Mean and deviation are computed in double precision from the
 * differences to the first element; the order in which they are added up is fixed. They are no finite number where values near
 * the limits of float64 overflow. Thread safety: any thread.
 */
#pragma once

#include "analysis/values/value.h"
#include "inspect/kernels/figures.h"
#include "inspect/visits/visits.h"

/* What a user names as its kernels. */
enum { MEASURE_FIGURES, MEASURE_NANS };
#define MEASURE_KERNELS                                                                                                        \
    {                                                                                                                          \
        FIGURES_KERNEL, NANS_KERNEL                                                                                            \
    }
const char *measure_ptx(void);

struct measured {
    enum value_type type;
    uint64_t count; /* of whole elements */
    uint64_t finite, zeros, nans, infinities, fresh;
    uint64_t first_nan, last_nan; /* indices of elements, if there are any */
    uint64_t least, greatest;     /* bits of these values, if any is finite ... */
    double min, max;              /* ... and what they are */
    double mean, deviation;       /* of the finite values; the deviation is the population's */
    uint64_t hash;                /* of all bytes, whatever the type */
    size_t ends;                  /* number of elements in first[] and in last[] */
    uint8_t first[FIGURES_ENDS], last[FIGURES_ENDS];
};

struct counted {
    uint64_t nans, infinities;
    uint64_t fresh;                     /* elements that hold the fill of fresh memory, see measure_submit() */
    uint64_t first_nan, first_infinity; /* indices of elements, if there are any */
    uint64_t last_nan, last_infinity;
};

/* A piece of memory to look at. */
struct measure_item {
    uint64_t address, bytes; /* bytes > 0 */
    enum value_type type;
    uint8_t *out; /* in the part's memory: as many bytes as the function below says, aligned to 8 */
};

/* kernel: MEASURE_FIGURES or MEASURE_NANS, in these and below. has_fill: with fill=nan; its NaN is then not counted as one. */
size_t measure_bytes(unsigned kernel, uint64_t bytes);
void measure_submit(struct visit_part *part, unsigned kernel, const struct measure_item *items, size_t count, int has_fill);

/* Read what the kernels have written for that many bytes of memory. */
void measure_read(const uint8_t *from, uint64_t bytes, enum value_type type, struct measured *out);
void measure_count(const uint8_t *from, uint64_t bytes, struct counted *out);
