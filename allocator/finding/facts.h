/*
 * The facts of a finding as records: what is in its JSON, in which order and under which names (docs/json.md). A reader of the
 * JSON fills in a struct finding with them. Pure.
 */
#ifndef CUFENCE_FINDING_FACTS_H
#define CUFENCE_FINDING_FACTS_H

#include "finding.h"

extern const struct record finding_facts;   /* struct finding */
extern const struct record process_facts;   /* struct finding_origin */
extern const struct record frame_facts;     /* struct stack_frame */
extern const char *const certainty_words[]; /* of enum certainty; "" for CERTAIN_NOT */

#endif
