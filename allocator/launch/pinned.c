#include "pinned.h"

#include "base/lock.h"

#include <stdlib.h>

#define FIRST_ROOM 64

struct entry {
    struct pinned memory;
    uint64_t number;
    const struct context *context;
};

static struct lock lock = LOCK(RANK_LEAF); /* a leaf: not held while calling the driver */
static struct entry *entries;              /* in no order; all of this under the lock */
static size_t count;                       /* atomic, so that a free without such memory takes no lock */
static size_t room;
static uint64_t last; /* number that was given */

static void set_count(size_t new)
{
    __atomic_store_n(&count, new, __ATOMIC_RELAXED);
}

static int make_room(void)
{
    if (count < room)
        return 1;
    size_t larger = room ? 2 * room : FIRST_ROOM;
    struct entry *grown = realloc(entries, larger * sizeof *grown);
    if (!grown)
        return 0;
    entries = grown;
    room = larger;
    return 1;
}

void pinned_add(const struct context *context, uint64_t address, uint64_t bytes, enum pinned_kind kind)
{
    HOLD(&lock);
    if (make_room()) {
        entries[count] = (struct entry){{address, bytes, kind}, ++last, context};
        set_count(count + 1);
    }
}

uint64_t pinned_number(uint64_t address)
{
    if (!__atomic_load_n(&count, __ATOMIC_RELAXED))
        return 0;
    HOLD(&lock);
    for (size_t i = 0; i < count; i++)
        if (entries[i].memory.address == address)
            return entries[i].number;
    return 0;
}

void pinned_remove(uint64_t number)
{
    if (!number)
        return;
    HOLD(&lock);
    for (size_t i = 0; i < count; i++)
        if (entries[i].number == number) {
            entries[i] = entries[count - 1];
            set_count(count - 1);
            break;
        }
}

void pinned_forget_context(const struct context *context)
{
    HOLD(&lock);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (entries[i].context != context)
            entries[kept++] = entries[i];
    set_count(kept);
}

int pinned_find(uint64_t address, struct pinned *found)
{
    HOLD(&lock);
    for (size_t i = 0; i < count; i++) {
        if (address - entries[i].memory.address >= entries[i].memory.bytes)
            continue;
        *found = entries[i].memory;
        return 1;
    }
    return 0;
}
