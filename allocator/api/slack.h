/*
 * What the heap finds in the slack of buffers, with the launches that may have written it. Thread safety: any thread.
 */
#ifndef CUFENCE_API_SLACK_H
#define CUFENCE_API_SLACK_H

#include "heap/heap.h"

/* Reports it. Takes milliseconds. */
void slack_report(const struct heap_slack *found);

#endif
