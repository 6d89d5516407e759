#include "bundles.h"

#include "base/lock.h"
#include "base/output.h"
#include "base/list.h"
#include "finding/finding.h"
#include "inspect/kernels/reach.ptx.h"
#include "launch/pinned_memory.h"

#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define MOST_BUFFERS 65536u     /* that may be found: the newest ones */
#define FOUND_ROOM (16 * MIB)   /* of the buffers that are found, and once more after the launch; ... */
#define LARGE_ROOM (128 * MIB)  /* ... where some had no room in an earlier launch of the kernel */
#define SEARCH_EACH (4 * MIB)   /* as the rerun process does: its last bytes of each buffer, ... */
#define SEARCH_ALL (256 * MIB)  /* ... and in all */
#define LOWEST UINT64_C(0x1000) /* no pointer is lower */
#define KERNELS 4096            /* that are counted; of others no bundle is made */

struct counted {
    const struct launch_function *function;
    uint64_t count;
    int has_said, needs_room;
};

static struct {
    uint64_t most; /* constant after the start, as is `filled` */
    struct lock lock;
    struct counted kernels[KERNELS]; /* this and the rest under the lock, a leaf */
    size_t kernel_count;
    struct bundling *begun;
} bundles = {.lock = LOCK(RANK_LEAF)};

const char *bundles_ptx(void)
{
    return reach_ptx;
}

void bundles_open(const struct options *options)
{
    bundles.most = options->save_replay;
    if (bundles.most)
        code_keep();
}

/* ---- how many ---- */

static struct counted *counted_locked(const struct launch_function *function)
{
    size_t i = 0;
    while (i < bundles.kernel_count && bundles.kernels[i].function != function)
        i++;
    if (i == bundles.kernel_count && i < KERNELS)
        bundles.kernels[bundles.kernel_count++].function = function;
    return i < KERNELS ? &bundles.kernels[i] : NULL;
}

/* Whether the kernel may have another one. It is counted. */
static int count(const struct launch_function *function)
{
    HOLD(&bundles.lock);
    struct counted *counted = counted_locked(function);
    int may = counted && counted->count < bundles.most;
    if (may)
        counted->count++;
    return may;
}

/* Takes the count back, and says why the first time. */
static void refuse(const struct launch_function *function, const char *why)
{
    char name[160];
    lock_take(&bundles.lock);
    struct counted *counted = counted_locked(function);
    int is_first = !counted->has_said;
    counted->has_said = 1;
    counted->count--;
    lock_release(&bundles.lock);
    finding_kernel_of(function->name, name, sizeof name);
    if (is_first)
        output_note("save_values: no bundle of %s for `cufence replay`: %s", name, why);
}

static uint64_t room_of(const struct launch_function *function)
{
    HOLD(&bundles.lock);
    return counted_locked(function)->needs_room ? LARGE_ROOM : FOUND_ROOM;
}

void bundling_lacks_room(const struct launch_function *function)
{
    HOLD(&bundles.lock);
    counted_locked(function)->needs_room = 1;
}

/* ---- what the arguments name besides buffers ---- */

static void insert(struct bundling *bundling, const struct pinned *memory)
{
    size_t at = bundling->pinned_count++;
    for (; at && bundling->pinned[at - 1].address > memory->address; at--)
        bundling->pinned[at] = bundling->pinned[at - 1];
    bundling->pinned[at] = bundle_pinned_of(memory->address, memory->bytes);
    bundling->pinned_bytes += memory->bytes;
}

static const char *take_pinned(struct bundling *bundling, const struct pinned *memory)
{
    for (size_t i = 0; i < bundling->pinned_count; i++)
        if (bundling->pinned[i].address == memory->address)
            return NULL;
    if (memory->kind == PINNED_MANAGED)
        return "an argument points to managed memory, which is not saved";
    if (memory->kind == PINNED_DEVICE)
        return "an argument points to memory of another device, which is not saved";
    if (memory->bytes > RERUN_PINNED_BYTES - bundling->pinned_bytes || bundling->pinned_count == RERUN_PINNED)
        return "the arguments point to more pinned host memory than is saved (64 MiB, 64 blocks)";
    insert(bundling, memory);
    return NULL;
}

static int is_of_driver(uint64_t word)
{
    unsigned type = 0;
    return driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE;
}

/* Returns NULL, or why the launch cannot be done again elsewhere. */
static const char *take_foreign(struct bundling *bundling, const struct visit *visit)
{
    const char *why = NULL;
    struct pinned memory;
    for (size_t i = 0; i + 8 <= visit->argument_bytes && !why; i += 8) {
        uint64_t word;
        memcpy(&word, visit->arguments + i, sizeof word);
        if (word < LOWEST || heap_owns(word))
            continue;
        if (pinned_find(word, &memory))
            why = take_pinned(bundling, &memory);
        else if (is_of_driver(word))
            why = "an argument points to memory that is not cufence's (see docs/report.md, unguarded), which is not saved";
    }
    return why;
}

