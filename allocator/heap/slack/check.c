/* Slack watch: checks all buffers at once, after a synchronisation. */
#include "watch.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lost_reports.h"

#include <stdlib.h>

#define PAUSE_US 20u

/* Checks the buffer. A live one counts from its allocation, and a freed one with those before it. */
static void add_check(struct watch *watch, struct batch *batch, struct slack *slack)
{
    struct batch_buffer *buffer = &batch->buffers[batch->count];
    slack_dequeue(slack);
    batch->jobs[batch->count] = (struct pattern_job){.does = PATTERN_CHECK | PATTERN_RENEW};
    slack_ranges(slack->block, slack->layout, batch->jobs[batch->count].check);
    *buffer = slack_described(slack);
    buffer->facts = facts_read(slack->block);
    if (!buffer->facts.freed_ns && !buffer->buffers++)
        buffer->first_id = buffer->facts.id;
    watch->checked++;
}

/* Writes a pattern that has been waiting for that, in a queue or because that was full. */
static void add_write(struct batch *batch, struct slack *slack)
{
    slack->does = 0; /* so that it is not forgotten with its place in the queue */
    slack_dequeue(slack);
    batch->jobs[batch->count] = (struct pattern_job){.does = PATTERN_WRITE};
    slack_ranges(slack->block, slack->layout, batch->jobs[batch->count].write);
}

static void add(struct watch *watch, struct batch *batch, struct slack *slack, uint64_t now)
{
    if (slack->is_written)
        add_check(watch, batch, slack);
    else
        add_write(batch, slack);
    slack->batch = batch;
    slack->turn = batch->flight.turn + 1;
    slack_watched(slack, now, SINCE_ALL);
    batch->count++;
}

/* What was found. */
struct gathered {
    struct heap_slack *found;
    size_t count;
};

static int make_room(struct gathered *gathered)
{
    struct heap_slack *grown = realloc(gathered->found, (gathered->count + 2 * SLACK_MOST) * sizeof *grown);
    if (grown)
        gathered->found = grown;
    return grown != NULL;
}

/* Checks the next buffers from *at on. Returns 0 if that fails. In a scope; caller holds the lock. */
static int check_some(struct watch *watch, struct slack **at, struct gathered *gathered, uint64_t until)
{
    lock_expect(RANK_SLACK);
    struct batch *batch = make_room(gathered) ? batch_take(watch) : NULL;
    uint64_t now = now_ns();
    if (!batch)
        return 0;
    for (; *at && batch->count < SLACK_MOST; *at = (*at)->next) {
        if (slack_is_over(*at) && (*at)->layout.size && (*at)->does != (PATTERN_CHECK | PATTERN_WRITE))
            add(watch, batch, *at, now);
    }
    if (!batch->count)
        return 1;
    if (!batch_run(watch, batch, until))
        return 0;
    gathered->count += batch_collect(watch, batch, gathered->found + gathered->count, 2 * SLACK_MOST);
    return 1;
}

/* Returns 0 if not all could be checked in time. */
static int check_all(struct watch *watch, uint64_t until, size_t *total)
{
    struct gathered gathered = {NULL, 0};
    int is_done = 1;
    lock_take(&watch->lock);
    struct slack *at = watch_is_ready(watch) ? watch->slacks : NULL;
    while (at && is_done)
        is_done = check_some(watch, &at, &gathered, until);
    untold_begin();
    lock_release(&watch->lock);
    slack_report_found(watch->books, gathered.found, gathered.count); /* not under the lock: it calls the program's handler */
    *total += gathered.count;
    free(gathered.found);
    return is_done;
}

/* Whether a launch is under way whose batch had that turn. */
static int is_flying(struct watch *watch, const uint64_t turns[BATCHES])
{
    int is = 0;
    HOLD(&watch->lock);
    for (unsigned i = 0; i < BATCHES && !is; i++)
        is = watch->batches[i].flight.turn == turns[i] && !flight_is_over(&watch->batches[i].flight);
    return is;
}

