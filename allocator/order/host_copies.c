/* Asynchronous copies from and to page-locked memory (streams=on+host), for as long as the host cannot know that they are done.
 */
#include "order_internal.h"

#include "launch/pinned_memory.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HOST_COPIES 1024u /* at once; the oldest are forgotten */

struct host_copy {
    struct use use; /* start, end: in the host's memory; USE_READ: the device reads it */
    uint64_t hash;  /* of what is read, when the copy was called */
};

int order_is_on, order_host_is_on;
struct order_state *order_state;
struct lock order_lock = LOCK(RANK_ORDER);

/* Under the order lock. */
static struct host_copy copies[HOST_COPIES];
static unsigned count;

/* Four sums beside each other: one multiplication does not wait for the other. */
static uint64_t hash_bytes(const uint8_t *bytes, size_t size)
{
    uint64_t sums[4] = {size, 1, 2, 3}, words[4];
    for (size_t at = 0; at < size; at += sizeof words) {
        if (size - at < sizeof words)
            memset(words, 0, sizeof words);
        memcpy(words, bytes + at, size - at < sizeof words ? size - at : sizeof words);
        for (unsigned i = 0; i < 4; i++) {
            sums[i] = (sums[i] ^ words[i]) * 0x9e3779b97f4a7c15u;
            sums[i] ^= sums[i] >> 29;
        }
    }
    return sums[0] + 3 * sums[1] + 5 * sums[2] + 7 * sums[3];
}

/* Returns 0 if the program has unmapped the memory, which it may have registered and not unregistered. */
static int hash_of(uint64_t start, uint64_t end, uint64_t *hash)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = start & -page;
    lock_expect(RANK_ORDER);
    /* It only looks at what is mapped; as msync() it were a cancellation point. */
    if (syscall(SYS_msync, first, end - first, MS_ASYNC) != 0)
        return 0;
    *hash = hash_bytes((const uint8_t *)(uintptr_t)start, end - start);
    return 1;
}

void order_host_begins(struct order_copy *copy, const void *memory, size_t size, int is_read)
{
    struct pinned pinned;
    uint64_t start = (uint64_t)(uintptr_t)memory, hash = 0;
    if (!copy || copy->is_awaited || !size || !pinned_find(start, &pinned) || pinned.kind != PINNED_HOST ||
        size > pinned.bytes - (start - pinned.address))
        return;
    lock_take(&order_lock);
    int is_known = !is_read || hash_of(start, start + size, &hash);
    lock_release(&order_lock);
    if (is_known)
        copy->host = (struct order_host){start, start + size, hash, is_read};
}

void host_copy_add(const struct order_host *host, const struct use *use)
{
    lock_expect(RANK_ORDER);
    if (count == HOST_COPIES)
        memmove(copies, copies + 1, --count * sizeof *copies);
    struct host_copy *copy = &copies[count++];
    *copy = (struct host_copy){*use, host->hash};
    copy->use.kind = host->is_read ? USE_READ : USE_WRITE;
    copy->use.start = host->start;
    copy->use.end = host->end;
}

static struct host_copy take(unsigned index)
{
    struct host_copy taken = copies[index];
    memmove(copies + index, copies + index + 1, (--count - index) * sizeof *copies);
    return taken;
}

static int is_done(const struct host_copy *copy)
{
    return clocks_is_ordered(&order_state->clocks, copy->use.stream, copy->use.position, ORDER_NOT_TRACKED);
}

static int has_changed(const struct host_copy *copy)
{
    uint64_t hash;
    return copy->use.kind == USE_READ && hash_of(copy->use.start, copy->use.end, &hash) && hash != copy->hash;
}

static int found(const struct host_copy *copy, struct order_race *race)
{
    *race = (struct order_race){
        .address = copy->use.start, .bytes = copy->use.end - copy->use.start, .by_host = 1, .use = copy->use};
    return 1;
}

void host_copies_forget_done(void)
{
    lock_expect(RANK_ORDER);
    for (unsigned i = count; i-- > 0;)
        if (is_done(&copies[i]))
            take(i);
}

int order_host_next_changed(struct order_race *race)
{
    HOLD(&order_lock);
    for (unsigned i = 0; i < count;) {
        if (!is_done(&copies[i])) {
            i++;
            continue;
        }
        const struct host_copy done = take(i);
        if (has_changed(&done) && found(&done, race))
            return 1;
    }
    return 0;
}

int order_host_conflict(uint64_t start, uint64_t size, enum order_host_use by, struct order_race *race)
{
    HOLD(&order_lock);
    for (unsigned i = count; i-- > 0;) {
        const struct host_copy *copy = &copies[i];
        if (copy->use.start >= start + size || copy->use.end <= start || is_done(copy))
            continue;
        if (by != ORDER_HOST_FREES && !(by == ORDER_HOST_READS && copy->use.kind == USE_WRITE) &&
            !(by == ORDER_HOST_COPIES && has_changed(copy)))
            continue;
        const struct host_copy taken = take(i); /* it is said once */
        found(&taken, race);
        return 1;
    }
    return 0;
}

void order_host_forget(uint64_t start, uint64_t size)
{
    HOLD(&order_lock);
    for (unsigned i = count; i-- > 0;)
        if (copies[i].use.start < start + size && copies[i].use.end > start)
            take(i);
}
