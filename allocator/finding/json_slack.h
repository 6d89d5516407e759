/* The JSON of what was found in the slack of a buffer. Pure; any thread. */
#ifndef CUFENCE_FINDING_JSON_SLACK_H
#define CUFENCE_FINDING_JSON_SLACK_H

#include "json_members.h"
#include "slack.h"

/* Adds the member "slack". put_frames: adds the frames of a launch to it. */
void json_put_slack(struct members report, const struct slack_write *write,
                    void (*put_frames)(struct members to, const struct stack_frame *from, size_t count));

#endif
