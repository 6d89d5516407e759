#include "api/closing.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/output.h"
#include "base/tally.h"
#include "base/hash.h"
#include "finding/writer.h"
#include "guard/estimate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h" /* last: see hooks.h */

#define DEVICES 64
#define PAGE (UINT64_C(2) << 20)

/* The sets of options that are compared, besides the program's own. */
enum { OTHER_MAP, OTHER_PACK };
static const struct {
    const char *text;
    struct estimate_options options;
} others[] = {
    {"small=map", {.small = ESTIMATE_MAP}},
    {"small=pack", {.small = ESTIMATE_PACK}},
    {"skip=smaller:4K", {.min_size = 4 << 10}},
    {"skip=smaller:64K", {.min_size = 64 << 10}},
    {"skip=smaller:1M", {.min_size = 1 << 20}},
    {"sample=1/4", {.sample = 4}},
    {"sample=1/16", {.sample = 16}},
};
#define OTHERS (sizeof others / sizeof others[0])
_Static_assert(OTHERS + 2 <= ESTIMATE_WAYS, "the program's own options, and max_guarded");

struct seen {
    UT_hash_handle hh;
    uint64_t address;
    int device;
    struct estimate_buffer buffer;
};

struct card {
    int is_open;
    uint64_t total, taken; /* bytes: of the card, and in use before the first allocation */
    struct estimate estimate;
};

int observe_is_on;

static const struct options *wanted;
static pid_t process;
static struct lock lock = LOCK(RANK_ESTIMATE); /* guards everything below */
static struct seen *table;
static struct card cards[DEVICES];
static uint64_t lost; /* allocations that could not be followed: no host memory */

/* ---- following ---- */

static uint64_t whole_pages(uint64_t bytes)
{
    return bytes / PAGE * PAGE;
}

static enum estimate_small small_of(const struct options *options)
{
    return options->small == SMALL_MAP    ? ESTIMATE_MAP
           : options->small == SMALL_PACK ? ESTIMATE_PACK
           : options->uaf == UAF_STRICT   ? ESTIMATE_LATE
                                          : ESTIMATE_AUTO;
}

/* A context of the device is current. The first allocation has been made already: `size` bytes of what is in use are its own.
 */
static int open_card(struct card *card, uint64_t size)
{
    struct estimate_options ways[ESTIMATE_WAYS];
    size_t free_bytes = 0, total = 0;
    if (card->is_open)
        return 1;
    driver->cuMemGetInfo(&free_bytes, &total);
    card->total = total;
    card->taken = total - free_bytes > size ? total - free_bytes - size : 0;
    ways[0] = (struct estimate_options){
        .min_size = wanted->min_size, .sample = wanted->sample, .max_guarded = wanted->max_guarded, .small = small_of(wanted)};
    for (size_t i = 0; i < OTHERS; i++) {
        ways[1 + i] = others[i].options;
        ways[1 + i].small = i == OTHER_MAP || i == OTHER_PACK ? others[i].options.small : small_of(wanted);
    }
    ways[1 + OTHERS] =
        (struct estimate_options){.max_guarded = whole_pages((card->total - card->taken) / 2), .small = small_of(wanted)};
    for (size_t i = 0; i < OTHERS + 2; i++) {
        ways[i].align = wanted->align;
        ways[i].alone_most = card->total / 100 * wanted->max_overhead + 1;
        ways[i].taken_most = card->total - card->taken - (card->total - card->taken) / 32;
    }
    card->is_open = estimate_open(&card->estimate, PAGE, (unsigned)wanted->waste, ways, OTHERS + 2);
    return card->is_open;
}

static void drop(struct seen *seen)
{
    HASH_DEL(table, seen);
    estimate_freed(&cards[seen->device].estimate, &seen->buffer);
    free(seen);
}

void observe_allocated(uint64_t address, uint64_t size)
{
    CUdevice device = 0;
    struct seen *seen = NULL;
    if (driver->cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= DEVICES)
        return;
    HOLD(&lock);
    HASH_FIND(hh, table, &address, sizeof address, seen);
    if (seen) /* its free was not seen: its context was destroyed */
        drop(seen);
    seen = open_card(&cards[device], size) ? calloc(1, sizeof *seen) : NULL;
    if (seen) {
        seen->address = address;
        seen->device = device;
        seen->buffer = estimate_allocated(&cards[device].estimate, size);
        HASH_ADD(hh, table, address, sizeof seen->address, seen);
        if (!seen->hh.tbl) {
            estimate_freed(&cards[device].estimate, &seen->buffer);
            free(seen);
            seen = NULL;
        }
    }
    lost += !seen;
}

void observe_freed(uint64_t address)
{
    struct seen *seen = NULL;
    if (getpid() != process) /* a forked child, where the lock may be held by a thread that is not there */
        return;
    HOLD(&lock);
    HASH_FIND(hh, table, &address, sizeof address, seen);
    if (seen)
        drop(seen);
}

