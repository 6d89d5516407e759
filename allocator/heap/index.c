#include "internal.h"

#include "error.h"
#include "guard/layout.h"

#include <stdlib.h>
#include <string.h>

#define SHARDS 64

/* A part of the index of live buffers, and of the history of buffers whose block serves another one by now. */
struct shard {
    _Alignas(64) pthread_mutex_t lock;
    struct block *live;  /* uthash */
    struct block anchor; /* always in it, because uthash frees the table with its last entry and makes it anew with the first */
    struct facts *history;
    size_t position, filled;
};

static struct shard shards[SHARDS];
static size_t history_size; /* of each shard */

static struct shard *shard_of(uint64_t address)
{
    return &shards[index_hash(address) >> 26];
}
_Static_assert(SHARDS == 1 << (32 - 26), "shard_of() takes the top bits of a 32-bit hash");

cufence_status index_open(uint64_t history)
{
    history_size = (size_t)((history + SHARDS - 1) / SHARDS);
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &shards[i];
        pthread_mutex_init(&shard->lock, NULL);
        HASH_ADD(hh, shard->live, key, sizeof shard->anchor.key, &shard->anchor);
        shards[i].history = calloc(history_size ? history_size : 1, sizeof(struct facts));
        if (!shards[i].history)
            return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for history=%llu",
                             (unsigned long long)history);
    }
    return CUFENCE_OK;
}

void index_add(struct block *block, const struct facts *previous)
{
    struct shard *shard = shard_of(block->key);
    pthread_mutex_lock(&shard->lock);
    if (previous->id && history_size) {
        shard->history[shard->position] = *previous;
        shard->position = shard->position + 1 == history_size ? 0 : shard->position + 1;
        if (shard->filled < history_size)
            shard->filled++;
    }
    HASH_ADD(hh, shard->live, key, sizeof block->key, block);
    pthread_mutex_unlock(&shard->lock);
}

struct block *index_remove(uint64_t address, CUstream **recorded, uint32_t *count)
{
    struct shard *shard = shard_of(address);
    struct block *block;
    pthread_mutex_lock(&shard->lock);
    HASH_FIND(hh, shard->live, &address, sizeof address, block);
    if (block && block != &shard->anchor) {
        HASH_DEL(shard->live, block);
        *recorded = block->recorded;
        *count = block->recorded_count;
        block->recorded = NULL;
        block->recorded_count = 0;
    } else {
        block = NULL;
    }
    pthread_mutex_unlock(&shard->lock);
    return block;
}

cufence_status index_record_stream(uint64_t address, CUstream stream)
{
    struct shard *shard = shard_of(address);
    struct block *block;
    cufence_status status = CUFENCE_OK;
    pthread_mutex_lock(&shard->lock);
    HASH_FIND(hh, shard->live, &address, sizeof address, block);
    uint32_t known = 0;
    if (block == &shard->anchor)
        block = NULL;
    if (block) {
        while (known < block->recorded_count && block->recorded[known] != stream)
            known++;
    }
    if (!block) {
        status = error_set(CUFENCE_ERROR_NOT_FOUND, "no live buffer starts at 0x%llx", (unsigned long long)address);
    } else if (known == block->recorded_count) {
        CUstream *grown = realloc(block->recorded, (known + 1) * sizeof *grown);
        if (grown) {
            block->recorded = grown;
            block->recorded[block->recorded_count++] = stream;
        } else {
            status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to record a stream");
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return status;
}

int index_history(uint64_t address, int exact, struct facts *out)
{
    out->id = 0;
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&shards[i].lock);
        for (size_t k = 0; k < shards[i].filled; k++) {
            const struct facts *facts = &shards[i].history[k];
            if (facts->id > out->id &&
                (exact ? facts->address == address : address >= facts->address && address - facts->address < facts->size))
                *out = *facts;
        }
        pthread_mutex_unlock(&shards[i].lock);
    }
    return out->id != 0;
}

void index_forget(struct slot *slot)
{
    struct block *block = (struct block *)slot;
    pthread_spin_destroy(&block->lock);
    free(block);
}