/* ---- the buffers of the device ---- */

static int by_mapping(const void *left, const void *right)
{
    const cufence_buffer *a = left, *b = right;
    return LIST_ORDER(a->mapping_start, b->mapping_start);
}

/* A buffer that another thread frees must stay mapped until the work of ours is done. One that is gone already is left out. */
static void hold_buffers(struct bundling *bundling, CUstream stream)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < bundling->count; i++) {
        const cufence_buffer *buffer = &bundling->buffers[i];
        if (buffer->size && buffer->is_mapped &&
            heap_record_stream((void *)(uintptr_t)buffer->address, stream) == CUFENCE_OK) /* NOLINT */
            bundling->buffers[kept++] = *buffer;
    }
    bundling->count = kept;
    qsort(bundling->buffers, kept, sizeof *bundling->buffers, by_mapping);
}

static const cufence_buffer *find(const struct bundling *bundling, uint64_t address)
{
    size_t low = 0, high = bundling->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bundling->buffers[middle].mapping_end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < bundling->count && bundling->buffers[low].mapping_start <= address ? &bundling->buffers[low] : NULL;
}

static void add_direct(struct bundling *bundling, const cufence_buffer *buffer)
{
    uint32_t index = (uint32_t)(buffer - bundling->buffers);
    for (uint32_t i = 0; i < bundling->first; i++)
        if (bundling->direct[i] == index)
            return;
    bundling->direct[bundling->first++] = index;
}

#define PAGE (2 * MIB)
static const char shared_page[] = "it reaches buffers that share a page (small=map gives each its own)";

/* A replay maps whole pages, each for one buffer. */
static int has_own_pages(const cufence_buffer *buffer)
{
    return (buffer->mapping_start | buffer->mapping_end) % PAGE == 0;
}

static const char *take_buffers(struct bundling *bundling, const struct visit *visit)
{
    static const char no_memory[] = "the host has no memory";
    uint64_t total = 0, bytes = 0;
    bundling->buffers = malloc(MOST_BUFFERS * sizeof *bundling->buffers);
    bundling->direct = calloc(visit->reached_count + 1, sizeof *bundling->direct);
    if (!bundling->buffers || !bundling->direct)
        return no_memory;
    bundling->count = (uint32_t)heap_live(visit->device, bundling->buffers, MOST_BUFFERS, &total);
    cufence_buffer *fitting = realloc(bundling->buffers, (bundling->count + 1) * sizeof *fitting);
    bundling->buffers = fitting ? fitting : bundling->buffers;
    hold_buffers(bundling, visit->handle);
    for (size_t i = 0; i < visit->reached_count; i++) {
        const cufence_buffer *buffer = find(bundling, visit->reached[i].range.address);
        if (buffer && !has_own_pages(buffer))
            return shared_page;
        if (buffer)
            add_direct(bundling, buffer);
    }
    for (uint32_t i = 0; i < bundling->count; i++)
        bytes += (bundling->buffers[i].size + 15) / 16 * 16;
    for (uint32_t i = 0; i < bundling->first; i++)
        bytes -= (bundling->buffers[bundling->direct[i]].size + 15) / 16 * 16;
    uint64_t room = room_of(visit->function);
    bundling->room = bytes < room ? bytes : room;
    return NULL;
}

/* ---- a launch ---- */

void bundling_free(struct bundling *bundling)
{
    if (!bundling)
        return;
    code_give_back(bundling->code);
    free(bundling->buffers);
    free(bundling->direct);
    free(bundling);
}

static const char *prepare(struct bundling *bundling, const struct visit *visit)
{
    const char *why = NULL;
    if (!visit->function->has_layout && !visit->argument_bytes)
        return "its arguments are unknown (the driver tells their layout from CUDA 12.4 on)";
    struct scope scope = scope_enter(visit->context);
    bundling->code = code_find(visit->kernel, visit->function->name, &why);
    scope_leave(scope);
    if (!why)
        why = take_foreign(bundling, visit);
    return why ? why : take_buffers(bundling, visit);
}

struct bundling_area bundling_area(const struct bundling *bundling)
{
    struct bundling_area area = {0};
    area.table = bundling->at;
    area.queue = area.table + visit_rounded(bundling->count * sizeof(struct reach_buffer));
    area.before = area.queue + visit_rounded(sizeof(struct reach_queue) + bundling->count * sizeof(uint32_t));
    area.after = area.before + visit_rounded(bundling->room);
    area.pinned_before = area.after + visit_rounded(bundling->room);
    area.pinned_after = area.pinned_before + visit_rounded(bundling->pinned_bytes);
    area.end = area.pinned_after + visit_rounded(bundling->pinned_bytes);
    return area;
}

