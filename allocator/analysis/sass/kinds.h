/*
 * What kind of numbers a kernel computes with what an access loads or stores, according to the instructions near it: those that
 * first use a loaded register, and the one that makes a stored register. Hints, not proofs: bits may be moved with any of them.
 * Pure.
 */
#ifndef CUFENCE_ANALYSIS_SASS_KINDS_H
#define CUFENCE_ANALYSIS_SASS_KINDS_H

#include "base/image.h"
#include "sass.h"

/* Returns USES_ flags; 0 if nothing near tells. */
unsigned kinds_at(struct span code, uint64_t at, const struct sass_access *access);

#endif
