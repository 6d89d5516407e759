/*
 * The figures of what a kernel was given as the member "figures" of the second launch in a snapshot. Pure.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_KEEP_FIGURES_H
#define CUFENCE_ANALYSIS_SNAPSHOT_KEEP_FIGURES_H

#include "analysis/verdict/rerun_result.h"

#include <jansson.h>

/* Returns the array: of each range its address, its bytes, and for each type that may be asked for its figures. */
json_t *figures_put(const struct rerun_result *rerun);

/* Reads it; what is missing or makes no sense is left out. */
void figures_read(const json_t *array, struct rerun_result *rerun);

#endif
