/*
 * Recognises overruns in two-dimensional indexing from the kernel's integer arguments and from which thread faulted: a row too
 * many, and the stride of another shape. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_HINTS_SHAPE_H
#define CUFENCE_FINDING_HINTS_SHAPE_H

#include "finding.h"

/* An access to element `index` of a buffer that has `elements`. Both return whether they have filled in finding->hint. */
int hint_take_row(struct finding *finding, uint64_t index, uint64_t elements);
int hint_take_stride(struct finding *finding, uint64_t index, uint64_t elements);

#endif
