/*
 * Finds the buffers that a kernel's parameter bytes point to.
 * Pure functions on the plain structs of evidence.h and diagnosis.h; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VERDICT_ARGUMENTS_H
#define CUFENCE_ANALYSIS_VERDICT_ARGUMENTS_H

#include "diagnosis.h"

/* Access the kernel's parameter bytes as 8-byte words: the number of complete words, and one of them. */
size_t parameter_words(const struct evidence_site *site);
uint64_t parameter_word(const struct evidence_site *site, size_t index);

/* Returns 1 if the access may use that word, according to the kernel's code, as far as it could be analysed. */
int parameter_may_be_used(const struct evidence_site *site, size_t index);

/* Returns the buffer that a word points into, or to whose end it points; NULL if none. If several buffers have used the
 * place, returns the one of that time (0: any), then the live one, then the newest. */
const cufence_buffer *word_buffer(const struct fault_memory *memory, uint64_t word, uint64_t time_ns);

/* Returns the buffer that word `index` points into, or to whose end it points; NULL if there is none, if the word can't be
 * used by the access, or if an earlier usable word points to the same buffer. If several buffers have used the place,
 * returns the live one, otherwise the newest. */
const cufence_buffer *argument_buffer(const struct fault_memory *memory, const struct evidence_site *site, size_t index);

#endif
