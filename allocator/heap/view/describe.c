/* Looks up addresses and live buffers for descriptions and reports; off the fast path. */
#include "heap/reuse/reuse.h"

#include "guard/layout.h"
#include "heap/block/books.h"
#include "base/error.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

/* Finds the newest match in all histories. Returns 0 if there is none. */
static int recall(uint64_t address, int exact, struct facts *out)
{
    out->id = 0;
    for (struct books *books = books_next(NULL, -1); books; books = books_next(books, -1)) {
        HOLD(&books->lock);
        for (struct freelist *list = freelist_next(books, NULL); list; list = freelist_next(books, list))
            freelist_recall(list, address, exact, out);
    }
    return out->id != 0;
}

struct around {
    uint64_t address;
    cufence_buffer at;    /* buffer of the slot whose mapping or guard contains the address */
    cufence_buffer below; /* nearest live buffer that begins at or below the address */
    cufence_buffer above; /* nearest live buffer above */
    struct slot slot;     /* that contains the address, if it has no buffer: see slot_described() */
    uint64_t gap_start;
};

static void look_at(struct slot *slot, uint64_t gap_start, struct around *around)
{
    struct facts facts = facts_read((struct block *)slot);
    cufence_buffer buffer;
    int contains = around->address >= slot->base && around->address - slot->base < slot->span;
    if (!facts.id && contains) {
        around->slot = slot_described(slot);
        around->gap_start = gap_start;
    }
    if (!facts.id)
        return;
    facts_describe(&facts, slot, gap_start, &buffer);
    uint64_t then = __atomic_load_n(&((struct block *)slot)->ids_at_free, __ATOMIC_RELAXED);
    buffer.freed_ago = facts.freed_ns && then ? heap_ids() - then : 0;
    if (contains)
        around->at = buffer;
    if (facts.freed_ns)
        return;
    if (slot->base <= around->address) {
        if (!around->below.id || slot->base > around->below.mapping_start)
            around->below = buffer;
    } else if (!around->above.id || slot->base < around->above.mapping_start) {
        around->above = buffer;
    }
}

/* Looks at a cell. The page's guard behind it counts as its own if the address lies there. Returns whether its buffer is live.
 */
static int look_at_cell(const struct page *page, uint32_t number, uint64_t gap_start, struct around *around)
{
    const struct slot *whole = &page->block->slot;
    struct block *cell = &page->blocks[number];
    struct facts facts = facts_read(cell);
    int is_live = facts.id && !facts.freed_ns;
    struct block shown = {.slot = cell->slot, .facts = facts};
    if (is_live && !around->at.id && around->address >= whole->base + whole->mapped)
        shown.slot.span = whole->base + whole->span - shown.slot.base;
    look_at(&shown.slot, number ? shown.slot.base : gap_start, around);
    return is_live;
}

/* Of a packed page: the cell at the address, and the nearest live ones on both sides. */
static void look_at_cells(const struct page *page, uint64_t gap_start, struct around *around)
{
    uint64_t base = page->block->slot.base;
    uint32_t middle = around->address < base ? 0 : cells_at(&page->cells, around->address - base);
    for (uint32_t i = middle + 1; i-- > 0;) {
        if (look_at_cell(page, i, gap_start, around))
            break;
    }
    for (uint32_t i = middle + 1; i < page->cells.count; i++) {
        if (look_at_cell(page, i, gap_start, around))
            break;
    }
}

static void look(struct slot *slot, uint64_t gap_start, void *user)
{
    struct page *page = block_page_now((struct block *)slot);
    if (page)
        look_at_cells(page, gap_start, user);
    else
        look_at(slot, gap_start, user);
}

static void describe(uint64_t address, struct around *around, cufence_description *description)
{
    *around = (struct around){.address = address};
    memset(description, 0, sizeof *description);
    if (!arena_contains(address))
        return;
    arena_visit(address, 2, look, around);
    description->place = CUFENCE_PLACE_NO_BUFFER;
    struct facts past;
    if (!around->at.id && around->slot.span && !around->slot.is_mapped && recall(address, 0, &past))
        facts_describe(&past, &around->slot, around->gap_start, &around->at); /* it shared a page, which was unmapped */
    const cufence_buffer *at = around->at.id ? &around->at : NULL, *above = around->above.id ? &around->above : NULL;
    if (at && at->freed_ns) {
        if (layout_classify(address, at->address, at->size, &description->offset) == CUFENCE_PLACE_INSIDE) {
            description->place = CUFENCE_PLACE_FREED;
            description->buffer = *at;
            return;
        }
        at = NULL;
    }
    /* A guard belongs to both of its neighbours. Knowing nothing about the access, choose the nearer one. */
    if (at && above && address >= at->mapping_end && address >= above->guard_start &&
        above->address - address < address - (at->address + at->size))
        at = NULL;
    if (!at && above && address >= above->guard_start)
        at = above;
    /* The redzones of neighbours in a packed page touch. */
    const cufence_buffer *below = around->below.id ? &around->below : NULL;
    if (below && at != below && address >= below->mapping_end && address < below->mapping_end + CELLS_UNIT &&
        (!at || (address < at->address && address - (below->address + below->size) < at->address - address)))
        at = below;
    if (at) {
        description->place = layout_classify(address, at->address, at->size, &description->offset);
        description->buffer = *at;
    }
}

