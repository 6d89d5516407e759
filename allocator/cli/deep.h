/*
 * The mode `deep` of `cufence hunt`: compute-sanitizer's tools look at the launches that a run has saved, one by one, through
 * `cufence replay --under`. What they find becomes a report of the run (docs/hunt.md).
 *
 * Thread safety: none; one thread does all this.
 */
#ifndef CUFENCE_CLI_DEEP_H
#define CUFENCE_CLI_DEEP_H

#include "hunt.h"

#define DEEP_TOOLS "memcheck racecheck initcheck synccheck"
enum { DEEP_TOOL_COUNT = 4 };

/* Makes the folder for the launches: in that of --keep, else in TMPDIR. Finds compute-sanitizer. Returns 0, or the exit status
 * after a message. */
int deep_open(struct plan *plan);

/* Looks at the launches in the folder, and adds what is found to plan->reports. Fills in run->deep. */
void deep_look(const struct plan *plan, struct signals *signals, struct run *run);

/* Removes the folder, unless it is kept. */
void deep_close(const struct plan *plan);

#endif
