/*
 * The lines for the bytes that the second launch of a kernel wrote out of bounds. Thread safety: like writer.h.
 */
#ifndef CUFENCE_FINDING_WRITTEN_H
#define CUFENCE_FINDING_WRITTEN_H

#include "finding.h"
#include "writer.h"

/* Puts a line for each of the first ranges, with the first values in the width of the access. Requires finding->rerun. */
/* Whether the bytes look like values of that width, and these: ": 1.0 2.0 ...". */
int written_fits(const struct rerun_write *write, uint64_t width);
void written_put_values(struct report *report, const struct rerun_write *write, uint64_t width);

void written_lines(struct report *report, const struct finding *finding);

#endif
