/*
 * Figures of memory, made by the kernels of kernels/elements.cu: submitted to a stream, and read where they are done. And the
 * plan of what is measured of a launch: for each pointer among its arguments, its bytes as one type. It lies in the visit's
 * memory, so that the same is measured before and after.
 *
 * Accuracy: counts, minimum, maximum and hash are exact. Mean and deviation are computed in double precision from the
 * differences to the first element; the order in which they are added up is fixed. They are no finite number where values near
 * the limits of float64 overflow. Thread safety: any thread; one at a time for a plan.
 */
#pragma once

#include "analysis/values/value.h"
#include "inspect/kernels/elements.h"
#include "inspect/visits/visits.h"
#include "order/order.h"
#include "types.h"

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

/* ---- the plan of a launch ---- */

struct plan_item {
    uint32_t reached;       /* index in visit->reached */
    uint32_t before, after; /* offsets in the memory; 0: not looked at */
    uint64_t bytes;
    enum value_type type;
    enum type_from from;
};

struct plan {
    uint64_t written; /* nan's: bit i: the memory that pointer i leads to was written before the launch */
    uint32_t count;
    struct plan_item items[];
};

/* Which pointers to look at, and when. */
enum { PLAN_BEFORE = 1, PLAN_AFTER = 2 };
struct plan_rules {
    size_t most_pointers; /* at most FIGURES_ITEMS */
    int is_for_nan;       /* only floating-point numbers; after the launch, and where there is much, only their NaN and Inf */
    int has_fill;         /* as in measure_submit() */
    unsigned (*when)(const struct visit *visit, const struct reached *reached); /* PLAN_ flags; NULL: both */
};

/* Makes the plan in `memory` of `size` bytes; with NULL, only returns how many bytes it needs. What does not fit is left out.
 */
size_t plan_make(const struct plan_rules *rules, const struct visit *visit, uint8_t *memory, size_t size);

/* Submits the kernels; when: PLAN_BEFORE or PLAN_AFTER. */
void plan_submit(const struct plan_rules *rules, struct visit_part *part, unsigned when);

/* Which kernel looks at the item then. */
unsigned plan_kernel(const struct plan_rules *rules, const struct plan_item *item, unsigned when);

/* Returns the item of pointer `reached`, NULL if there is none. */
const struct plan_item *plan_find(const uint8_t *results, size_t reached);
