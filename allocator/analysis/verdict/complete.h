/*
 * Completes addresses of which the dump has only one half, with the help of the kernel's arguments: a low half occurs once in
 * each 4 GiB of address space, and so at most once near most buffers.
 * Pure functions on the plain structs of evidence.h and diagnosis.h; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VERDICT_COMPLETE_H
#define CUFENCE_ANALYSIS_VERDICT_COMPLETE_H

#include "diagnosis.h"

struct completion {
    const cufence_buffer *buffer; /* an argument whose span contains all addresses of the place; NULL if unknown */
    int is_only;                  /* no other argument's span contains them */
};

/*
 * Finds the buffer that the low halves at the site's place belong to. The place is all alive warps of the site's grid that
 * faulted at its PC. An argument explains the low halves if each lane has exactly one address with its low half in the buffer's
 * span, guards included; complete addresses and known high halves are consistent with the span; and at least one access is not
 * entirely in mapped memory. The addresses are determined if an argument explains them, and all arguments that do give the same
 * addresses.
 */
struct completion complete_place(const struct evidence *evidence, const struct fault_memory *memory,
                                 const struct evidence_site *site);

/* Returns 1 if `other` is an alive warp that faulted at the site's place. */
int complete_is_place(const struct evidence_site *other, const struct evidence_site *site);

/* Returns a copy of the lane, with the complete address and certainty DERIVED if its low half is known. Requires
 * completion->buffer. */
struct evidence_lane complete_lane(const struct completion *completion, const struct evidence_lane *lane);

/* Returns 1 if the known high halves of the site's addresses allow an access near `buffer`. Sets *is_asked if there are any. */
int complete_allows(const struct evidence_site *site, const cufence_buffer *buffer, int *is_asked);

#endif
