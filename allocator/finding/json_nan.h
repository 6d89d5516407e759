/* The part of a finding's JSON that is about a NaN. Pure; any thread. */
#ifndef CUFENCE_FINDING_JSON_NAN_H
#define CUFENCE_FINDING_JSON_NAN_H

#include "finding.h"
#include "json_members.h"

/* Adds "nan" to the report. put_frames adds frames to an object. */
void json_put_nan(struct members report, const struct nan_fact *nan,
                  void (*put_frames)(struct members to, const struct stack_frame *frames, size_t count));

#endif
