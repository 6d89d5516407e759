/*
 * Renders a finding as text: each fact is marked exact, derived or candidate, and unknown facts are omitted. Every line starts
 * with "==pid==". docs/report.md describes the lines. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_REPORT_H
#define CUFENCE_FINDING_REPORT_H

#include "finding.h"

/* Returns malloc'ed text that ends with a newline, or NULL if out of host memory. The caller frees it. */
char *finding_text(const struct finding *finding);

#endif
