/*
 * Poison: bytes of a live buffer that nobody may use, such as a free row of a pool of the program's own. No part of a buffer
 * can be unmapped, so the bytes hold 0x7fff in each two: NaN in every floating-point format, and no likely index. A read gives
 * that; a write is found when the bytes are unpoisoned, freed or checked.
 *
 * Filling and checking are launches of the pattern's kernel on the stream that the program names, and their results come by way
 * of a flight. A check on another stream than the fill waits for it on the device.
 *
 * Until the first poison, all of this costs a free one load. Thread safety: any thread.
 */
#pragma once

#include "heap/heap.h"

/* The contracts are those of cufence_poison() and cufence_unpoison(). range: the live buffer that the bytes are in. last: the
 * calling thread's last launch, as launch_entry.sequence; 0: not known. */
cufence_status poison_begin(const struct heap_range *range, uint64_t start, uint64_t bytes, CUstream stream, uint64_t last);
cufence_status poison_end(const struct heap_range *range, uint64_t start, uint64_t bytes, CUstream stream, uint64_t last);

/* Before a buffer is freed: its poisoned bytes are checked, and poisoned no more. */
void poison_freed(uint64_t address, uint64_t size, struct stream *stream, enum heap_users users);
/* Checks all poisoned bytes of a context that the caller has synchronised. *found grows. Returns 0 if not all could be checked
 * in time. */
int poison_check(const struct context *context, uint64_t until_ms, size_t *found);
/* Reports what checks have found. Returns their number; *is_pending: there are more under way. Not under a lock. */
size_t poison_collect(int *is_pending);
uint64_t poison_bytes(uint64_t start, uint64_t end); /* how many of these are poisoned */
int poison_is_used(void);                            /* something was poisoned once */
extern uint64_t poison_unchecked;                    /* atomic; bytes that were unpoisoned without a check */
void poison_context_gone(struct context *context);
