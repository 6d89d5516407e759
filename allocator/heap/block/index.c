#include "index.h"

#include "base/error.h"
#include "base/peak.h"

#include <sys/mman.h>

/*
 * One entry per page of the arena: the block whose live buffer starts in that page. A page belongs to one mapping and a mapping
 * to one buffer, so one entry is enough. The whole table is reserved, but takes memory only where the arena has been used: 8
 * bytes per 2 MiB of address space. An operation costs one cache line and no lock, which is cheaper than a hash table.
 *
 * A page of the arena that small buffers share has an entry for each of its cells; that of the page then refers to those, with
 * PACKED set.
 *
 * When a buffer is freed, its entry becomes FREED, until another begins there or somebody sees that its memory is unmapped.
 *
 * An entry is the block's address with a 16-bit tag above it. The tag changes each time the block is added. So a thread that
 * has found a buffer but claims it too late does not claim the next buffer in the same block.
 */
#define PAGE_BITS 21 /* the granularity is at least 2 MiB */
#define PACKED 1u    /* no block begins at an odd address */
#define FREED 2u     /* nor at this one */
#define NEAR 64      /* pages to search around an address before asking the arena */

static uint64_t *pages; /* atomic, as is what it holds; 0: none */
static uint64_t reach;  /* atomic: the size of the largest buffer so far, in pages */
static uint64_t freed;  /* what the entry of a freed buffer becomes; constant after index_open() */

static size_t table_bytes(void)
{
    return (size_t)((arena_end() - arena_start()) >> PAGE_BITS) * sizeof *pages;
}

cufence_status index_open(int marks_freed)
{
    size_t bytes = table_bytes();
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY,
                         "the host has less than %zu bytes of address space for the index; raise `ulimit -v`", bytes);
    freed = marks_freed ? FREED : 0;
    madvise(table, bytes, MADV_HUGEPAGE); /* entries of neighbouring mappings are 264 bytes apart: saves TLB misses */
    __atomic_store_n(&pages, table, __ATOMIC_RELEASE);
    return CUFENCE_OK;
}

void index_close(void)
{
    munmap(pages, table_bytes());
    pages = NULL;
}

/* The entry of the page that contains the address, which is in the arena. */
static uint64_t *entry_inside(uint64_t address)
{
    return &pages[(address - arena_start()) >> PAGE_BITS];
}

static uint64_t *entry_of_page(uint64_t address)
{
    return arena_contains(address) && __atomic_load_n(&pages, __ATOMIC_ACQUIRE) ? entry_inside(address) : NULL;
}

static uint64_t *entry_of_cell(uint64_t entry, uint64_t address)
{
    struct page *page = (struct page *)(uintptr_t)(entry - PACKED);
    return &page->entries[cells_at(&page->cells, address - page->block->slot.base)];
}

static uint64_t *entry_of(uint64_t address)
{
    uint64_t *entry = entry_of_page(address), seen = entry ? __atomic_load_n(entry, __ATOMIC_ACQUIRE) : 0;
    return __builtin_expect(seen & PACKED, 0) ? entry_of_cell(seen, address) : entry;
}

static struct block *block_in(uint64_t entry)
{
    return (struct block *)(uintptr_t)(entry & ((UINT64_C(1) << ADDRESS_BITS) - 1) & ~(uint64_t)FREED);
}

static int starts_at(struct block *block, uint64_t address)
{
    return block && block_address_now(block) == address;
}

/* Sets the entries of the pages of the index that a packed page covers. */
static void set_page(const struct page *page, uint64_t entry)
{
    const struct slot *slot = &page->block->slot;
    for (uint64_t at = slot->base; at < slot->base + slot->mapped; at += UINT64_C(1) << PAGE_BITS)
        __atomic_store_n(entry_inside(at), entry, __ATOMIC_RELEASE);
}

void index_pack(struct page *page)
{
    set_page(page, (uint64_t)(uintptr_t)page | PACKED);
}

void index_unpack(struct page *page)
{
    set_page(page, 0);
}

int index_is_packed(uint64_t address)
{
    uint64_t *entry = entry_of_page(address);
    return entry && __atomic_load_n(entry, __ATOMIC_RELAXED) & PACKED;
}

void index_add(struct block *block)
{
    raise_to(&reach, block_is_cell(block) ? 0 : block->pages);
    block_become(block, BLOCK_LIVE);
    uint64_t entry = (uint64_t)(uintptr_t)block | (uint64_t)++block->tag << ADDRESS_BITS,
             *slot = entry_inside(block->facts.address);
    if (block_is_cell(block))
        slot = entry_of_cell(__atomic_load_n(slot, __ATOMIC_ACQUIRE), block->facts.address);
    __atomic_store_n(slot, entry, __ATOMIC_RELEASE);
}

