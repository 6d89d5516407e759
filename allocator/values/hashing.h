/*
 * Hashes of the buffers that a launch reaches: each of them once and as a whole, before and after.
 * Thread safety: any thread.
 */
#ifndef CUFENCE_VALUES_HASHING_H
#define CUFENCE_VALUES_HASHING_H

#include "kernels/hash.h"
#include "visits.h"

#define HASHING_RANGES 512 /* most buffers of one launch; of further ones there is no hash */

struct hashing {
    struct hash_range ranges[HASHING_RANGES];
    uint64_t ids[HASHING_RANGES]; /* of the buffers */
    size_t count;
    size_t first_sums[HASHING_RANGES / HASH_RANGES]; /* of each launch of the kernel: the place of its sums among all */
    size_t sums;                                     /* of all launches of the kernel */
};

/* Makes the plan of a visit, the same whenever it is called for it. It is the calling thread's, until the next call. Without host
 * memory there is a plan for nothing. */
const struct hashing *hashing_plan(const struct visit *visit);

/* Submits the hashes of the plan. kernel: the index of HASH_KERNEL among the user's. sums: of hashing->sums words. */
void hashing_submit(const struct hashing *hashing, struct visit_part *part, unsigned kernel, uint64_t *sums);

/* Returns 0 if the buffer has no hash. */
int hashing_result(const struct hashing *hashing, uint64_t id, const uint64_t *sums, uint64_t *hash);

#endif
