/*
 * The handles that are valid now, so that a stale or made-up one is answered with an error and not with a crash.
 * Thread safety: any thread; its lock is a leaf.
 */
#ifndef CUFENCE_SIM_HANDLE_H
#define CUFENCE_SIM_HANDLE_H

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
int handle_add(enum handle_kind kind, const void *object, const void *owner);
int handle_is_valid(enum handle_kind kind, const void *object);
/* Returns whether it was valid: of two threads that remove one handle, one gets 1. */
int handle_remove(enum handle_kind kind, const void *object);
/* Removes one handle of that kind and owner. Returns its object, or NULL if there is none left. */
void *handle_remove_owned(enum handle_kind kind, const void *owner);

#endif