struct block *index_find(uint64_t address)
{
    uint64_t *entry = entry_of(address);
    struct block *block = entry ? block_in(__atomic_load_n(entry, __ATOMIC_ACQUIRE)) : NULL;
    return starts_at(block, address) ? block : NULL;
}

struct block *index_holding(uint64_t address)
{
    uint64_t *entry = entry_of_page(address), seen;
    if (!entry)
        return NULL;
    if ((seen = __atomic_load_n(entry, __ATOMIC_ACQUIRE)) & PACKED)
        return block_in(__atomic_load_n(entry_of_cell(seen, address), __ATOMIC_ACQUIRE));
    uint64_t below = (uint64_t)(entry - pages), most = __atomic_load_n(&reach, __ATOMIC_RELAXED);
    for (uint64_t i = 0; i <= below && i <= most && i < NEAR; i++) {
        seen = __atomic_load_n(entry - i, __ATOMIC_ACQUIRE) & ~(uint64_t)FREED; /* it may be of an earlier one in its midst */
        if (seen)
            return seen & PACKED ? NULL : block_in(seen); /* no buffer of a packed page reaches beyond it */
    }
    if (most < NEAR)
        return NULL;
    uint64_t base = arena_base_of(address); /* of the mapping, which the buffer begins in */
    uint64_t *first = base ? entry_of_page(base) : NULL;
    for (uint64_t i = 0; first && i < NEAR && first + i <= entry; i++) {
        seen = __atomic_load_n(first + i, __ATOMIC_ACQUIRE) & ~(uint64_t)FREED;
        if (seen)
            return seen & PACKED ? NULL : block_in(seen);
    }
    return NULL;
}

/* The entry closest at or below the address, NULL if it is too far. */
static uint64_t *entry_below(uint64_t address)
{
    uint64_t *entry = entry_of_page(address), most = __atomic_load_n(&reach, __ATOMIC_RELAXED);
    if (!entry)
        return NULL;
    most = most < NEAR ? most : NEAR;
    for (uint64_t i = 0, below = (uint64_t)(entry - pages); i <= below && i <= most; i++) {
        if (__atomic_load_n(entry - i, __ATOMIC_RELAXED))
            return entry - i;
    }
    return NULL;
}

int heap_looks_freed(uint64_t address)
{
    uint64_t *entry = entry_below(address);
    return entry && __atomic_load_n(entry, __ATOMIC_RELAXED) == FREED;
}

void index_unmark(uint64_t address)
{
    uint64_t *entry = entry_below(address), seen = FREED;
    if (entry)
        __atomic_compare_exchange_n(entry, &seen, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

struct block *index_claim(uint64_t address)
{
    uint64_t *entry = entry_inside(address), seen = __atomic_load_n(entry, __ATOMIC_ACQUIRE), next = freed;
    if (__builtin_expect(seen & PACKED, 0)) {
        entry = entry_of_cell(seen, address);
        seen = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
        next = 0; /* only a page can be unmapped */
    }
    struct block *block = block_in(seen);
    if (block) { /* fetch both cache lines that a free needs at once */
        __builtin_prefetch((char *)block + CACHE_LINE, 1);
        __builtin_prefetch((char *)block + 2 * CACHE_LINE, 1);
    }
    /* If several threads free the same buffer, only one succeeds. */
    if (!starts_at(block, address))
        return NULL;
    if (block_pool_now(block))
        next = 0; /* a graph may use it on */
    if (!__atomic_compare_exchange_n(entry, &seen, next, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        return NULL;
    block_become(block, BLOCK_HELD);
    return block;
}

/* ---- all blocks with a buffer ---- */

struct each {
    int (*visit)(struct slot *slot, void *user);
    void *user;
};

static int visit_cells(struct slot *slot, void *user)
{
    const struct each *each = user;
    struct page *page = block_page_now((struct block *)slot);
    int is_over = 0;
    if (!page)
        return each->visit(slot, each->user);
    for (uint32_t i = 0; i < page->cells.count && !is_over; i++)
        is_over = each->visit(&page->blocks[i].slot, each->user);
    return is_over;
}

void blocks_each(int (*visit)(struct slot *slot, void *user), void *user)
{
    struct each each = {visit, user};
    arena_some(0, SIZE_MAX, visit_cells, &each);
}
