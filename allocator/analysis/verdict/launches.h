/*
 * Which of the launches on record is the one that faulted, and what is known of the kernel's arguments by it.
 * Pure functions over the plain structs of evidence.h, diagnosis.h and snapshot.h; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VERDICT_LAUNCHES_H
#define CUFENCE_ANALYSIS_VERDICT_LAUNCHES_H

#include "diagnosis.h"

/* Whether the launch is of the site's kernel, as far as both know it. */
int launch_is_of_kernel(const struct launch_entry *launch, const struct evidence_site *site);

/* Whether the launch may be the one that faulted: the same kernel, and the same grid, block and arguments where the dump has
 * them. */
int launch_fits(const struct launch_entry *launch, const struct evidence_site *site);

/* How many launches may have been one of the site's kernel: those on record, and one more where a graph on record may have run
 * it. */
size_t launches_of_kernel(const struct fault_memory *memory, const struct evidence_site *site);

/*
 * The newest launch that fits, as certain as this: EXACT if only one does, the dump has its dimensions, and no graph was
 * launched since; DERIVED if only one does, or all come from one place; else CANDIDATE. Where no kernel launch fits, the newest
 * launch of a graph, which may have the kernel in it: CANDIDATE.
 */
struct fault_origin launches_origin(const struct fault_memory *memory, const struct evidence_site *site);

/* The bytes of the dump, or else those of the launches that fit where they agree, and the layout where a launch tells it. */
struct fault_arguments launches_arguments(const struct fault_memory *memory, const struct evidence_site *site,
                                          const struct fault_origin *origin);

/* The argument that holds the whole of an 8-byte word of the parameter bytes, -1 if there is none. *offset is the word's in the
 * argument. */
int launch_argument_of(const struct launch_function *layout, size_t word, uint32_t *offset);

#endif
