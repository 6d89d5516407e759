/*
 * Which launches a user's filter (base/filter.h) chooses: three questions, each of which costs more than the one before, for
 * the three questions of a struct visit_user. Thread safety: any thread.
 */
#ifndef CUFENCE_LENS_CHOSEN_H
#define CUFENCE_LENS_CHOSEN_H

#include "base/filter.h"
#include "visits.h"

/* Whether it may choose launches of the kernel. */
int chosen_function(const struct filter *filter, const struct launch_function *function);

/* Whether it may choose this launch, which the calling thread makes. */
int chosen_number(const struct filter *filter, const struct launch_function *function, uint64_t number);

/* Whether it chooses the launch: a graph's, if it chooses one of its kernels; a copy or set by the name of the driver function,
 * where it comes from, and its thread's label. */
int chosen_visit(const struct filter *filter, const struct visit *visit);

#endif