/* ---- the end ---- */

static struct amount with_unit(uint64_t bytes)
{
    struct amount amount = amount_of(bytes);
    if (bytes > MIB) /* an exact figure is more than anybody wants to read */
        amount = amount_in(bytes, bytes >= GIB ? GIB : MIB, bytes >= GIB ? "GiB" : "MiB");
    if (!strchr(amount.text, 'B'))
        snprintf(amount.text + strlen(amount.text), sizeof amount.text - strlen(amount.text), " bytes");
    return amount;
}

static void say_way(const struct card *card, const char *text, const struct estimate_way *way)
{
    const struct estimate *estimate = &card->estimate;
    uint64_t room = card->total - card->taken, percent = estimate->native_peak ? way->peak * 100 / estimate->native_peak : 0;
    output_note("  %-18s %10s %6" PRIu64 ".%02" PRIu64 " %6" PRIu64 " %%  %s", text, with_unit(way->peak).text, percent / 100,
                percent % 100, estimate->allocations ? way->count * 100 / estimate->allocations : 0,
                way->peak <= room ? "yes" : "no");
}

static void say_ways(const struct card *card)
{
    char limit[64];
    output_note("  %-18s %10s %9s %8s  %s", "options", "takes", "of native", "guarded", "fits");
    say_way(card, "as they are", &card->estimate.ways[0]);
    for (size_t i = 0; i < OTHERS; i++)
        say_way(card, others[i].text, &card->estimate.ways[1 + i]);
    const struct estimate_way *last = &card->estimate.ways[1 + OTHERS];
    snprintf(limit, sizeof limit, "max_guarded=%" PRIu64 "M", last->options.max_guarded / MIB);
    say_way(card, limit, last);
}

/* What it saves that small buffers share pages. */
static void say_packing(const struct card *card)
{
    const struct estimate_way *own = &card->estimate.ways[0];
    uint64_t map = card->estimate.ways[1 + OTHER_MAP].peak, pack = card->estimate.ways[1 + OTHER_PACK].peak;
    if (pack >= map)
        return;
    output_note("  small buffers that share pages (small=pack) take %s less than those with pages of their own (small=map)",
                with_unit(map - pack).text);
    if (own->options.small == ESTIMATE_AUTO || own->options.small == ESTIMATE_LATE)
        output_note("  small=auto, the default, %s",
                    own->turns.round == CELLS_HALF.round ? "would pack every second of them while the program runs"
                    : own->turns.round
                        ? "would begin to pack while the program runs"
                        : "would not pack: the pages of small buffers stay below 128 MiB, or a sixteenth of what is mapped");
}

static void say_card(int device, const struct card *card)
{
    const struct estimate *estimate = &card->estimate;
    const struct estimate_way *own = &estimate->ways[0];
    uint64_t room = card->total - card->taken;
    output_note("estimate for GPU %d: nothing was guarded; %" PRIu64 " allocation%s, at most %" PRIu64
                " buffer%s and %s at once",
                device, estimate->allocations, estimate->allocations == 1 ? "" : "s", estimate->live_peak,
                estimate->live_peak == 1 ? "" : "s", with_unit(estimate->native_peak).text);
    output_note("  guarded, they take %s at once, in pages of 2 MiB; %" PRIu64 " at once are smaller than 256 KiB",
                with_unit(own->peak).text, estimate->small_peak);
    say_packing(card);
    if (own->kept_peak > own->peak)
        output_note("  up to %s with what is kept for reuse, which is released when memory runs out",
                    with_unit(own->kept_peak).text);
    output_note("  GPU %d has %s, of which %s were in use before: it %s", device, with_unit(card->total).text,
                with_unit(card->taken).text,
                own->peak <= room ? "fits" : "does NOT fit; with fallback=on the rest would be left to the driver, unguarded");
    say_ways(card);
}

static void at_exit(int status, void *unused)
{
    static int is_done; /* exit handlers run one after the other */
    int is_any = 0;
    (void)status;
    (void)unused;
    if (getpid() != process || is_done++)
        return;
    lock_take(&lock);
    for (int device = 0; device < DEVICES; device++) {
        if (cards[device].is_open)
            say_card(device, &cards[device]);
        is_any |= cards[device].is_open;
    }
    if (!is_any)
        output_note("estimate: no allocation of device memory was seen; `cufence doctor` helps to find out why");
    if (lost)
        output_note("estimate: %" PRIu64 " allocation%s left out: the host had no memory to follow", lost,
                    lost == 1 ? " is" : "s are");
    lock_release(&lock);
    closing_say_unguarded();
    tally_note(TALLY_SAID);
    output_flush();
}

void observe_begin(const struct options *options)
{
    wanted = options;
    process = getpid();
    tally_note(TALLY_CONTEXT);
    on_exit(at_exit, NULL);
    __atomic_store_n(&observe_is_on, 1, __ATOMIC_RELEASE);
}
