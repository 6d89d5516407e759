/*
 * Unpacks a block of LZ4. Source: lz4_Block_format.md of the LZ4 project.
 * Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_LINES_LZ4_H
#define CUFENCE_ANALYSIS_LINES_LZ4_H

#include "base/reader.h"

/* Writes the `size` bytes that the block holds to `to`. Returns 0 if it is damaged, or holds another number of bytes. */
int lz4_unpack(struct span block, uint8_t *to, uint64_t size);

#endif
