/* What is packed: small buffers, once that has begun, except a rotating few of each place of allocation. */
#include "pack.h"

#include "heap/block/places.h"
#include "heap/graphs/graphs.h"

#include "base/options.h"
#include "base/output.h"

#include <stdio.h>

#define MOST_SHARE 5 /* small=auto: all pack once the pages of small buffers take so many per cent of a device's memory */

int packing_may(const struct freelist *list, const struct heap_request *wanted, uint64_t align, struct cells *out)
{
    return heap_options->small != SMALL_MAP && wanted->size <= CELLS_SIZE_MOST && !list->pool &&
           wanted->device == list->books->context->device && !heap_may_capture() &&
           cells_for(heap_granularity, wanted->size, align, out);
}

static int has_idle_page(struct freelist *list)
{
    list_lock(list);
    int has = list->bins[freelist_bin(1)] != NULL;
    list_unlock(list);
    return has;
}

/* Whether another page may be mapped for one small buffer. While there is room, twice as many may be if it is the first of its
 * place: what other places hold for long keeps none from the hardware. */
static int may_be_alone(const struct books *books, struct cells_turns turns, int is_first)
{
    int is_half = turns.round == CELLS_HALF.round;
    uint64_t alone = __atomic_load_n(&books->alone_bytes, __ATOMIC_RELAXED);
    return cells_may_be_alone(turns, heap_granularity, is_half && is_first ? alone / 2 : alone,
                              __atomic_load_n(is_half ? &books->mapped_bytes : &books->packed_mapped, __ATOMIC_RELAXED));
}

int packing_wants(struct freelist *list, const struct heap_request *wanted, uint64_t align, uint64_t label, struct cells *out)
{
    if (!packing_may(list, wanted, align, out))
        return 0;
    const struct facts facts = {
        .size = wanted->size, .stream = wanted->stream ? (uint64_t)(uintptr_t)wanted->stream->handle : 0, .label = label};
    struct place *place = place_of(&facts);
    struct cells_turns turns =
        __atomic_load_n(&list->books->packing, __ATOMIC_RELAXED) == PACKING_HALF ? CELLS_HALF : CELLS_ALL;
    uint32_t before = __atomic_load_n(&place->packed, __ATOMIC_RELAXED);
    int is_due = before % turns.round == 0;
    if (is_due && !has_idle_page(list) && !may_be_alone(list->books, turns, !before))
        return 1; /* its turn comes when there is a page */
    __atomic_add_fetch(&place->packed, 1, __ATOMIC_RELAXED);
    return !is_due;
}

static uint64_t share_of(struct books *books)
{
    size_t total = 0;
    uint64_t most = __atomic_load_n(&books->alone_most, __ATOMIC_RELAXED);
    if (!most && driver->cuDeviceTotalMem(&total, books->context->device) == CUDA_SUCCESS) {
        most = total / 100 * MOST_SHARE + 1;
        __atomic_store_n(&books->alone_most, most, __ATOMIC_RELAXED);
    }
    return most ? most : UINT64_MAX;
}

int packing_is_due(struct books *books)
{
    return __atomic_load_n(&books->alone_bytes, __ATOMIC_RELAXED) + heap_granularity > share_of(books);
}

int packing_begin_half(struct books *books)
{
    enum packing none = PACKING_NONE;
    if (heap_options->small != SMALL_AUTO || heap_options->uaf == UAF_STRICT || may_be_alone(books, CELLS_HALF, 0) ||
        !__atomic_compare_exchange_n(&books->packing, &none, PACKING_HALF, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return 0;
    heap_mark(RARE_PACKING);
    return 1;
}

void packing_begin(struct books *books, enum packing_why why)
{
    char reason[160];
    if (__atomic_exchange_n(&books->packing, PACKING_ALL, __ATOMIC_RELAXED) == PACKING_ALL)
        return;
    heap_mark(RARE_PACKING);
    if (why == PACKING_SHARE)
        snprintf(reason, sizeof reason, "those for small buffers take more than %d per cent of its memory", MOST_SHARE);
    else
        snprintf(reason, sizeof reason, "%s is nearly used up",
                 why == PACKING_SCARCE ? "its memory" : "cufence's address space (`ulimit -v`)");
    output_say(
        "cufence: from now on small buffers (up to 512 KiB) on GPU %d share pages of 2 MiB, because %s. Kernels check the "
        "redzones between them; a rotating few still have pages of their own, flush with a guard. small=map never "
        "packs, small=pack does from the start (see docs/memory.md)\n",
        books->context->device, reason);
}