/* What the background thread launched meanwhile was left out, and nobody would collect it after the last check. Returns 0 if it
 * is not over in time. */
static int collect_rest(struct watch *watch, uint64_t until, size_t *total)
{
    int is_over;
    uint64_t turns[BATCHES];
    lock_take(&watch->lock);
    for (unsigned i = 0; i < BATCHES; i++)
        turns[i] = watch->batches[i].flight.turn;
    lock_release(&watch->lock);
    while (!(is_over = !is_flying(watch, turns)) && monotonic_ms() < until)
        aside_sleep(PAUSE_US);
    *total += slack_collect(watch->books);
    return is_over;
}

/* In a scope. */
static cufence_status check_context(struct books *books, int waits, uint64_t until, size_t *total)
{
    struct watch *watch = __atomic_load_n(&books->watch, __ATOMIC_ACQUIRE);
    if (!watch)
        return CUFENCE_OK;
    if (__atomic_load_n(&books->context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return error_set(CUFENCE_ERROR_FAULTED, "a kernel has faulted on GPU %d, so its buffers cannot be checked",
                         books->context->device);
    cufence_status status = waits ? driver_check(heap_synchronise(), "cuCtxSynchronize") : CUFENCE_OK;
    if (status != CUFENCE_OK)
        return status;
    *total += slack_collect(books);
    int is_done = poison_check(watch, until, total) & check_all(watch, until, total) & collect_rest(watch, until, total);
    return is_done
               ? CUFENCE_OK
               : error_set(CUFENCE_ERROR_TIMEOUT, "GPU %d was too busy to check all buffers in time", books->context->device);
}

struct heap_slack_figures heap_slack_figures(void)
{
    struct heap_slack_figures figures = {0};
    for (struct context *context = context_next_ever(NULL); context; context = context_next_ever(context)) {
        struct books *books = books_of(context);
        struct watch *watch = books ? __atomic_load_n(&books->watch, __ATOMIC_ACQUIRE) : NULL;
        if (!watch)
            continue;
        HOLD(&watch->lock);
        figures.launches += watch->launches;
        figures.checked += watch->checked;
        figures.missed += watch->missed;
        figures.late += __atomic_load_n(&watch->late, __ATOMIC_RELAXED);
    }
    return figures;
}

int heap_watches(void)
{
    int is_watched = heap_options->slack;
    for (const struct books *books = books_next(NULL, -1); books && !is_watched; books = books_next(books, -1))
        is_watched = __atomic_load_n(&books->watch, __ATOMIC_ACQUIRE) != NULL;
    return is_watched;
}

static cufence_status refuse_captures(void)
{
    return heap_captures() ? error_set(CUFENCE_ERROR_UNSUPPORTED, "a stream is capturing; check before or after that")
                           : CUFENCE_OK;
}

cufence_status heap_check_context(struct context *context, unsigned timeout_ms)
{
    struct books *books = books_of(context);
    cufence_status status = refuse_captures();
    size_t found = 0;
    SCOPE scope = scope_visit(context);
    if (status == CUFENCE_OK && books && scope.pushed)
        status = check_context(books, 0, monotonic_ms() + timeout_ms, &found);
    return status;
}

cufence_status heap_check_slack(int device, int waits, unsigned timeout_ms, size_t *found)
{
    cufence_status status = heap_check_device(device);
    uint64_t until = monotonic_ms() + timeout_ms;
    *found = 0;
    if (status == CUFENCE_OK && !heap_watches())
        status = error_set(CUFENCE_ERROR_UNSUPPORTED,
                           "the slack of buffers is not watched, and none share pages; start cufence with slack=on");
    if (status == CUFENCE_OK)
        status = refuse_captures();
    for (struct books *books = books_next(NULL, device); status == CUFENCE_OK && books; books = books_next(books, device)) {
        SCOPE scope = scope_visit(books->context);
        if (scope.pushed)
            status = check_context(books, waits, until, found);
    }
    return status;
}
