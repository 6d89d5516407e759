#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/output.h"
#include "base/untold.h"
#include "base/list.h"
#include "finding/launched.h"
#include "lens/kernels/tables.ptx.h"
#include "launch/lens_table.h"
#include "lens/lens.h"
#include "lens/values/names.h"
#include "registry.h"
#include "witness/tell.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TOLD 4 /* elements of a table, of one launch: the lowest that were found; the rest are counted */

_Static_assert((int)TABLE_OUTSIDE == TABLES_OUTSIDE && (int)TABLE_FREE == TABLES_FREE && (int)TABLE_OTHER == TABLES_OTHER, "");

/* A table in a visit's memory, with what its rows were when the launch was made; what the kernel finds; and behind the last one
 * of a visit a byte for each row of those that are for one owner. */
struct looked {
    struct table table;
    uint64_t rows, bytes; /* rows from table.rows on, and the size of one */
    uint64_t states, owned;
    char name[REGION_TEXT];
    struct tables_out out;
};

struct head {
    uint64_t count;
    uint64_t is_told; /* before the launch, which is held back */
    struct looked looked[];
};

static uint64_t unseen; /* atomic: launches that were not looked at */

/* ---- what is looked at ---- */

static int wants_number(const struct launch_function *function, const struct launch_call *call, uint64_t number)
{
    (void)number;
    return tables_may_be_given(function, call);
}

static int wants(const struct visit *visit)
{
    struct table table;
    return tables_of(visit, &table, 1) != 0;
}

struct owned {
    const char *owner;
    uint8_t *bytes;
    uint64_t first; /* number of the row that the first byte is for */
};

static void note_owned(const struct region_at *at, void *user)
{
    const struct owned *owned = user;
    owned->bytes[at->row - owned->first] = at->region.state == REGION_LIVE && !strcmp(at->region.owner, owned->owner);
}

/* Adds a table whose rows are still a division, if there is room for it. Returns the bytes that it takes. */
static size_t plan_one(const struct table *table, struct looked *out, uint8_t *bytes, size_t room)
{
    struct region_at at;
    if (!region_find(table->rows, &at) || at.offset || at.buffer != table->rows_range.id)
        return 0;
    uint64_t rows = at.rows - at.row, owned = table->owner[0] ? visit_rounded(rows) : 0;
    if (!out || sizeof *out + owned > room)
        return out ? 0 : sizeof *out + owned;
    *out = (struct looked){.table = *table, .rows = rows, .bytes = at.bytes, .states = at.states ? at.states + at.row : 0};
    memcpy(out->name, at.name, sizeof out->name);
    if (owned) {
        struct owned to = {out->table.owner, bytes, at.row};
        out->owned = (uintptr_t)bytes;
        regions_walk(table->rows, table->rows + rows * at.bytes, note_owned, &to);
    }
    return sizeof *out + owned;
}

/* Fills in the visit's memory, and returns the bytes that it needs; head: NULL: only that. Tables may change in between. */
static size_t plan(const struct visit *visit, struct head *head, size_t room)
{
    struct table *tables = malloc(TABLES_OF_LAUNCH * sizeof *tables);
    size_t count = tables ? tables_of(visit, tables, TABLES_OF_LAUNCH) : 0, used = sizeof *head + count * sizeof *head->looked;
    uint8_t *end = (uint8_t *)head + room; /* from there downwards: the bytes for rows */
    size_t left = room > sizeof *head ? room - sizeof *head : 0;
    for (size_t i = 0; i < count && !head; i++)
        used += plan_one(&tables[i], NULL, NULL, 0);
    for (size_t i = 0; i < count && head; i++) {
        struct region_at at;
        size_t owned = tables[i].owner[0] && region_find(tables[i].rows, &at) ? visit_rounded(at.rows - at.row) : 0;
        size_t taken = owned <= left ? plan_one(&tables[i], &head->looked[head->count], end - owned, left) : 0;
        left -= taken;
        end -= taken ? owned : 0;
        head->count += taken != 0;
    }
    free(tables);
    return used;
}

