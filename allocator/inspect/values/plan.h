/*
 * What is measured of a launch: for each pointer among its arguments, its bytes as one type. Lies in the visit's memory, so
 * that the same is measured before and after. Thread safety: one thread at a time for a plan.
 */
#pragma once

#include "measure.h"
#include "types.h"

struct plan_item {
    uint32_t reached;       /* index in visit->reached */
    uint32_t before, after; /* offsets in the memory; 0: not looked at */
    uint64_t bytes;
    enum value_type type;
    enum type_from from;
};

struct plan {
    uint32_t count, used; /* items, and bytes of the memory */
    struct plan_item items[];
};

/* Which pointers to look at, and when. */
enum { PLAN_BEFORE = 1, PLAN_AFTER = 2 };
struct plan_rules {
    size_t most_pointers;
    int is_for_nan; /* only floating-point numbers; after the launch, and where there is much, only their NaN and Inf */
    int has_fill;   /* as in measure_submit() */
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
