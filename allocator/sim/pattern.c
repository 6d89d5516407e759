/* The host twins of cufence's own kernels in allocator/kernels/pattern.cu: the first thread of a block does it all. */
#include "call.h"
#include "config.h"
#include "kernel.h"

#include <string.h>
#include <unistd.h>

enum { CHECK = 1, RENEW = 2, WRITE = 4, GOOD = 1, BAD = 2, FOUND = 64 };

struct range {
    uint64_t start, end;
};

struct found {
    uint64_t first, last;
    uint32_t count, unused;
    uint8_t bytes[FOUND];
};

struct job {
    struct range check[2], write[2];
    uint32_t does, unused;
    struct found found[2];
};

/* The address is a multiple of eight. */
static uint64_t word_of(uint64_t address)
{
    uint64_t mixed = address * UINT64_C(0x9e3779b97f4a7c15);
    return ((mixed ^ mixed >> 29) & UINT64_C(0x3f3f3f3f3f3f3f3f)) + UINT64_C(0xa1a1a1a1a1a1a1a1);
}

static uint8_t pattern_of(uint64_t address)
{
    return (uint8_t)(word_of(address & ~UINT64_C(7)) >> 8 * (address & 7));
}

static void put(struct range in)
{
    for (uint64_t at = in.start; at < in.end; at++)
        *(volatile uint8_t *)(uintptr_t)at = pattern_of(at);
}

static int check(struct range in, struct found *out)
{
    uint32_t count = 0;
    for (uint64_t at = in.start; at < in.end; at++) {
        if (*(const volatile uint8_t *)(uintptr_t)at == pattern_of(at))
            continue;
        if (!count++)
            out->first = at;
        out->last = at;
    }
    out->count = count;
    for (uint64_t i = 0; count && i < FOUND && out->first + i < in.end; i++)
        out->bytes[i] = *(const volatile uint8_t *)(uintptr_t)(out->first + i);
    return count != 0;
}

static const uint32_t *room; /* atomic */

SIM_API void cusim_hold_own(const uint32_t *flag)
{
    __atomic_store_n(&room, flag, __ATOMIC_RELEASE);
}

/* Also, one launch in eight, by another part of the limit each time. */
static void be_late(void)
{
    static uint32_t launches; /* atomic */
    const uint32_t *flag = __atomic_load_n(&room, __ATOMIC_ACQUIRE);
    unsigned most = config_get()->slow;
    for (unsigned waited = 0; flag && !__atomic_load_n(flag, __ATOMIC_ACQUIRE) && waited < 10 * 10000; waited++)
        usleep(100);
    uint32_t mixed = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) * UINT32_C(0x9e3779b9);
    if (most && mixed >> 29 == 0)
        usleep((mixed ^ mixed >> 16) % most);
}

void builtin_pattern(const cusim_thread *thread, void *const *arguments)
{
    struct job *job = *(struct job *const *)arguments[0] + thread->block_index[0];
    uint32_t *states = *(uint32_t *const *)arguments[1];
    int is_bad = 0;
    if (thread->thread_index[0])
        return;
    if (!thread->block_index[0])
        be_late();
    uint32_t does = __atomic_load_n(&job->does, __ATOMIC_ACQUIRE); /* 0: it was cancelled */
    for (int side = 0; side < 2 && (does & CHECK); side++) {
        if (check(job->check[side], &job->found[side])) {
            is_bad = 1;
            if (does & RENEW)
                put(job->check[side]);
        }
    }
    for (int side = 0; side < 2 && (does & WRITE); side++)
        put(job->write[side]);
    __atomic_store_n(&states[thread->block_index[0]], is_bad ? BAD : GOOD, __ATOMIC_RELEASE);
}

/* Its first thread fills the page. */
void builtin_pattern_fill(const cusim_thread *thread, void *const *arguments)
{
    uint64_t start = *(const uint64_t *)arguments[0], bytes = *(const uint64_t *)arguments[1];
    if (thread->block_index[0] || thread->thread_index[0])
        return;
    be_late();
    for (uint64_t at = start; at < start + bytes; at += 8)
        *(volatile uint64_t *)(uintptr_t)at = word_of(at);
}
