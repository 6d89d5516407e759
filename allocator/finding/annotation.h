/*
 * Renders a finding as a workflow command of GitHub Actions, which the host shows at the source line. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_ANNOTATION_H
#define CUFENCE_FINDING_ANNOTATION_H

#include "finding.h"

/* Returns "::error file=oob.py,line=9,title=cufence%3A overrun::out-of-bounds WRITE ...\n" as malloc'ed text (the caller
 * frees it), NULL if out of host memory. `folder`: the checkout, which is removed from paths; may be NULL. */
char *finding_annotation(const struct finding *finding, const char *folder);

#endif
