/*
 * The buffers that a kernel was given: which words of its parameter bytes point to which.
 * Pure functions over the plain structs of evidence.h and diagnosis.h; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VERDICT_ARGUMENTS_H
#define CUFENCE_ANALYSIS_VERDICT_ARGUMENTS_H

#include "diagnosis.h"

/* The kernel's parameter bytes as 8-byte words: how many whole ones there are, and one of them. */
size_t parameter_words(const struct evidence_site *site);
uint64_t parameter_word(const struct evidence_site *site, size_t index);

/* Whether the access may have gone through that word, by the kernel's code as far as that is understood. */
int parameter_may_be_used(const struct evidence_site *site, size_t index);

/* The buffer that a word points to, into it or to its end; NULL if it points to none. Of several tenants of a place the one of
 * that time (0: any), then the live one, then the newest. */
const cufence_buffer *word_buffer(const struct fault_memory *memory, uint64_t word, uint64_t time_ns);

/* The buffer that word `index`, if it may be used, is the first such to point to, into it or to its end; NULL if it points to
 * none, or to one that a word before it has named. Of several tenants of a place the live one, else the newest. */
const cufence_buffer *argument_buffer(const struct fault_memory *memory, const struct evidence_site *site, size_t index);

#endif
