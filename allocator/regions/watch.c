#include "watch.h"

#include "base/aside.h"
#include "base/clock.h"
#include "heap/reuse/reuse.h"

#include <stdlib.h>
#include <string.h>

#define PART (UINT64_C(64) << 10) /* bytes of a job, unless a row has more than PARTS of them */
#define PARTS 512u
#define JOBS 1024u /* of a launch */
#define PINNED (UINT64_C(64) << 20)
#define PAUSE_US 20u
#define FOLLOW_MS 1000 /* the most that a thread waits for work on a stream that it can't order another one behind */

struct lock regions_lock = LOCK(RANK_REGIONS);

static uint64_t works; /* under the lock */

/* ---- contexts ---- */

struct region_context *region_context_of(struct context *context)
{
    lock_expect(RANK_REGIONS);
    struct region_context *within = context->books[CONTEXT_REGIONS];
    if (!within && (within = calloc(1, sizeof *within)) != NULL) {
        within->results.limit = PINNED;
        context->books[CONTEXT_REGIONS] = within;
    }
    if (within && !within->is_ready && !within->is_off) {
        struct scope scope = scope_enter(context);
        within->is_ready = scope.pushed && pattern_load(&within->pattern, &within->fill);
        within->is_off = !within->is_ready;
        scope_leave(scope);
    }
    return within && within->is_ready ? within : NULL;
}

static struct stream *own_stream(struct context *context)
{
    struct books *books = books_of(context);
    return books ? books_stream(books) : NULL;
}

CUdeviceptr states_take(struct context *context, uint64_t rows)
{
    struct region_context *within = region_context_of(context);
    struct scope scope = scope_enter(context);
    struct stream *own = scope.pushed && within && driver->cuMemAlloc && driver->cuMemFree ? own_stream(context) : NULL;
    CUdeviceptr states = 0;
    while (own && within->given) {
        struct given *given = within->given;
        within->given = given->next;
        driver->cuMemFree(given->states);
        free(given);
    }
    if (own && driver->cuMemAlloc(&states, rows) != CUDA_SUCCESS)
        states = 0;
    if (states && (driver->cuMemsetD8Async(states, REGION_LIVE, rows, own->handle) != CUDA_SUCCESS ||
                   driver->cuStreamSynchronize(own->handle) != CUDA_SUCCESS)) {
        driver->cuMemFree(states);
        states = 0;
    }
    scope_leave(scope);
    return states;
}

void states_give(struct context *context, CUdeviceptr states)
{
    struct region_context *within = context->books[CONTEXT_REGIONS];
    struct given *given = within && states ? malloc(sizeof *given) : NULL;
    if (!given) /* without host memory it stays until the context ends */
        return;
    *given = (struct given){states, within->given};
    within->given = given;
}

void regions_context_gone(struct context *context)
{
    struct region_context *within = context->books[CONTEXT_REGIONS];
    struct work *work, *next_work;
    struct given *given, *next_given;
    if (!within)
        return;
    HOLD(&regions_lock);
    DL_FOREACH_SAFE(within->first, work, next_work)
    free(work);
    LL_FOREACH_SAFE(within->given, given, next_given)
    free(given);
    results_forget(&within->results);
    *within = (struct region_context){.results.limit = PINNED};
    division_context_gone(context);
}

/* ---- work ---- */

size_t work_parts(uint64_t bytes)
{
    uint64_t parts = (bytes + PART - 1) / PART;
    return parts < PARTS ? (size_t)parts : PARTS;
}

size_t work_most(const struct region_at *rows, size_t count)
{
    size_t most = 0;
    for (size_t jobs = 0; most < count && (jobs += work_parts(rows[most].bytes)) <= JOBS;)
        most++;
    return most;
}

struct work *work_find(const struct context *context, uint64_t number)
{
    const struct region_context *within = context->books[CONTEXT_REGIONS];
    struct work *work = within ? within->first : NULL;
    while (work && work->number != number)
        work = work->next;
    return work;
}

/* Returns the number of jobs. */
static size_t fill_jobs(struct pattern_job *job, const struct region_work *wanted, const struct region_at *at)
{
    size_t parts = work_parts(at->bytes);
    uint64_t step = (at->bytes + parts - 1) / parts, start = at->start + at->row * at->bytes;
    for (size_t part = 0; part < parts; part++, job++) {
        uint64_t from = part * step, until = from + step;
        const struct pattern_range range = {start + (from < at->bytes ? from : at->bytes),
                                            start + (until < at->bytes ? until : at->bytes)};
        job->does = (at->region.is_poisoned ? wanted->does : wanted->does & ~(uint32_t)PATTERN_CHECK) | PATTERN_NANS;
        job->check[0] = job->write[0] = range;
        if (wanted->sets && at->states && !part) {
            job->does |= PATTERN_MARK;
            job->write[PATTERN_TAIL] = (struct pattern_range){at->states + at->row, wanted->state};
        }
    }
    return parts;
}

