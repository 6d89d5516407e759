/*
 * The lines of the text report about the launch: where it came from, and what the kernel was given.
 * One thread at a time, as writer.h.
 */
#ifndef CUFENCE_FINDING_REPORT_LAUNCH_H
#define CUFENCE_FINDING_REPORT_LAUNCH_H

#include "writer.h"

/* "argument 2", "argument 2 at byte 16", or "argument word 4" where the layout is not known. */
void report_put_argument(struct report *report, int word);

/* "(8,1,1)" */
void report_put_dim(struct report *report, const uint32_t dim[3]);

/* Who launched the kernel, and from where. */
void report_launch_lines(struct report *report);

/* What the kernel was given, where the layout is known. */
void report_argument_lines(struct report *report);

#endif
