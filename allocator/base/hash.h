/*
 * uthash for a library that may not end its program: an element for which the host has no memory is freed.
 *
 * Thread safety: none.
 */
#pragma once

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1 /* an element that could not be added has hh.tbl == NULL */
#include <uthash.h>

static inline void *hash_kept(void *element, const UT_hash_handle *handle)
{
    if (handle->tbl)
        return element;
    free(element);
    return NULL;
}

/* Behind HASH_ADD: the element, or NULL if it could not be added and is gone. */
#define HASH_KEPT(element) hash_kept(element, &(element)->hh)
