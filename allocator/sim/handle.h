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
    HANDLE_TEXTURE /* or surface */
};

/* Returns a zeroed object, whose address is its handle. `owner` is the context that the handle ends with, or NULL. */
void *handle_create(enum handle_kind kind, size_t size, const void *owner);
/* Returns whether it was valid. If two threads remove the same handle, only one gets 1. */
int handle_remove(enum handle_kind kind, const void *object);

/* For objects that outlive their handle: creates a separate handle. Once closed, it is reused for the next object of that kind
 * (unless reuse=0). */
void *handle_open(enum handle_kind kind, void *object, const void *owner);
/* Returns the object, NULL if the handle is not valid. */
void *handle_find(enum handle_kind kind, const void *handle);
#define handle_is_valid(kind, handle) (handle_find(kind, handle) != NULL)
void handle_close(enum handle_kind kind, void *handle);

/* Frees the memory of an object whose address was its handle. With reuse=0 keeps it, so that the address is not reused. */
void handle_free(void *object);

/* Counts an invalid handle of a kind that is not registered here. */
void handle_is_stale(uint64_t handle);

/* Removes one handle of that kind and owner. Returns its object, or NULL if there is none left. */
void *handle_remove_owned(enum handle_kind kind, const void *owner);
