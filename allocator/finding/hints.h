/*
 * Suggests what a reader may try first, with rules that recognise common bugs from a finding's facts. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_HINTS_H
#define CUFENCE_FINDING_HINTS_H

#include "finding.h"

/* Fills in finding->hint if a rule applies. Requires the finding's other facts. */
void hint_take(struct finding *finding, const struct diagnosis *diagnosis);

#endif
