/*
 * Addresses of which the dump has kept one half, and what the kernel was given: a low half lies at one place in each 4 GiB of
 * address space, and so at one place, or at none, near most buffers.
 * Pure functions over the plain structs of evidence.h and diagnosis.h; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VERDICT_COMPLETE_H
#define CUFENCE_ANALYSIS_VERDICT_COMPLETE_H

#include "diagnosis.h"

struct completion {
    const cufence_buffer *buffer; /* an argument whose span holds all addresses of the place; NULL if they cannot be told */
    int is_only;                  /* no other argument's span holds them */
};

/*
 * What the low halves at the site's place (those of all alive warps of its grid that faulted at its PC) belong to. An argument
 * explains them if each lane has exactly one address with its low half in the buffer's span, guards included, addresses and
 * high halves that are known agree with the span, and at least one access is not wholly in mapped memory. The addresses can be
 * told if an argument explains them, and all that do say the same ones.
 */
struct completion complete_place(const struct evidence *evidence, const struct fault_memory *memory,
                                 const struct evidence_site *site);

/* Whether `other` is an alive warp that faulted at the site's place. */
int complete_is_place(const struct evidence_site *other, const struct evidence_site *site);

/* A copy of the lane; where its low half is known, with its whole address, as certain as DERIVED. completion->buffer is set. */
struct evidence_lane complete_lane(const struct completion *completion, const struct evidence_lane *lane);

/* Whether the high halves that are known of the site's addresses allow an access near `buffer`. Sets *is_asked if there are
 * any. */
int complete_allows(const struct evidence_site *site, const cufence_buffer *buffer, int *is_asked);

#endif
