/*
 * Renders a finding as text: each fact is marked exact, derived or candidate, and unknown facts are omitted. Every line starts
 * with "==pid==". docs/report.md describes the lines. Pure; any thread.
 */
#pragma once

#include "finding.h"

/* Returns malloc'ed text that ends with a newline, or NULL if out of host memory. The caller frees it. */
char *finding_text(const struct finding *finding);

/* The same with escape sequences for a terminal: highlights the answer, the source line and the certainties, and dims the
 * prefix. Ownership as above. */
char *colour_text(const char *text);

/* Returns a workflow command of GitHub Actions, which the host shows at the source line:
 * "::error file=oob.py,line=9,title=cufence%3A overrun::out-of-bounds WRITE ...\n". `folder`: the checkout, which is removed
 * from paths; may be NULL. Ownership as above. */
char *finding_annotation(const struct finding *finding, const char *folder);
