/*
 * What a reader may try first: rules that recognise common bugs from a finding's facts. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_HINTS_H
#define CUFENCE_FINDING_HINTS_H

#include "finding.h"

/* Fills in finding->hint where a rule knows one. Requires the finding's other facts. */
void hint_take(struct finding *finding, const struct diagnosis *diagnosis);

#endif
