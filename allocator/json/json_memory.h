/* The memory of what was read. Pure; one thread at a time. */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* Blocks of memory that are freed together: what a table that was read has besides, lists and parts behind pointers. Begins as
 * {NULL}. */
struct json_memory {
    void *first;
    json_t *json; /* what it was read from, for those who want that freed with it; else NULL */
};
/* Returns zeroed memory for `count` elements, aligned for any type; NULL if out of host memory. */
void *json_take(struct json_memory *memory, size_t count, size_t size);
void json_memory_free(struct json_memory *memory);
