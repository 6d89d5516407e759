#include "pinned_memory.h"

#include "base/lock.h"

#include <search.h>
#include <stdlib.h>
#include <utlist.h>

struct noted {
    struct noted *next, *prev; /* in the list of all */
    struct pinned memory;      /* of which no two overlap: the driver gives out no memory that it has not got back */
    uint64_t number;
    const struct context *context;
};

static struct lock lock = LOCK(RANK_LEAF); /* a leaf: not held while calling the driver */
static struct noted *entries;              /* all; written under the lock, atomic: a free without such memory takes none */
static void *tree;                         /* of them by address, of the C library; under the lock */
static uint64_t last;                      /* number that was given; under the lock */

/* Memory that overlaps is the same. */
static int order_of(const void *one, const void *other)
{
    const struct pinned *a = &((const struct noted *)one)->memory, *b = &((const struct noted *)other)->memory;
    return a->address + a->bytes <= b->address ? -1 : b->address + b->bytes <= a->address;
}

static struct noted *find(uint64_t address, uint64_t bytes)
{
    const struct noted wanted = {.memory = {.address = address, .bytes = bytes}};
    struct noted *const *node = tfind(&wanted, &tree, order_of);
    return node ? *node : NULL;
}

static void forget(struct noted *entry)
{
    struct noted *first = entries;
    tdelete(entry, &tree, order_of);
    DL_DELETE(first, entry);
    __atomic_store_n(&entries, first, __ATOMIC_RELAXED);
    free(entry);
}

void pinned_add(const struct context *context, uint64_t address, uint64_t bytes, enum pinned_kind kind)
{
    struct noted *made = bytes ? malloc(sizeof *made) : NULL, *freed;
    HOLD(&lock);
    while (bytes && (freed = find(address, bytes)) != NULL) /* pinned_remove() is late */
        forget(freed);
    if (!made)
        return;
    *made = (struct noted){.memory = {address, bytes, kind}, .number = ++last, .context = context};
    if (!tsearch(made, &tree, order_of)) {
        free(made);
        return;
    }
    struct noted *first = entries;
    DL_PREPEND(first, made);
    __atomic_store_n(&entries, first, __ATOMIC_RELAXED);
}

uint64_t pinned_number(uint64_t address)
{
    if (!__atomic_load_n(&entries, __ATOMIC_RELAXED))
        return 0;
    HOLD(&lock);
    const struct noted *entry = find(address, 1);
    return entry && entry->memory.address == address ? entry->number : 0;
}

void pinned_remove(uint64_t address, uint64_t number)
{
    if (!number)
        return;
    HOLD(&lock);
    struct noted *entry = find(address, 1);
    if (entry && entry->number == number)
        forget(entry);
}

void pinned_forget_context(const struct context *context)
{
    struct noted *entry, *next;
    HOLD(&lock);
    DL_FOREACH_SAFE(entries, entry, next)
    {
        if (entry->context == context)
            forget(entry);
    }
}

int pinned_find(uint64_t address, struct pinned *found)
{
    HOLD(&lock);
    const struct noted *entry = find(address, 1);
    if (entry)
        *found = entry->memory;
    return entry != NULL;
}
