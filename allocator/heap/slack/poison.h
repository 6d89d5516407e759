/*
 * Poison: bytes of a live buffer that nobody may use, such as a free row of a pool of the program's own. No part of a buffer
 * can be unmapped, so the bytes hold 0x7fff in each two: NaN in every floating-point format, and no likely index. A read gives
 * that; a write is found when the bytes are unpoisoned, freed or checked.
 *
 * Filling and checking are launches of the pattern's kernel on the stream that the program names: batches of the slack watch
 * (watch.h), which also collects what they find. A check on another stream than the fill waits for it on the device.
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
uint64_t poison_bytes(uint64_t start, uint64_t end);                   /* how many of these are poisoned */
void poison_is_copied(uint64_t start, uint64_t end, const char *call); /* this call of the host is given them to write */
extern uint64_t poison_unchecked;                                      /* atomic; bytes that were unpoisoned without a check */
void poison_context_gone(const struct context *context);