/* Makes it fit, with less room for what is found if need be. */
static const char *limit(struct bundling *bundling, uint64_t most)
{
    uint64_t bytes = bundling_area(bundling).end - bundling->at, over = bytes > most ? bytes - most : 0;
    if (over > 2 * bundling->room)
        return "save_values= has no more BYTES";
    bundling->room -= (over + 1) / 2;
    bundling->room -= over ? bundling->room % 64 : 0;
    return NULL;
}

void bundles_begin(const struct visit *visit, uint64_t at, uint64_t most)
{
    if (!visit->function || !bundles.most || !count(visit->function))
        return;
    struct bundling *bundling = calloc(1, sizeof *bundling);
    const char *why = bundling ? prepare(bundling, visit) : "the host has no memory";
    if (bundling)
        bundling->at = at;
    if (!why)
        why = limit(bundling, most);
    if (why) {
        bundling_free(bundling);
        refuse(visit->function, why);
        return;
    }
    bundling->number = visit->number;
    HOLD(&bundles.lock);
    bundling->next = bundles.begun;
    bundles.begun = bundling;
}

/* is_taken: takes it out of the list; else it stays valid until the visit is over. */
static struct bundling *find_begun(const struct visit *visit, int is_taken)
{
    HOLD(&bundles.lock);
    struct bundling **at = &bundles.begun;
    while (*at && (*at)->number != visit->number)
        at = &(*at)->next;
    struct bundling *found = *at;
    if (found && is_taken)
        *at = found->next;
    return found;
}

size_t bundles_size(const struct visit *visit)
{
    const struct bundling *bundling = find_begun(visit, 0);
    return bundling ? bundling_area(bundling).end - bundling->at : 0;
}

static void fill(const struct bundling *bundling, uint8_t *memory)
{
    const struct bundling_area area = bundling_area(bundling);
    struct reach_buffer *table = (struct reach_buffer *)(void *)(memory + area.table);
    struct reach_queue *queue = (struct reach_queue *)(void *)(memory + area.queue);
    for (uint32_t i = 0; i < bundling->count; i++) {
        const cufence_buffer *buffer = &bundling->buffers[i];
        table[i] = (struct reach_buffer){.start = buffer->mapping_start,
                                         .end = buffer->mapping_end,
                                         .address = buffer->address,
                                         .size = buffer->size,
                                         .at = REACH_NONE};
    }
    queue->count = bundling->first;
    for (uint32_t i = 0; i < bundling->first; i++) {
        queue->at[i] = bundling->direct[i];
        table[bundling->direct[i]].is_found = 1;
    }
}

static void submit(struct visit_part *part, const struct bundling *bundling, int is_after)
{
    uint8_t *memory = part->memory;
    struct bundling_area area = bundling_area(bundling);
    uint8_t *pinned = memory + (is_after ? area.pinned_after : area.pinned_before);
    struct reach reach = {.table = (uint64_t)(uintptr_t)(memory + area.table),
                          .queue = (uint64_t)(uintptr_t)(memory + area.queue),
                          .out = (uint64_t)(uintptr_t)(memory + (is_after ? area.after : area.before)),
                          .room = bundling->room,
                          .each = SEARCH_EACH,
                          .most = SEARCH_ALL,
                          .count = bundling->count,
                          .first = bundling->first,
                          .is_again = (uint32_t)is_after};
    if (bundling->first && bundling->first < bundling->count)
        visit_launch(part, 0, 1, REACH_THREADS, (void *[]){&reach});
    for (size_t i = 0; i < bundling->pinned_count; i++) {
        visit_copy(part, pinned, bundling->pinned[i].address, bundling->pinned[i].size);
        pinned += bundling->pinned[i].size;
    }
}

void bundles_before(struct visit_part *part)
{
    const struct bundling *bundling = find_begun(part->visit, 0);
    if (!bundling)
        return;
    fill(bundling, part->memory);
    submit(part, bundling, 0);
}

void bundles_after(struct visit_part *part)
{
    const struct bundling *bundling = find_begun(part->visit, 0);
    if (bundling)
        submit(part, bundling, 1);
}

/* Whether all that was found through memory has pages of its own. */
static int can_be_written(const struct bundling *bundling, const uint8_t *memory)
{
    const struct reach_queue *queue = (const struct reach_queue *)(const void *)(memory + bundling_area(bundling).queue);
    for (uint32_t i = 0; i < queue->count; i++)
        if (!has_own_pages(&bundling->buffers[queue->at[i]]))
            return 0;
    return 1;
}

struct bundling *bundles_take(const struct visit *visit, const uint8_t *memory)
{
    struct bundling *bundling = find_begun(visit, 1);
    if (!bundling || !memory || can_be_written(bundling, memory))
        return bundling;
    refuse(visit->function, shared_page);
    bundling_free(bundling);
    return NULL;
}
