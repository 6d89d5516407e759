/*
 * What a stream race says about the use of the buffer that may not be done. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_EARLIER_H
#define CUFENCE_FINDING_EARLIER_H

#include "report_common.h"

/* Fills in finding->used, and what the reader may do about it. Requires misuse->earlier. */
void earlier_take(struct finding *finding, const struct misuse *misuse);

/* Puts the lines about the use, if the finding has one. */
void earlier_lines(struct report *report, const struct finding *finding);

#endif
