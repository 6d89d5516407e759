/*
 * The explanatory sentences of a finding. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_NOTES_H
#define CUFENCE_FINDING_NOTES_H

#include "finding.h"

/* Fills in `meaning` and `notes`. Requires the other facts of the finding. */
void notes_take(struct finding *finding, const struct diagnosis *diagnosis);

#endif
