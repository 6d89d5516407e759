/*
 * NVTX's memory extension: a pool that tells tools what it cuts out of its memory is heard, unchanged. NVTX finds this library
 * by NVTX_INJECTION64_PATH, which `cufence run` sets, and asks it for the functions of each extension at the first call.
 *
 * A piece that a pool registers is a region with one row, and free memory again when it is unregistered. Behind a piece of a
 * heap of the kind SUB_ALLOCATOR, PADDING bytes up to the next piece belong to nobody: they are a free region too, so a write
 * past the piece is found. NVTX names no stream. So a piece is registered and unregistered with the context idle: it is
 * synchronised.
 *
 * Left out: permissions, which a mapping shared with other pieces cannot have; names other than ASCII.
 */
#include "lifecycle.h"

#include "base/lock.h"
#include "contexts/contexts.h"
#include "regions/regions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define PUBLIC __attribute__((visibility("default")))
#define PADDING 4096u /* as far as the slack of a buffer is watched */

/* ---- what nvToolsExtMem.h and nvtxExtTypes.h define, of NVTX_EXT_COMPATID_MEM 0x0102. A toolkit need not have them. ---- */

enum { MODULE_MEM = 1, COMPATIBLE = 0x0102, SUB_ALLOCATOR = 1, VIRTUAL_ADDRESS = 1, ASCII = 1 };
enum { HEAP_REGISTER, HEAP_UNREGISTER, HEAP_RESET, REGIONS_REGISTER, REGIONS_RESIZE, REGIONS_UNREGISTER, REGIONS_NAME, SLOTS };

struct nvtx_segment {
    size_t id, slot_count;
    intptr_t *slots;
};
struct nvtx_module {
    uint16_t version, size, module, compatible;
    size_t segment_count;
    struct nvtx_segment *segments;
};
struct nvtx_range {
    size_t size;
    const void *address;
};
struct nvtx_heap_desc {
    uint16_t compatible, size;
    uint32_t reserved, usage, type;
    size_t range_size;
    const struct nvtx_range *range;
    uint32_t category, message_type;
    const char *message;
};
/* The resizing of pieces has neither heap nor handles. */
struct nvtx_register {
    uint16_t compatible, size;
    uint32_t type;
    struct nvtx_heap *heap;
    size_t count, stride;
    const void *ranges;
    const void **handles;
};
struct nvtx_resize {
    uint16_t compatible, size;
    uint32_t type;
    size_t count, stride;
    const void *ranges;
};
struct nvtx_unregister {
    uint16_t compatible, size;
    uint32_t ref_type;
    size_t count, stride;
    const void *refs; /* handles, which are the pieces' addresses, or these */
};
struct nvtx_name {
    uint32_t ref_type, name_type;
    const void *piece;
    const char *name;
};
struct nvtx_names {
    uint16_t compatible, size;
    uint32_t reserved;
    size_t count, stride;
    const void *names;
};

/* ---- pieces ---- */

struct nvtx_heap {
    uint64_t start, end;
    int has_padding;
    char name[REGION_TEXT];
    struct nvtx_heap *next;
};

static struct lock lock = LOCK(RANK_NVTX);
static struct nvtx_heap *heaps;

/* A piece is a division of one row. Its divider is its heap, or this: the whole process. */
static const struct nvtx_heap process;

static uint64_t end_of(const struct region_at *piece)
{
    return piece->start + piece->bytes;
}

static int is_free(const struct region_at *piece)
{
    return piece->region.state == REGION_FREE;
}

/* The first piece that ends behind the address. 0: none. */
static int piece_behind(uint64_t address, struct region_at *out)
{
    int is_found;
    while ((is_found = region_next(address, out)) && !out->divider)
        address = out->start + out->bytes * out->rows;
    return is_found;
}

static void take(uint64_t address, const char *owner)
{
    const void *start = (const void *)(uintptr_t)address;
    regions_take(&start, 1, owner, NULL);
}