/* In a scope. */
static struct work *make(struct region_context *within, const struct region_work *wanted)
{
    struct work *work = calloc(1, sizeof *work + wanted->count * sizeof *work->at);
    size_t jobs = 0;
    for (size_t i = 0; i < wanted->count; i++)
        jobs += work_parts(wanted->rows[i].bytes);
    uint8_t *memory = work ? results_take(&within->results, jobs * (sizeof *work->jobs + sizeof *work->states)) : NULL;
    if (!memory) {
        free(work);
        return NULL;
    }
    work->memory = memory;
    work->jobs = (struct pattern_job *)(void *)memory;
    work->states = (const uint32_t *)(const void *)(memory + jobs * sizeof *work->jobs);
    work->rows = wanted->count;
    work->parts = jobs;
    work->is_check = (wanted->does & PATTERN_CHECK) != 0;
    work->by = wanted->by;
    work->time_ns = monotonic_ns();
    memcpy(work->at, wanted->rows, wanted->count * sizeof *work->at);
    struct pattern_job *job = work->jobs;
    for (size_t i = 0; i < wanted->count; i++)
        job += fill_jobs(job, wanted, &wanted->rows[i]);
    return work;
}

static uint64_t launch(struct region_context *within, struct work *work, struct stream *stream)
{
    unsigned jobs = (unsigned)work->parts;
    uint32_t *states = (uint32_t *)(void *)(work->memory + jobs * sizeof *work->jobs);
    flight_begin(&work->flight, stream, states, jobs);
    CUresult result = pattern_launch(within->pattern, stream->handle, (CUdeviceptr)(uintptr_t)work->jobs,
                                     (CUdeviceptr)(uintptr_t)states, jobs);
    if (result != CUDA_SUCCESS) {
        results_give(&within->results, work->memory);
        free(work);
        return 0;
    }
    work->number = ++works;
    DL_APPEND(within->first, work);
    wake_sleeping_worker();
    return work->number;
}

uint64_t work_submit(const struct region_work *wanted)
{
    lock_expect(RANK_REGIONS);
    struct region_context *within = region_context_of(wanted->context);
    struct stream *stream = wanted->stream;
    uint64_t number = 0;
    if (!within || !wanted->count || __atomic_load_n(&wanted->context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return 0;
    struct scope scope = stream ? scope_enter_stream(stream) : scope_enter(wanted->context);
    if (scope.pushed && !stream)
        stream = own_stream(wanted->context);
    struct work *work = scope.pushed && stream ? make(within, wanted) : NULL;
    if (work)
        number = launch(within, work, stream);
    scope_leave(scope);
    return number;
}

int work_is_over(const struct region_at *row)
{
    lock_expect(RANK_REGIONS);
    struct work *last = work_find(row->context, row->region.work);
    return !last || flight_is_over(&last->flight);
}

/* Sets *on to what the stream is ordered behind now, if that is all work on the row's last stream. */
static int follow(struct stream *stream, const struct region_at *row, struct stream_ref *on)
{
    struct books *books = books_of(row->context);
    int is_ordered = books && stream_waits_for(books, stream, &row->region.on);
    if (is_ordered)
        *on = row->region.on;
    uint64_t until = monotonic_ms() + FOLLOW_MS;
    while (!is_ordered && !(is_ordered = work_is_over(row)) && monotonic_ms() < until)
        aside_sleep(PAUSE_US);
    return is_ordered;
}

int work_follow(struct stream *stream, const struct region_at *rows, size_t count)
{
    lock_expect(RANK_REGIONS);
    const struct stream_ref own = stream_ref(stream);
    struct stream_ref followed = own;
    int is_ordered = 1;
    for (size_t i = 0; i < count && is_ordered; i++) {
        const struct stream_ref *on = &rows[i].region.on;
        if (!stream_ref_is(&own, on) && !stream_ref_is(&followed, on) && !work_is_over(&rows[i]))
            is_ordered = follow(stream, &rows[i], &followed);
    }
    return is_ordered;
}

void work_set_now(const struct region_at *rows, size_t count, enum region_state state)
{
    lock_expect(RANK_REGIONS);
    struct scope scope = scope_enter(rows->context);
    struct stream *own = scope.pushed ? own_stream(rows->context) : NULL;
    for (size_t i = 0; i < count && own; i++)
        if (rows[i].states)
            driver->cuMemsetD8Async(rows[i].states + rows[i].row, (unsigned char)state, 1, own->handle);
    if (own)
        driver->cuStreamSynchronize(own->handle);
    scope_leave(scope);
}

int work_await(struct context *context, uint64_t number, uint64_t until_ms)
{
    lock_expect(RANK_REGIONS);
    struct work *work = work_find(context, number);
    return !work || pattern_await(&work->flight, work->jobs, work->parts, until_ms);
}
