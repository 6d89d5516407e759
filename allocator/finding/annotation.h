/*
 * A finding as a workflow command of GitHub Actions, which the host shows at the source line. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_ANNOTATION_H
#define CUFENCE_FINDING_ANNOTATION_H

#include "finding.h"

/* "::error file=oob.py,line=9,title=cufence%3A overrun::out-of-bounds WRITE ...\n". `folder`: the checkout, which paths in it
 * lose; may be NULL. Returns malloc'ed text (the caller frees it), NULL when the host is out of memory. */
char *finding_annotation(const struct finding *finding, const char *folder);

#endif
