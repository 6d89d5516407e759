/*
 * Recognises repetitions of a finding. A kernel fault is identified by its kind, its instruction and the place where the buffer
 * was allocated; a misuse by its kind, its caller and that place. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_IDENTITY_H
#define CUFENCE_FINDING_IDENTITY_H

#include "slack.h"
#include "misuse.h"
#include "nan.h"

/* Return the identity: equal for the same finding, different for others except by chance (64 bits); never 0. */
uint64_t identity_of_fault(const struct diagnosis *diagnosis);
uint64_t identity_of_slack(const struct slack_write *write);
uint64_t identity_of_misuse(const struct misuse *misuse);
uint64_t identity_of_leak(const cufence_buffer *buffer); /* any one of the place */
uint64_t identity_of_nan(const struct nan_fact *nan);    /* of the kernel, the place of its launch, and the argument */

#endif
