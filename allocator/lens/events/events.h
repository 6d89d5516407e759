/*
 * A launch or copy as an event, with names instead of addresses (names.h), and with hashes of the buffers that it
 * reaches: each of them once and as a whole, before and after. Of a copy: of the bytes that it has written, and of those that
 * it has read.
 */
#pragma once

#include "lens/fills/event.h"
#include "lens/kernels/hash.h"
#include "lens/visits/visits.h"

/* ---- hashing.c; any thread ---- */

enum {
    HASHING_RANGES = 512, /* most buffers of one launch; of further ones there is no hash */
    HASHING_KINDS = 2     /* of hashes: plain, and folded, whose sums follow the others */
};

struct hashing {
    struct hash_range ranges[HASHING_RANGES];
    uint64_t keys[HASHING_RANGES]; /* of a launch: the buffers' numbers; of a copy: the places in what it reaches */
    size_t count;
    size_t first_sums[HASHING_RANGES / HASH_RANGES]; /* of each launch of the kernel: the place of its sums among all */
    size_t sums;                                     /* of all launches of the kernel */
};

/* Makes the plan of a visit, the same whenever it is called for it. It is the calling thread's, until the next call. Without
 * host memory there is a plan for nothing. */
const struct hashing *hashing_plan(const struct visit *visit);

/* Submits the hashes of the plan. kernel: the index of HASH_KERNEL among the user's. sums: of
 * hashing->sums * HASHING_KINDS words. */
void hashing_submit(const struct hashing *hashing, struct visit_part *part, unsigned kernel, uint64_t *sums);

/* Gets the hash of what visit->reached[index] leads to, or its folded hash. Returns 0 if there is none. */
int hashing_result(const struct hashing *hashing, const struct visit *visit, size_t index, const uint64_t *sums, int is_folded,
                   uint64_t *hash);

/* ---- events.c; called by the visits' thread alone ---- */

/*
 * Makes the event of a visit. Its number is the launch's in the process. What it points to is valid until the next call;
 * of a launch, buffers[i] is visit->reached[i]. names_note() has seen the visit.
 *   sums   of the hashes before, then of those after; of a copy, after alone. NULL: there are none
 */
struct seen_event events_make(const struct visit *visit, const struct hashing *hashing, const uint64_t *sums);
