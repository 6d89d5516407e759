/*
 * A finding as text, for people: each fact carries exact, derived or candidate; what is not known is left out. Every line
 * starts with "==pid==". docs/report.md describes the lines. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_REPORT_H
#define CUFENCE_FINDING_REPORT_H

#include "finding.h"

/* Returns malloc'ed text that ends with a newline (the caller frees it), NULL when the host is out of memory. */
char *finding_text(const struct finding *finding);

#endif
