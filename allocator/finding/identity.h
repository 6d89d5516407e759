/*
 * Recognises a finding: a repetition of it in the process, by a number, and the same one in another run, by a name. A kernel
 * fault is identified by its kind, its instruction and the place where the buffer was allocated; a misuse by its kind, its
 * caller and that place. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_IDENTITY_H
#define CUFENCE_FINDING_IDENTITY_H

#include "finding.h"

/* Return the identity: equal for the same finding, different for others except by chance (64 bits); never 0. */
uint64_t identity_of_fault(const struct diagnosis *diagnosis);
uint64_t identity_of_slack(const struct slack_write *write);
uint64_t identity_of_misuse(const struct misuse *misuse);
uint64_t identity_of_leak(const cufence_buffer *buffer); /* any one of the place */
uint64_t identity_of_nan(const struct nan_fact *nan);    /* of the kernel, the place of its launch, and the argument */

/*
 * Writes the name that a finding has in each run of a program, until its code is moved to another function or file: kind, file
 * without its folders, kernel or function; "overrun at oob.py in k_oob". Without a line, which changes with each edit above it.
 * What has no place of its own has that of the buffer's allocation: "slack write next to a buffer from model.py in forward".
 */
void finding_name(const struct finding *finding, char *out, size_t size);

#endif
