/*
 * The handles that are valid now. A stale or invalid handle gets an error instead of a crash, is counted, and with strict=1
 * ends the process. NULL is not a handle and not counted. Thread safety: any thread; its lock is a leaf.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum handle_kind {
    HANDLE_STREAM = 1,
    HANDLE_EVENT,
    HANDLE_GRAPH,
    HANDLE_GRAPH_EXEC,
    HANDLE_MODULE,
    HANDLE_LIBRARY,
    HANDLE_USER_OBJECT,
    HANDLE_GREEN,
    HANDLE_DESCRIPTION,
    HANDLE_ARRAY,
    HANDLE_TEXTURE, /* or surface */
    HANDLE_POOL,
    HANDLE_MEMORY,
    HANDLE_FUNCTION,
    HANDLE_KINDS
};

/* Returns a zeroed object, whose address is its handle. `owner` is the context that the handle ends with, or NULL. All objects
 * of a kind have the same size. */
void *handle_create(enum handle_kind kind, size_t size, const void *owner);
int handle_is_valid(enum handle_kind kind, const void *object);
/* Returns whether it was valid. If two threads remove the same handle, only one gets 1. */
int handle_remove(enum handle_kind kind, const void *object);
/* Gives an object whose handle was removed to the next one of its kind; with reuse=0 keeps it, so that its address is not
 * reused. */
void handle_free(enum handle_kind kind, void *object);
/* Removes and frees all that end with a context. */
void handle_free_owned(const void *owner);

/* Counts an invalid handle of a kind that is not registered here. */
void handle_is_stale(uint64_t handle);
