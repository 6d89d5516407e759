/* What the rerun process says, and what it is answered. For rerun.c; rerun_fail() of rerun.h is here too. */
#ifndef CUFENCE_RERUN_CONVERSE_H
#define CUFENCE_RERUN_CONVERSE_H

#include "rerun.h"

/* Handles one message. Returns 0 at the end of the conversation. */
int rerun_converse(struct rerun *rerun);

/* Notes why no thread was found by emulation. */
void rerun_lose(struct rerun *rerun, const char *why);

/* Whether anything was written where an access faults. */
int rerun_has_left(const struct rerun_result *result);

#endif
