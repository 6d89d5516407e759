/*
 * A launch or copy as an event of a trace: with names instead of addresses (names.h).
 * Thread safety: called by the visits' thread alone.
 */
#ifndef CUFENCE_LENS_EVENTS_H
#define CUFENCE_LENS_EVENTS_H

#include "lens/diff/event.h"
#include "hashing.h"

/*
 * Makes the event of a visit. Its number is the launch's in the process. What it points to is valid until the next call;
 * of a launch, buffers[i] is visit->reached[i]. names_note() has seen the visit.
 *   sums   of the hashes before, then of those after; of a copy, after alone. NULL: there are none
 */
struct trace_event events_make(const struct visit *visit, const struct hashing *hashing, const uint64_t *sums);

#endif
