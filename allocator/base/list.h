/*
 * Lists that grow one by one, and their order. Thread safety: none.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

/* Makes room for one more element in *list, whose capacity is the first power of two that is not below its count. Returns 0 if
 * out of host memory; the list is then as it was. */
static inline int list_make_room(void *list, size_t count, size_t size)
{
    void *elements;
    if (count & (count - 1))
        return 1;
    memcpy(&elements, list, sizeof elements);
    elements = realloc(elements, (count ? count * 2 : 1) * size);
    if (elements)
        memcpy(list, &elements, sizeof elements);
    return elements != NULL;
}

/* What a comparison says of two numbers; chained by ?:. */
#define LIST_ORDER(a, b) (((a) > (b)) - ((a) < (b)))
