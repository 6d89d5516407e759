#include "internal.h"

#include "error.h"

#include <sys/mman.h>

/*
 * One entry for each page of the arena: the block whose live buffer starts in it. A page belongs to one mapping and a mapping
 * to one buffer, so an entry is enough. The table is reserved whole and takes memory where the arena has been used: 8 bytes
 * for each 2 MiB of address space. Compared with a hash table it costs one cache line an operation and no lock.
 */
#define PAGE_BITS 21 /* a mapping's granularity is at least 2 MiB */

static struct block **pages;
static uint64_t reach; /* atomic: the most pages that a buffer has had */

static size_t table_bytes(void)
{
    return (size_t)((arena_end() - arena_start()) >> PAGE_BITS) * sizeof *pages;
}

cufence_status index_open(void)
{
    size_t bytes = table_bytes();
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY,
                         "the host has no %zu bytes of address space for the index; a smaller arena= "
                         "takes less",
                         bytes);
    madvise(table, bytes, MADV_HUGEPAGE); /* entries of neighbouring mappings are 264 bytes apart: spare the translations */
    pages = table;
    return CUFENCE_OK;
}

void index_close(void)
{
    munmap(pages, table_bytes());
    pages = NULL;
}

static struct block **entry_of(uint64_t address)
{
    return address >= arena_start() && address < arena_end() ? &pages[(address - arena_start()) >> PAGE_BITS] : NULL;
}

static int starts_at(struct block *block, uint64_t address)
{
    return block && __atomic_load_n(&block->facts.address, __ATOMIC_RELAXED) == address;
}

void index_add(struct block *block)
{
    uint64_t most = __atomic_load_n(&reach, __ATOMIC_RELAXED);
    while (block->pages > most &&
           !__atomic_compare_exchange_n(&reach, &most, block->pages, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    __atomic_store_n(entry_of(block->facts.address), block, __ATOMIC_RELEASE);
}

struct block *index_find(uint64_t address)
{
    struct block **entry = entry_of(address), *block = entry ? __atomic_load_n(entry, __ATOMIC_ACQUIRE) : NULL;
    if (block) { /* the two lines that a free needs, at once */
        __builtin_prefetch((char *)block + CACHE_LINE, 1);
        __builtin_prefetch((char *)block + 2 * CACHE_LINE, 1);
    }
    return starts_at(block, address) ? block : NULL;
}

/* The nearest live buffer that begins at or below the address, as far below as the largest buffer of all goes. */
struct block *index_holding(uint64_t address)
{
    struct block **entry = entry_of(address);
    if (!entry)
        return NULL;
    uint64_t below = (uint64_t)(entry - pages), most = __atomic_load_n(&reach, __ATOMIC_RELAXED);
    for (uint64_t i = 0; i <= below && i <= most; i++) {
        struct block *block = __atomic_load_n(entry - i, __ATOMIC_ACQUIRE);
        if (block)
            return block;
    }
    return NULL;
}

struct block *index_remove(uint64_t address)
{
    struct block **entry = entry_of(address), *block = index_find(address);
    /* Of several threads that free the same buffer, one gets it. */
    if (block && !__atomic_compare_exchange_n(entry, &block, NULL, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        block = NULL;
    return block;
}