void facts_describe(const struct facts *facts, const struct slot *slot, uint64_t gap_start, cufence_buffer *out)
{
    *out = (cufence_buffer){
        .id = facts->id,
        .address = facts->address,
        .size = facts->size,
        .mapping_start = slot->base,
        .mapping_end = slot->base + slot->mapped,
        .guard_start = gap_start,
        .guard_end = slot->base + slot->span,
        .stream = facts->stream,
        .allocated_ns = facts->allocated_ns,
        .freed_ns = facts->freed_ns,
        .free_stream = facts->free_stream,
        .allocated_tid = facts->allocated_tid,
        .freed_tid = facts->freed_tid,
        .device = slot->device,
        .is_mapped = slot->is_mapped,
    };
    if (facts->label)
        strncpy(out->label, facts->label, sizeof out->label - 1);
}

/* The facts of the buffer in a slot; id 0 if there never was one. Expects the arena's lock. */
static struct facts facts_of(struct slot *slot)
{
    struct block *block = (struct block *)slot;
    pthread_spin_lock(&block->lock);
    struct facts facts = block->facts;
    pthread_spin_unlock(&block->lock);
    return facts;
}

struct around {
    uint64_t address;
    cufence_buffer at;    /* the slot whose mapping or guard holds the address */
    cufence_buffer below; /* nearest live one that begins at or below the address */
    cufence_buffer above; /* nearest live one above */
};

static void look(struct slot *slot, uint64_t gap_start, void *user)
{
    struct around *around = user;
    struct facts facts = facts_of(slot);
    cufence_buffer buffer;
    if (!facts.id)
        return;
    facts_describe(&facts, slot, gap_start, &buffer);
    if (around->address >= slot->base && around->address - slot->base < slot->span)
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

void heap_describe(uint64_t address, cufence_description *description)
{
    struct around around = {.address = address};
    memset(description, 0, sizeof *description);
    if (address < arena_start() || address >= arena_end())
        return;
    arena_visit(address, 2, look, &around);
    description->place = CUFENCE_PLACE_NO_BUFFER;
    const cufence_buffer *at = around.at.id ? &around.at : NULL, *above = around.above.id ? &around.above : NULL;
    if (at && at->freed_ns) {
        if (layout_classify(address, at->address, at->size, &description->offset) == CUFENCE_PLACE_INSIDE) {
            description->place = CUFENCE_PLACE_FREED;
            description->buffer = *at;
            return;
        }
        at = NULL;
    }
    /* A guard belongs to both its neighbours; without an access that says more, to the nearer one. */
    if (at && above && address >= at->mapping_end && address >= above->guard_start &&
        above->address - address < address - (at->address + at->size))
        at = NULL;
    if (!at && above && address >= above->guard_start)
        at = above;
    if (at) {
        description->place = layout_classify(address, at->address, at->size, &description->offset);
        description->buffer = *at;
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
    struct facts facts;
    if (around.at.id && count < max && index_history(address, 0, &facts)) {
        /* An earlier buffer in the same slot; the slot's own facts stand for it. */
        struct slot slot = {.base = around.at.mapping_start,
                            .mapped = around.at.mapping_end - around.at.mapping_start,
                            .span = around.at.guard_end - around.at.mapping_start,
                            .device = around.at.device,
                            .is_mapped = around.at.is_mapped};
        facts_describe(&facts, &slot, around.at.guard_start, &out[count++]);
    }
    return count;
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
    struct facts facts = facts_of(slot);
    if (!facts.id || facts.freed_ns || (newest->device >= 0 && slot->device != newest->device))
        return 0;
    newest->total++;
    size_t place = newest->count;
    while (place > 0 && newest->out[place - 1].id < facts.id)
        place--;
    if (place >= newest->max)
        return 0;
    size_t moved = newest->count - place;
    if (newest->count < newest->max)
        newest->count++;
    else
        moved--;
    memmove(&newest->out[place + 1], &newest->out[place], moved * sizeof *newest->out);
    facts_describe(&facts, slot, slot->base, &newest->out[place]);
    return 0;
}

size_t heap_live(int device, cufence_buffer *out, size_t max, uint64_t *total)
{
    struct newest newest = {.out = out, .max = max, .device = device};
    arena_each(collect, &newest);
    *total = newest.total;
    return newest.count;
}
