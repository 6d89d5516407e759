/*
 * The handles that are valid now, so that a stale or made-up one is answered with an error and not with a crash, is counted,
 * and with strict=1 ends the process. NULL is no handle, and not counted. Thread safety: any thread; its lock is a leaf.
 */
#ifndef CUFENCE_SIM_HANDLE_H
#define CUFENCE_SIM_HANDLE_H

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
    HANDLE_DESCRIPTION
};

/* `owner` is the context that it goes with, NULL for none. Returns 0, or -1 without memory. */
int handle_add(enum handle_kind kind, void *object, const void *owner);
int handle_is_valid(enum handle_kind kind, const void *object);
/* Returns whether it was valid: of two threads that remove one handle, one gets 1. */
int handle_remove(enum handle_kind kind, const void *object);

/* For objects that outlive their handle: a handle of its own, which the next one of that kind gets once it is closed (unless
 * reuse=0). NULL without memory. */
void *handle_open(enum handle_kind kind, void *object, const void *owner);
/* The object, NULL for a handle that is not valid. */
void *handle_find(enum handle_kind kind, const void *handle);
void handle_close(enum handle_kind kind, void *handle);

/* Memory of an object whose address was its handle: freed, or with reuse=0 kept, so that no other gets the address. */
void handle_free(void *object);

/* A call was given a handle that is not valid, of a kind that is not kept here. */
void handle_is_stale(const char *kind, uint64_t handle);

/* Removes one handle of that kind and owner. Returns its object, or NULL if there is none left. */
void *handle_remove_owned(enum handle_kind kind, const void *owner);

#endif
