/*
 * Which part of a mapping was the buffer's when a kernel was launched: the rest is slack, where a write is out of bounds though
 * it does not fault. Thread safety:
 * any thread.
 */
#ifndef CUFENCE_WITNESS_BOUNDS_H
#define CUFENCE_WITNESS_BOUNDS_H

#include "analysis/snapshot/rerun_launch.h"
#include "surroundings.h"

/* Finds the buffer whose mapping contains the address: the live one, or else the newest of those that were freed. Returns 0 if
 * there is none. */
int bounds_find(uint64_t address, cufence_buffer *found);

/* Returns 1 if the buffer, now the newest in its memory, had it at each of the launches. The host runs ahead of the device: it
 * may have freed the buffer that a launch was given, and another one has the memory since. recorded: NULL where a launch is not
 * on record; then the answer is 0. */
int bounds_are_sure(const cufence_buffer *buffer, const struct rerun_launch *launches,
                    const struct fault_launch *const *recorded, size_t count);

#endif