static cufence_status release(uint64_t address)
{
    const void *start = (const void *)(uintptr_t)address;
    return regions_release(&start, 1, NULL);
}

/* Memory that cufence does not guard gets no piece. */
static void put(uint64_t start, uint64_t end, const struct nvtx_heap *heap, const char *name, int is_unused)
{
    if (regions_divide(start, end - start, 1, name, heap) == CUFENCE_OK && is_unused)
        release(start);
}

/* A free one is checked. */
static void drop(const struct region_at *piece)
{
    if (is_free(piece))
        take(piece->start, NULL);
    regions_gone(piece->start);
}

static void drop_all(const struct nvtx_heap *heap)
{
    struct region_at piece;
    for (uint64_t at = 0; piece_behind(at, &piece); at = end_of(&piece)) {
        if (piece.divider == heap)
            drop(&piece);
    }
}

/* Waits until nobody uses the memory. Returns 0 if that cannot be: pieces are not watched then. */
static int settle(uint64_t address)
{
    struct heap_range range;
    if (!heap_range_of(address, &range) || __atomic_load_n(&range.context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return 0;
    SCOPE scope = scope_visit(range.context);
    return scope.pushed && heap_synchronise() == CUDA_SUCCESS;
}

static void place(uint64_t start, uint64_t size, const struct nvtx_heap *heap)
{
    uint64_t end = start + size, until = heap->has_padding ? heap->end : end;
    char unused[REGION_TEXT + 16];
    struct region_at old;
    if (!size || end < start || (heap != &process && (start < heap->start || end > heap->end)))
        return;
    if (until - end > PADDING)
        until = end + PADDING;
    snprintf(unused, sizeof unused, "padding in %s", heap->name[0] ? heap->name : "a pool");
    int is_watched = settle(start);
    while (piece_behind(start, &old) && old.start < end) {
        drop(&old);
        if (is_watched && is_free(&old) && old.start < start)
            put(old.start, start, old.divider, unused, 1);
    }
    if (piece_behind(start, &old) && old.start < until)
        until = old.start;
    put(start, end, heap, heap->name, 0);
    if (is_watched && until > end)
        put(end, until, heap, unused, 1);
    if (is_watched)
        settle(start);
}

/* The live piece that begins at the address. 0: none. */
static int live_at(const void *address, struct region_at *out)
{
    return region_find((uint64_t)(uintptr_t)address, out) && out->divider && !out->offset && !is_free(out);
}

static int begin(void)
{
    if (lifecycle_check() != CUFENCE_OK)
        return 0;
    lock_take(&lock);
    return 1;
}

static const void *element(const void *first, size_t stride, size_t i)
{
    return (const char *)first + i * stride;
}

/* What divides pieces of this heap. NULL: it is unknown. */
static const struct nvtx_heap *known(const struct nvtx_heap *heap)
{
    const struct nvtx_heap *each = heap ? heaps : &process;
    while (each && heap && each != heap)
        each = each->next;
    return each;
}

/* ---- the functions of the extension ---- */

static void *heap_register(void *domain, const struct nvtx_heap_desc *desc)
{
    (void)domain;
    if (desc->type != VIRTUAL_ADDRESS || desc->range_size < sizeof *desc->range || !desc->range || !begin())
        return NULL;
    struct nvtx_heap *heap = calloc(1, sizeof *heap);
    struct region_at old;
    if (heap) {
        heap->start = (uint64_t)(uintptr_t)desc->range->address;
        heap->end = heap->start + desc->range->size;
        heap->has_padding = desc->usage == SUB_ALLOCATOR;
        snprintf(heap->name, sizeof heap->name, "%s", desc->message_type == ASCII && desc->message ? desc->message : "");
        while (piece_behind(heap->start, &old) && old.start < heap->end) /* of a heap that was freed and not unregistered */
            drop(&old);
        LL_PREPEND(heaps, heap);
    }
    lock_release(&lock);
    return heap;
}

static void heap_reset(void *domain, struct nvtx_heap *heap)
{
    (void)domain;
    if (!begin())
        return;
    if (known(heap))
        drop_all(known(heap));
    lock_release(&lock);
}

static void heap_unregister(void *domain, struct nvtx_heap *heap)
{
    (void)domain;
    if (!heap || !begin())
        return;
    if (known(heap)) {
        drop_all(heap);
        LL_DELETE(heaps, heap);
        free(heap);
    }
    lock_release(&lock);
}

static void regions_register(void *domain, const struct nvtx_register *desc)
{
    (void)domain;
    if (desc->type != VIRTUAL_ADDRESS || !begin())
        return;
    const struct nvtx_heap *heap = known(desc->heap);
    for (size_t i = 0; i < desc->count && heap; i++) {
        const struct nvtx_range *range = element(desc->ranges, desc->stride, i);
        place((uint64_t)(uintptr_t)range->address, range->size, heap);
        if (desc->handles)
            desc->handles[i] = range->address;
    }
    lock_release(&lock);
}

static void regions_resize(void *domain, const struct nvtx_resize *desc)
{
    struct region_at piece;
    (void)domain;
    if (desc->type != VIRTUAL_ADDRESS || !begin())
        return;
    for (size_t i = 0; i < desc->count; i++) {
        const struct nvtx_range *range = element(desc->ranges, desc->stride, i);
        if (live_at(range->address, &piece))
            place(piece.start, range->size, piece.divider);
    }
    lock_release(&lock);
}

static void regions_unregister(void *domain, const struct nvtx_unregister *desc)
{
    struct region_at piece;
    (void)domain;
    if (!begin())
        return;
    for (size_t i = 0; i < desc->count; i++) {
        if (!live_at(*(const void *const *)element(desc->refs, desc->stride, i), &piece))
            continue;
        const struct nvtx_heap *heap = piece.divider;
        if (heap->has_padding && settle(piece.start) && release(piece.start) == CUFENCE_OK)
            settle(piece.start); /* a late write comes behind the pattern, on any stream */
        else
            drop(&piece);
    }
    lock_release(&lock);
}

static void regions_name(void *domain, const struct nvtx_names *desc)
{
    struct region_at piece;
    (void)domain;
    if (!begin())
        return;
    for (size_t i = 0; i < desc->count; i++) {
        const struct nvtx_name *name = element(desc->names, desc->stride, i);
        if (name->name_type == ASCII && name->name && live_at(name->piece, &piece))
            take(piece.start, name->name);
    }
    lock_release(&lock);
}

/* ---- how NVTX finds them ---- */

PUBLIC int InitializeInjectionNvtxExtension(struct nvtx_module *module);
PUBLIC int InitializeInjectionNvtx2(void *export_table);

int InitializeInjectionNvtxExtension(struct nvtx_module *module)
{
    static const intptr_t functions[SLOTS] = {
        [HEAP_REGISTER] = (intptr_t)heap_register,   [HEAP_UNREGISTER] = (intptr_t)heap_unregister,
        [HEAP_RESET] = (intptr_t)heap_reset,         [REGIONS_REGISTER] = (intptr_t)regions_register,
        [REGIONS_RESIZE] = (intptr_t)regions_resize, [REGIONS_UNREGISTER] = (intptr_t)regions_unregister,
        [REGIONS_NAME] = (intptr_t)regions_name,
    };
    if (module->module != MODULE_MEM || module->compatible != COMPATIBLE || !module->segment_count ||
        module->segments->slot_count < SLOTS)
        return 0;
    memcpy(module->segments->slots, functions, sizeof functions);
    return 1;
}

/* NVTX itself: nothing of it is looked at, so all of its functions stay without effect. */
int InitializeInjectionNvtx2(void *export_table)
{
    (void)export_table;
    return 1;
}
