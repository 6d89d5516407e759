/*
 * The results of a second launch as the member "rerun" of a snapshot: everything but the evidence, which is in a dump of its
 * own beside the snapshot. Pure.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_KEEP_RERUN_H
#define CUFENCE_ANALYSIS_SNAPSHOT_KEEP_RERUN_H

#include "analysis/verdict/rerun_result.h"

#include <jansson.h>

/* Returns the object. The launch is named by its index in `memory`, a buffer by its number. */
json_t *rerun_result_put(const struct rerun_result *rerun, const struct fault_memory *memory);

/* Reads it; what is missing or makes no sense is left out. The launch and the buffers are those of `memory`. */
void rerun_result_take(const json_t *object, const struct fault_memory *memory, struct rerun_result *rerun);

#endif
