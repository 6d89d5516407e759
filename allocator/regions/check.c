/* The checks: what they have found, and those of all free rows at once. */
#include "watch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/untold.h"
#include "heap/block/books.h"

#include <stdlib.h>
#include <string.h>

static void (*report_write)(const struct region_write *); /* constant after the start */

void regions_on_write(void (*report)(const struct region_write *found))
{
    report_write = report;
}

/* ---- what was found ---- */

struct gathered {
    struct region_write *list;
    size_t count;
};

/* Adds what the jobs of a row have found. */
static void gather_row(struct gathered *gathered, const struct work *work, size_t row, size_t first_job)
{
    const struct region_at *at = &work->at[row];
    struct region_write write = {.at = *at,
                                 .by = work->by,
                                 .found = {.since_ns = at->region.good_ns, .buffers = 1, .first_id = at->buffer},
                                 .until_ns = work->time_ns};
    struct slack_found *all = &write.found;
    for (size_t i = first_job; i < first_job + work_parts(at->bytes); i++) {
        const struct pattern_found *found = &work->jobs[i].found[0];
        if (work->states[i] != PATTERN_BAD)
            continue;
        if (!all->changed) {
            uint64_t left = work->jobs[i].check[0].end - found->first;
            all->address = found->first;
            all->byte_count = left < PATTERN_FOUND ? left : PATTERN_FOUND;
            memcpy(all->bytes, found->bytes, all->byte_count);
        }
        all->changed += found->count;
        all->span = found->last - all->address + 1;
    }
    all->byte_count = all->span < all->byte_count ? all->span : all->byte_count;
    if (!all->changed)
        return;
    struct region_write *grown = realloc(gathered->list, (gathered->count + 1) * sizeof *grown);
    if (!grown) {
        untold_for_ever();
        return;
    }
    gathered->list = grown;
    grown[gathered->count++] = write;
}

/* Takes what is over out of the list, in the order of its submission. Returns whether something is left. */
static int gather(struct context *context, struct gathered *gathered)
{
    lock_expect(RANK_REGIONS);
    struct region_context *within = context->books[CONTEXT_REGIONS];
    struct work *work, *next;
    if (!within)
        return 0;
    DL_FOREACH_SAFE(within->first, work, next)
    {
        if (!flight_is_over(&work->flight))
            continue;
        for (size_t i = 0, job = 0; i < work->rows && work->is_check; job += work_parts(work->at[i++].bytes))
            gather_row(gathered, work, i, job);
        DL_DELETE(within->first, work);
        flight_end(&work->flight);
        results_give(&within->results, work->memory);
        free(work);
    }
    return within->first != NULL && __atomic_load_n(&context->fault, __ATOMIC_RELAXED) == CUDA_SUCCESS;
}

/* Gathers from all contexts, gives the lock back and reports. Returns whether something is under way; *found grows. */
static int gather_all(size_t *found)
{
    struct gathered gathered = {NULL, 0};
    int is_pending = 0;
    lock_expect(RANK_REGIONS);
    for (struct context *context = context_next(NULL); context; context = context_next(context))
        is_pending |= gather(context, &gathered);
    untold_begin();
    lock_release(&regions_lock);
    for (size_t i = 0; i < gathered.count && report_write; i++)
        report_write(&gathered.list[i]);
    untold_end();
    free(gathered.list);
    *found += gathered.count;
    return is_pending;
}

/* On the background thread. Returns whether there will be more. */
int regions_collect(void)
{
    size_t found = 0;
    lock_take(&regions_lock);
    return gather_all(&found);
}

/* ---- all free rows ---- */

/* The free rows of a division that hold the pattern. Returns their number; *out is malloc'ed. */
size_t division_poisoned(const struct division *division, struct region_at **out)
{
    lock_expect(RANK_LEAF);
    size_t count = 0;
    for (uint64_t row = 0; row < division->rows; row++)
        count += division->regions[row].is_poisoned != 0;
    *out = count ? malloc(count * sizeof **out) : NULL;
    count = 0;
    for (uint64_t row = 0; row < division->rows && *out; row++) {
        if (division->regions[row].is_poisoned)
            division_describe(division, division->start + row * division->bytes, &(*out)[count++]);
    }
    return *out ? count : 0;
}

int rows_check(const struct region_work *all, uint64_t until_ms)
{
    lock_expect(RANK_REGIONS);
    int is_done = 1;
    for (size_t at = 0; at < all->count && is_done;) {
        struct region_work some = *all;
        some.rows += at;
        some.count = work_most(some.rows, all->count - at);
        at += some.count;
        uint64_t number = work_submit(&some);
        is_done = number && (!until_ms || work_await(all->context, number, until_ms));
    }
    return is_done;
}

/* Leaves out rows that were released meanwhile, whose pattern may still be missing. Returns how many are left. */
static size_t settled(struct region_at *rows, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (work_is_over(&rows[i]))
            rows[left++] = rows[i];
    }
    return left;
}

static void note_checked(const struct region_at *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct region *row = division_row(&rows[i]);
        if (row)
            row->good_ns = monotonic_ns();
    }
}

/* Checks the free rows of the next division behind the address, which it moves to the division's end. Returns 0 if there is
 * none. */
static int check_next(uint64_t *address, int device, uint64_t until_ms, int *is_done)
{
    struct region_at *rows = NULL;
    struct context *context = NULL;
    size_t count = 0;
    lock_take(&regions_table_lock);
    const struct division *division = division_next(*address);
    while (division && device >= 0 && division->context->device != device)
        division = division_next(division_end(division));
    if (division) {
        *address = division_end(division);
        context = division->context;
        count = division_poisoned(division, &rows);
    }
    lock_release(&regions_table_lock);
    count = settled(rows, count);
    const struct region_work work = {.context = context, .rows = rows, .count = count, .does = PATTERN_CHECK | PATTERN_RENEW};
    *is_done &= rows_check(&work, until_ms);
    lock_take(&regions_table_lock);
    note_checked(rows, count);
    lock_release(&regions_table_lock);
    free(rows);
    return context != NULL;
}

static cufence_status settle(struct context *context, int waits)
{
    if (__atomic_load_n(&context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return error_set(CUFENCE_ERROR_FAULTED, "a kernel has faulted on GPU %d, so its free rows cannot be checked",
                         context->device);
    struct scope scope = scope_visit(context); /* of one that has ended, the rows go with it */
    cufence_status status = waits && scope.pushed ? driver_check(heap_synchronise(), "cuCtxSynchronize") : CUFENCE_OK;
    scope_leave(scope);
    return status;
}

cufence_status regions_check(int device, int waits, unsigned timeout_ms, size_t *found)
{
    uint64_t until = monotonic_ms() + timeout_ms, address = 0;
    cufence_status status = CUFENCE_OK;
    int is_done = 1;
    if (!__atomic_load_n(&regions_are_used, __ATOMIC_ACQUIRE))
        return CUFENCE_OK;
    if (heap_captures())
        return error_set(CUFENCE_ERROR_UNSUPPORTED, "free rows cannot be checked while a stream is capturing");
    for (struct context *context = context_next(NULL); context && status == CUFENCE_OK; context = context_next(context)) {
        if (context->books[CONTEXT_REGIONS] && (device < 0 || context->device == device))
            status = settle(context, waits);
    }
    if (status != CUFENCE_OK)
        return status;
    lock_take(&regions_lock);
    while (is_done && check_next(&address, device, until, &is_done))
        continue;
    gather_all(found);
    return is_done ? CUFENCE_OK : error_set(CUFENCE_ERROR_TIMEOUT, "a device was too busy to check all free rows in time");
}
