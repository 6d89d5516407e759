/*
 * What a stream race says about the use of the buffer that may not be done. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_EARLIER_H
#define CUFENCE_FINDING_EARLIER_H

#include "report_common.h"

/* Says why the use and the call are unordered. */
struct earlier_order {
    char text[192];
};
struct earlier_order earlier_order(const struct earlier_use *use);

/* Returns what the reader may do about it. */
const char *earlier_hint(const struct misuse *misuse);

/* Puts the lines about the use, if the finding has one. */
void earlier_lines(struct report *report, const struct finding *finding);

#endif
