/*
 * Bytes that nobody has written, by two runs that differ in the fill of fresh memory alone: where one state of a buffer has
 * 0x00 and the other 0x4b (HASH_FOLDED), nobody has written; where they differ otherwise, it was computed with such bytes.
 *
 * Thread safety: none; one thread does all this.
 */
#pragma once

#include "collected.h"
#include "compared.h"
#include "uninit_runs.h"

#include "finding/launched.h"

enum { UNINIT_SIDES = 2 };

/* What is known of the launch, from the bundles that the two runs have saved. Close it when the fact is not needed any more. */
struct uninit_pair {
    struct opened opened[UNINIT_SIDES];
    cufence_buffer fresh;
};

/*
 * Fills in the fact, of a launch whose event the two runs have. result: index of the buffer in which the results differ.
 *   folders  with the launch's bundle of each run; NULL, or one that is not there: the events' facts alone
 */
void uninit_take(struct uninit_pair *pair, struct uninit_fact *fact, const struct seen_event events[UNINIT_SIDES],
                 size_t result, char *const folders[UNINIT_SIDES]);
void uninit_close(struct uninit_pair *pair);

/* Adds the finding to the list. */
void uninit_report(struct collected *merged, struct uninit_fact *fact, char *const *command);
