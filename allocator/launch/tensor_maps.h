/*
 * The tensor maps that the program has encoded (cuTensorMapEncode*), as far as they are of memory of ours: the newest ones,
 * each with what it describes, the buffer that it was made for, and who made it. A map is recognised by its bytes, wherever
 * they have been copied to.
 *
 * Units: bytes, device addresses. Thread safety: all functions, any thread.
 */
#pragma once

#include "analysis/bundle/snapshot.h"

#include <cuda.h>

#define MAPS_KEPT 512

_Static_assert(sizeof(CUtensorMap) == MAP_BYTES, "the bytes that a map is recognised by");

/* Notes a map; one with the same bytes is replaced. */
void maps_add(const struct tensor_map *map);

/* Finds the map with these bytes. Returns 0 if there is none. */
int maps_find(const void *bytes, struct tensor_map *out);

/* A copy from the host is about to put `size` bytes at the device address `to`: maps among them are at an address from now
 * on, and those that were there are not. */
void maps_copied(uint64_t to, const void *from, size_t size);

extern int maps_are_copied; /* atomic: some map has been */

/* The base of the map that was copied to the address; 0: there is none. */
uint64_t maps_base_at(uint64_t address);

/* Copies the maps, newest first, at most MAPS_KEPT. Returns their number. */
size_t maps_read(struct tensor_map *out);

/* How many were encoded, and how many of them describe more than their buffer. */
struct maps_figures {
    uint64_t encoded, too_large;
};
struct maps_figures maps_figures(void);
