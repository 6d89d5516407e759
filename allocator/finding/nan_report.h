/* The parts of a report that are about a NaN. Pure; one thread at a time. */
#ifndef CUFENCE_FINDING_NAN_REPORT_H
#define CUFENCE_FINDING_NAN_REPORT_H

#include "finding.h"
#include "writer.h"

/* Puts the kernel and its launch, and the inputs. */
void nan_launch_lines(struct report *report, const struct finding *finding);
void nan_input_lines(struct report *report, const struct finding *finding);

#endif
