/*
 * What the buffers held that a kernel was given. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_FIGURES_H
#define CUFENCE_FINDING_FIGURES_H

#include "finding.h"
#include "writer.h"

/* Adds to each pointer among the kernel's arguments the figures of what it points to, and chooses the elements' type.
 * layout: of the arguments, NULL if unknown. */
void figures_take(struct finding *finding, const struct launch_function *layout);

/* Puts them under the argument; nothing if there are none. */
void figures_lines(struct report *report, const struct value_fact *value);

/* Of elements that were looked at; `index`: of one of the first. */
#define FIGURES_FIRST 4
uint64_t figures_bits(const struct value_fact *value, size_t index);
size_t figures_first_count(const struct value_fact *value); /* how many of these there are */

#endif