static size_t size(const struct visit *visit)
{
    return plan(visit, NULL, 0);
}

/* ---- the kernel ---- */

static uint32_t blocks_of(const struct looked *looked)
{
    uint64_t blocks = (looked->table.count + TABLES_THREADS - 1) / TABLES_THREADS;
    return blocks < TABLES_MOST_BLOCKS ? (uint32_t)blocks : TABLES_MOST_BLOCKS;
}

static void submit(struct visit_part *part, struct looked *looked, size_t count)
{
    struct tables_items items = {.count = (uint32_t)count};
    uint32_t blocks = 0;
    for (size_t i = 0; i < count; i++) {
        const struct table *table = &looked[i].table;
        items.items[i] = (struct tables_item){.start = table->start,
                                              .count = table->count,
                                              .run = table->run,
                                              .pitch = table->pitch,
                                              .rows = looked[i].rows,
                                              .states = looked[i].states,
                                              .owned = looked[i].owned,
                                              .out = (uintptr_t)&looked[i].out,
                                              .allowed = table->allowed,
                                              .width = table->width,
                                              .first_block = blocks,
                                              .blocks = blocks_of(&looked[i])};
        memcpy(items.items[i].allow, table->allow, sizeof table->allow);
        blocks += items.items[i].blocks;
    }
    visit_launch(part, 0, blocks, TABLES_THREADS, (void *[]){&items});
}

/* ---- what was found ---- */

static int by_element(const void *a, const void *b)
{
    uint64_t one = ((const struct tables_found *)a)->element, other = ((const struct tables_found *)b)->element;
    return LIST_ORDER(one, other);
}

/* What a report needs besides the fact. Too large for the stack. */
struct report_parts {
    struct stack_frame launched[STACK_READ], taken[STACK_READ], released[STACK_READ];
    char plain[512];
    cufence_buffer buffer;
    struct region_at at;
    struct region_fact region;
};

static struct region_event event_of(const struct region *region, int is_release, struct stack_frame frames[STACK_READ])
{
    struct region_event event = {region->taken_ns, region->taken_tid, region->taken_stream, .frames = frames};
    if (is_release)
        event = (struct region_event){region->freed_ns, region->freed_tid, region->freed_stream, .frames = frames};
    event.frame_count = stack_interned_frames(is_release ? region->freed_stack : region->taken_stack, frames, STACK_READ);
    return event;
}

/* The row, as it is by now. Returns 0 if there is none. */
static int take_row(const struct looked *looked, const struct table_fact *fact, struct report_parts *parts)
{
    const struct region *region = &parts->at.region;
    uint64_t address = looked->table.rows + (uint64_t)fact->value.whole * looked->bytes;
    if (fact->why == TABLE_OUTSIDE || !region_find(address, &parts->at) || parts->at.bytes != looked->bytes)
        return 0;
    int was_free = fact->why == TABLE_FREE, is_free = region->state == REGION_FREE;
    parts->region = (struct region_fact){.name = parts->at.name,
                                         .row = parts->at.row,
                                         .rows = parts->at.rows,
                                         .bytes = parts->at.bytes,
                                         .state = was_free ? REGION_IS_FREE : REGION_IS_LIVE};
    if (was_free)
        parts->region.released = event_of(region, 1, parts->released);
    if (!is_free)
        parts->region.taken = event_of(region, 0, parts->taken);
    (is_free ? &parts->region.released : &parts->region.taken)->owner = region->owner;
    return 1;
}

