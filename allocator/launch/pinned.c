#include "pinned.h"

#include "base/lock.h"

#include <stdlib.h>

struct entry {
    struct entry *next;
    struct pinned memory;
    uint64_t number;
    const struct context *context;
};

static struct lock lock = LOCK(RANK_LEAF); /* a leaf: not held while calling the driver */
static struct entry *entries; /* the newest first; written under the lock, atomic: a free without such memory takes none */
static uint64_t last;         /* number that was given; under the lock */

void pinned_add(const struct context *context, uint64_t address, uint64_t bytes, enum pinned_kind kind)
{
    struct entry *made = malloc(sizeof *made);
    HOLD(&lock);
    if (!made)
        return;
    *made = (struct entry){entries, {address, bytes, kind}, ++last, context};
    __atomic_store_n(&entries, made, __ATOMIC_RELAXED);
}

uint64_t pinned_number(uint64_t address)
{
    if (!__atomic_load_n(&entries, __ATOMIC_RELAXED))
        return 0;
    HOLD(&lock);
    for (const struct entry *entry = entries; entry; entry = entry->next)
        if (entry->memory.address == address)
            return entry->number;
    return 0;
}

/* Forgets the memory of that number; of number 0 all of the context. */
static void forget(uint64_t number, const struct context *context)
{
    HOLD(&lock);
    for (struct entry **at = &entries, *entry; (entry = *at) != NULL;) {
        if (number ? entry->number != number : entry->context != context) {
            at = &entry->next;
            continue;
        }
        __atomic_store_n(at, entry->next, __ATOMIC_RELAXED);
        free(entry);
    }
}

void pinned_remove(uint64_t number)
{
    if (number)
        forget(number, NULL);
}

void pinned_forget_context(const struct context *context)
{
    forget(0, context);
}

int pinned_find(uint64_t address, struct pinned *found)
{
    HOLD(&lock);
    for (const struct entry *entry = entries; entry; entry = entry->next) {
        if (address - entry->memory.address >= entry->memory.bytes)
            continue;
        *found = entry->memory;
        return 1;
    }
    return 0;
}