void heap_describe(uint64_t address, cufence_description *description)
{
    struct around around;
    describe(address, &around, description);
}

/* Finds an earlier buffer in the slot of `now`; `exact`: one that began at the address. The mapping is that of the slot
 * today. */
static int recall_in(const cufence_buffer *now, uint64_t address, int exact, cufence_buffer *out)
{
    struct facts facts;
    if (!now->id || !recall(address, exact, &facts))
        return 0;
    struct slot slot = {.base = now->mapping_start,
                        .mapped = now->mapping_end - now->mapping_start,
                        .span = now->guard_end - now->mapping_start,
                        .device = now->device,
                        .is_mapped = now->is_mapped};
    facts_describe(&facts, &slot, now->guard_start, out);
    return 1;
}

void heap_describe_free(uint64_t address, cufence_description *description)
{
    struct around around;
    describe(address, &around, description);
    if (around.at.address != address && recall_in(&around.at, address, 1, &description->buffer)) {
        description->place = CUFENCE_PLACE_FREED;
        description->offset = 0;
    }
}

size_t heap_near(uint64_t address, cufence_buffer *out, size_t max)
{
    struct around around = {.address = address};
    size_t count = 0;
    arena_visit(address, 64, look, &around);
    const cufence_buffer *const found[] = {&around.at, &around.below, &around.above};
    for (size_t i = 0; i < sizeof found / sizeof *found && count < max; i++) {
        int known = found[i]->id == 0;
        for (size_t k = 0; k < count; k++)
            known |= out[k].id == found[i]->id;
        if (!known)
            out[count++] = *found[i];
    }
    return count < max && recall_in(&around.at, address, 0, &out[count]) ? count + 1 : count;
}

struct newest {
    cufence_buffer *out;
    size_t count, max;
    int device;
    uint64_t total;
};

static int collect(struct slot *slot, void *user)
{
    struct newest *newest = user;
    struct facts facts = facts_read((struct block *)slot);
    if (!facts.id || facts.freed_ns || (newest->device >= 0 && slot->device != newest->device))
        return 0;
    newest->total++;
    size_t index = newest->count;
    while (index > 0 && newest->out[index - 1].id < facts.id)
        index--;
    if (index >= newest->max)
        return 0;
    size_t moved = newest->count - index;
    if (newest->count < newest->max)
        newest->count++;
    else
        moved--;
    memmove(&newest->out[index + 1], &newest->out[index], moved * sizeof *newest->out);
    facts_describe(&facts, slot, slot->base, &newest->out[index]);
    return 0;
}

size_t heap_live(int device, cufence_buffer *out, size_t max, uint64_t *total)
{
    struct newest newest = {.out = out, .max = max, .device = device};
    blocks_each(collect, &newest);
    *total = newest.total;
    return newest.count;
}

int heap_owns(uint64_t address)
{
    return arena_contains(address);
}

int heap_range_of(uint64_t address, struct heap_range *out)
{
    struct block *block = heap_owns(address) ? index_holding(address) : NULL;
    if (!block)
        return 0;
    struct facts facts = facts_read(block);
    if (facts.freed_ns || address < facts.address || address - facts.address >= facts.size)
        return 0;
    *out = (struct heap_range){.id = facts.id,
                               .address = facts.address,
                               .size = facts.size,
                               .context = block->books->context,
                               .device = block->slot.device,
                               .owner = block->owner,
                               .stream = facts.stream};
    block_pool_id(block, out->pool);
    return 1;
}

/* ---- what is mapped, and for whom ---- */

struct gathering {
    cufence_mapping *all;
    size_t count;
    int device;
    int has_failed;
};

static int gather(struct slot *slot, void *user)
{
    struct gathering *gathering = user;
    const struct block *block = (const struct block *)slot;
    if (!slot->is_mapped || slot->is_second || (gathering->device >= 0 && slot->device != gathering->device))
        return 0;
    gathering->has_failed = !list_make_room(&gathering->all, gathering->count, sizeof *gathering->all);
    if (gathering->has_failed)
        return 1;
    cufence_mapping *mapping = &gathering->all[gathering->count++];
    const struct facts facts = facts_read(block);
    enum block_state state = block_state_now(block);
    *mapping = (cufence_mapping){.is_live = facts.id && !facts.freed_ns,
                                 .is_waiting = state == BLOCK_WAITING || state == BLOCK_RETIRING};
    facts_describe(&facts, slot, slot->base, &mapping->buffer);
    block_pool_id(block, mapping->pool);
    return 0;
}

cufence_status heap_mappings(int device, cufence_mapping **out, size_t *count)
{
    struct gathering gathering = {.device = device};
    blocks_each(gather, &gathering);
    if (gathering.has_failed) {
        free(gathering.all);
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for a list of %zu mappings", gathering.count + 1);
    }
    *out = gathering.all;
    *count = gathering.count;
    return CUFENCE_OK;
}
