/*
 * Where copies by tensor maps leave the memory: a site's box, and the map among the kernel's arguments, give an address.
 * Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VERDICT_BOXES_H
#define CUFENCE_ANALYSIS_VERDICT_BOXES_H

#include "analysis/dump/evidence.h"
#include "analysis/snapshot/snapshot.h"

/* Sets the lane's address and the bytes of the access of each site that has a box, if exactly one map explains the fault: to
 * the first row of the box that has a byte outside of the map's buffer; of a freed buffer, to the first row. */
void boxes_place(struct evidence *evidence, const struct fault_memory *memory);

/* Finds the next map that the word at byte `at` of the parameters begins or points to, after `*i` maps were looked at. Returns
 * NULL if there is none. */
const struct tensor_map *boxes_map(const struct fault_memory *memory, const uint8_t *bytes, size_t count, size_t at, size_t *i);

#endif
