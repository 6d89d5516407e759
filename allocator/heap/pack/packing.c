/* What is packed: small buffers, once that has begun, except a rotating few of each place of allocation. */
#include "pack.h"

#include "heap/block/places.h"
#include "heap/graphs/graphs.h"

#include "base/options.h"
#include "base/output.h"

#include <stdio.h>

int packing_may(const struct freelist *list, const struct heap_request *wanted, uint64_t align, struct cells *out)
{
    return heap_options->small != SMALL_MAP && wanted->size <= CELLS_SIZE_MOST && !list->pool &&
           wanted->device == list->books->context->device && !heap_captures() &&
           cells_for(heap_granularity, wanted->size, align, out);
}

static int has_idle_page(struct freelist *list)
{
    list_lock(list);
    int has = list->bins[freelist_bin(1)] != NULL;
    list_unlock(list);
    return has;
}

/* Whether another page may be mapped for one small buffer. */
static int may_be_alone(const struct books *books)
{
    return __atomic_load_n(&books->alone_bytes, __ATOMIC_RELAXED) + heap_granularity <=
           cells_alone_most(heap_granularity, __atomic_load_n(&books->packed_mapped, __ATOMIC_RELAXED));
}

int packing_wants(struct freelist *list, const struct heap_request *wanted, uint64_t align, uint64_t label, struct cells *out)
{
    if (!packing_may(list, wanted, align, out))
        return 0;
    const struct facts facts = {
        .size = wanted->size, .stream = wanted->stream ? (uint64_t)(uintptr_t)wanted->stream->handle : 0, .label = label};
    struct place *place = place_of(&facts);
    int is_due = __atomic_load_n(&place->packed, __ATOMIC_RELAXED) % CELLS_ROUND == 0;
    if (is_due && !has_idle_page(list) && !may_be_alone(list->books))
        return 1; /* its turn comes when there is a page */
    __atomic_add_fetch(&place->packed, 1, __ATOMIC_RELAXED);
    return !is_due;
}

static uint64_t share_of(struct books *books)
{
    size_t total = 0;
    uint64_t most = __atomic_load_n(&books->alone_most, __ATOMIC_RELAXED);
    if (!most && driver->cuDeviceTotalMem(&total, books->context->device) == CUDA_SUCCESS) {
        most = total / 100 * heap_options->max_overhead + 1;
        __atomic_store_n(&books->alone_most, most, __ATOMIC_RELAXED);
    }
    return most ? most : UINT64_MAX;
}

int packing_is_due(struct books *books)
{
    return __atomic_load_n(&books->alone_bytes, __ATOMIC_RELAXED) + heap_granularity > share_of(books);
}

void packing_begin(struct books *books, enum packing_why why)
{
    char reason[160];
    if (__atomic_exchange_n(&books->is_packing, 1, __ATOMIC_RELAXED))
        return;
    if (why == PACKING_SHARE)
        snprintf(reason, sizeof reason, "those for small buffers take more than %llu per cent of its memory",
                 (unsigned long long)heap_options->max_overhead);
    else
        snprintf(reason, sizeof reason, "%s is nearly used up",
                 why == PACKING_SCARCE ? "its memory" : "cufence's address space (`ulimit -v`)");
    output_say(
        "cufence: from now on small buffers (up to 512 KiB) on GPU %d share pages of 2 MiB, because %s. Kernels check the "
        "redzones between them; a rotating few still have pages of their own, flush with a guard. small=map never "
        "packs, small=pack does from the start (`cufence docs memory`)\n",
        books->context->device, reason);
}