static void tell(const struct visit *visit, const struct looked *looked, const struct tables_found *found, int is_held)
{
    struct report_parts *parts = calloc(1, sizeof *parts);
    const struct table *table = &looked->table;
    if (!parts) {
        untold_for_ever();
        return;
    }
    arguments_describe(&table->range, &parts->buffer);
    struct table_fact fact = {.is_held = is_held,
                              .buffer = &parts->buffer,
                              .buffer_frames = {stack_buffer_frames, NULL},
                              .address = table->start + found->element / table->run * table->pitch +
                                         found->element % table->run * table->width,
                              .element = found->element,
                              .count = table->count,
                              .wrong = looked->out.count,
                              .width = table->width,
                              .value = {.kind = SCALAR_WHOLE, .whole = found->value},
                              .why = (enum table_why)found->why,
                              .rows = looked->rows,
                              .name = looked->name,
                              .wants = table->owner,
                              .now_ns = monotonic_ns()};
    names_launched(visit, &fact.by, parts->launched, parts->plain, sizeof parts->plain);
    fact.region = take_row(looked, &fact, parts) ? &parts->region : NULL;
    tell_table(&fact, visit->device, is_held);
    free(parts);
}

/* Returns whether an element is wrong. */
static int tell_all(const struct visit *visit, struct head *head, int is_held)
{
    int is_wrong = 0;
    for (size_t i = 0; i < head->count; i++) {
        struct looked *looked = &head->looked[i];
        size_t count = looked->out.count < TABLES_FOUND ? looked->out.count : TABLES_FOUND;
        qsort(looked->out.found, count, sizeof *looked->out.found, by_element);
        for (size_t at = 0; at < count && at < TOLD; at++)
            tell(visit, looked, &looked->out.found[at], is_held);
        is_wrong |= count != 0;
    }
    return is_wrong;
}

/* Waits for the check, and holds the launch back if an element is wrong. */
static void hold(struct visit_part *part, struct head *head)
{
    if (part->failure != CUDA_SUCCESS || driver->cuStreamSynchronize(part->visit->handle) != CUDA_SUCCESS)
        return;
    head->is_told = 1;
    if (tell_all(part->visit, head, 1))
        contexts_set_faulted(part->visit->device, CUDA_ERROR_ASSERT); /* if no report could be made, too */
}

static void before(struct visit_part *part)
{
    struct head *head = (struct head *)(void *)part->memory;
    int stops = 0;
    plan(part->visit, head, part->bytes);
    for (size_t i = 0; i < head->count; i += TABLES_ITEMS)
        submit(part, &head->looked[i], head->count - i < TABLES_ITEMS ? head->count - i : TABLES_ITEMS);
    for (size_t i = 0; i < head->count; i++)
        stops |= head->looked[i].table.stops;
    if (stops)
        hold(part, head);
}

static void finished(const struct visit *visit, uint8_t *results, size_t bytes, enum visit_end how)
{
    struct head *head = (struct head *)(void *)results;
    (void)bytes;
    (void)how;
    if (!head)
        __atomic_fetch_add(&unseen, 1, __ATOMIC_RELAXED);
    else if (!head->is_told)
        tell_all(visit, head, 0);
}

static void closed(void)
{
    uint64_t count = __atomic_load_n(&unseen, __ATOMIC_RELAXED);
    if (count)
        output_say("cufence: the tables of %" PRIu64 " launch%s were not checked: the device was faster, or has faulted\n",
                   count, count == 1 ? "" : "es");
}

cufence_status tables_declare(const cufence_table *table, const struct options *options)
{
    static const struct visit_user user = {.ptx = tables_ptx,
                                           .kernels = {TABLES_KERNEL},
                                           .looks_at_all = 1,
                                           .wants_graphs = 1,
                                           .wants_number = wants_number,
                                           .wants = wants,
                                           .size = size,
                                           .before = before,
                                           .finished = finished,
                                           .closed = closed};
    static struct lock lock = LOCK(RANK_LEAF);
    static int is_added; /* under the lock */
    if (!contexts_are_watched())
        return error_set(CUFENCE_ERROR_UNSUPPORTED,
                         "cufence sees no launches: start the program with `cufence run`, which shows it them");
    cufence_status status = table_declare(table);
    HOLD(&lock);
    if (status == CUFENCE_OK && !is_added) {
        visits_open(options);
        visits_add_late(&user);
        if (!lens_now())
            lens_register();
        is_added = 1;
    }
    return status;
}
