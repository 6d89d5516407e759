/* Slack watch: the launches, and what they have found. */
#include "watch.h"

#include "base/aside.h"
#include "base/output.h"
#include "base/lost_reports.h"

#include <stdlib.h>
#include <string.h>

/* ---- what a batch has found ---- */

static void describe(const struct batch_buffer *buffer, const struct pattern_found *found, int side, struct heap_slack *out)
{
    uint64_t span = found->last - found->first + 1;
    out->found = (struct slack_found){.is_before = side == PATTERN_HEAD,
                                      .address = found->first,
                                      .span = span,
                                      .changed = found->count,
                                      .byte_count = span < PATTERN_FOUND ? span : PATTERN_FOUND,
                                      .since_ns = buffer->since_ns,
                                      .since_on = buffer->since_on,
                                      .buffers = buffer->buffers,
                                      .first_id = buffer->first_id};
    memcpy(out->found.bytes, found->bytes, out->found.byte_count);
    facts_describe(&buffer->facts, &buffer->slot, buffer->slot.base, &out->buffer);
}

/* Of a batch of buffers. */
static size_t describe_all(const struct batch *batch, struct heap_slack *out, size_t max)
{
    size_t count = 0;
    for (unsigned i = 0; i < batch->count; i++) {
        if (batch->states[i] != PATTERN_BAD)
            continue;
        for (int side = PATTERN_HEAD; side <= PATTERN_TAIL; side++) {
            const struct pattern_found *found = &batch->jobs[i].found[side];
            if (found->count && count < max)
                describe(&batch->buffers[i], found, side, &out[count++]);
        }
    }
    return count;
}

/* ---- the state of a context ---- */

struct watch *watch_make(struct books *books)
{
    struct watch *watch = __atomic_load_n(&books->watch, __ATOMIC_ACQUIRE), *none = NULL;
    if (watch || !(watch = line_alloc(sizeof *watch)))
        return watch;
    watch->books = books;
    watch->results.limit = PINNED;
    lock_init(&watch->lock, RANK_SLACK);
    if (__atomic_compare_exchange_n(&books->watch, &none, watch, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return watch;
    free(watch);
    return none;
}

struct watch *watch_of(struct books *books)
{
    struct watch *watch = __atomic_load_n(&books->watch, __ATOMIC_ACQUIRE);
    return watch || !(heap_options->slack || __atomic_load_n(&books->packing, __ATOMIC_RELAXED)) ? watch : watch_make(books);
}

#define JOBS_BYTES (SLACK_MOST * sizeof(struct pattern_job))
#define STATES_BYTES (SLACK_MOST * sizeof(uint32_t))
#define MEMORY_BYTES (BATCHES * (JOBS_BYTES + STATES_BYTES))
#define HOST_PAGE 4096u
#define PAUSE_US 20u

/* Registers the memory of the batches with the context. It is never freed: the device may write to it until the context has
 * ended, and the next context in the entry uses it again. */
static CUresult register_memory(struct watch *watch, CUdeviceptr *device)
{
    if (!watch->memory)
        watch->memory = aligned_alloc(HOST_PAGE, (MEMORY_BYTES + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE);
    if (!watch->memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(watch->memory, 0, MEMORY_BYTES);
    CUresult result =
        driver->cuMemHostRegister(watch->memory, MEMORY_BYTES, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        result = driver->cuMemHostGetDevicePointer(device, watch->memory, 0);
    return result;
}

static void divide_memory(struct watch *watch, CUdeviceptr device)
{
    char *memory = watch->memory;
    HOLD(&watch->lock); /* the worker asks whether flights are over */
    for (unsigned i = 0; i < BATCHES; i++) {
        struct batch *batch = &watch->batches[i];
        size_t jobs = i * JOBS_BYTES, states = BATCHES * JOBS_BYTES + i * STATES_BYTES;
        batch->jobs = (struct pattern_job *)(void *)(memory + jobs);
        batch->states = (uint32_t *)(void *)(memory + states);
        batch->device_jobs = device + jobs;
        batch->device_states = device + states;
        batch->buffers = watch->buffers[i];
        batch->on_result = describe_all;
        flight_end(&batch->flight);
    }
}

/* Modules load lazily: launches the kernels once now, so that no later launch needs to load code. */
static CUresult warm_up(struct watch *watch)
{
    struct stream *own = books_stream(watch->books);
    struct batch *batch = &watch->batches[0];
    if (!own)
        return CUDA_ERROR_OUT_OF_MEMORY;
    batch->count = 1;
    batch->jobs[0].does = 0;
    CUresult result = pattern_fill(watch->fill, own->handle, 0, 0);
    if (result != CUDA_SUCCESS)
        return result;
    HOLD(&watch->lock);
    return batch_launch(watch, batch) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

static int begin(struct watch *watch)
{
    CUdeviceptr device = 0;
    const char *name = "an error";
    CUresult result = register_memory(watch, &device);
    if (result == CUDA_SUCCESS) {
        divide_memory(watch, device);
        result = pattern_load(&watch->kernel, &watch->fill) ? warm_up(watch) : CUDA_ERROR_INVALID_PTX;
    }
    if (result == CUDA_SUCCESS)
        return 1;
    driver->cuGetErrorName(result, &name);
    output_say("cufence: the slack of buffers on GPU %d is not watched: the driver returns %s\n", watch->books->context->device,
               name);
    return 0;
}

int watch_begin(struct watch *watch)
{
    enum watch_state state = WATCH_NEW;
    if (__builtin_expect(watch_is_ready(watch), 1))
        return 1;
    if (!__atomic_compare_exchange_n(&watch->state, &state, WATCH_BEGINS, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return state == WATCH_READY;
    struct scope scope = scope_enter(watch->books->context);
    state = !scope.pushed ? WATCH_NEW : begin(watch) ? WATCH_READY : WATCH_OFF;
    scope_leave(scope);
    __atomic_store_n(&watch->state, state, __ATOMIC_RELEASE);
    return state == WATCH_READY;
}

void slack_context_begun(struct books *books)
{
    struct watch *watch = watch_of(books);
    if (watch)
        watch_begin(watch);
}

/* ---- batches ---- */

/* Whether the launch is over, and has found something that is not collected. */
static int has_findings(struct batch *batch)
{
    lock_expect(RANK_SLACK);
    if (!batch->flight.is_begun || !flight_is_over(&batch->flight))
        return 0;
    for (unsigned i = 0; i < batch->count; i++) {
        if (batch->states[i] == PATTERN_BAD)
            return 1;
    }
    return 0;
}

struct batch *batch_take(struct watch *watch)
{
    lock_expect(RANK_SLACK);
    for (unsigned tried = 0; tried < BATCHES; tried++) {
        struct batch *batch = &watch->batches[watch->next++ % BATCHES];
        if (!flight_is_over(&batch->flight))
            continue;
        if (has_findings(batch)) {
            wake_worker(); /* the background thread reports it */
            continue;
        }
        flight_end(&batch->flight);
        batch->is_alone = 0;
        batch->count = 0;
        return batch;
    }
    return NULL;
}

static struct lock pinned = LOCK(RANK_VALUES); /* the results of all watches: the driver may wait where it allocates them */

struct batch *batch_make(struct watch *watch, unsigned parts)
{
    struct batch *batch = calloc(1, sizeof *batch);
    lock_take(&pinned);
    if (batch)
        batch->jobs = (void *)results_take(&watch->results, parts * (sizeof *batch->jobs + sizeof *batch->states));
    lock_release(&pinned);
    if (!batch || !batch->jobs) {
        free(batch);
        return NULL;
    }
    batch->states = (void *)(batch->jobs + parts);
    batch->device_jobs = (uintptr_t)batch->jobs;
    batch->device_states = (uintptr_t)batch->states;
    batch->count = parts;
    batch->is_launching = 1;
    HOLD(&watch->lock);
    DL_APPEND(watch->poisons, batch);
    return batch;
}

void batch_drop(struct watch *watch, struct batch *batch)
{
    lock_expect(RANK_SLACK);
    DL_DELETE(watch->poisons, batch);
    HOLD(&pinned);
    results_give(&watch->results, (uint8_t *)batch->jobs);
    free(batch);
}

/* Whether a thread launches one for poison, or waits for it. */
static int is_in_use(const struct watch *watch)
{
    lock_expect(RANK_SLACK);
    const struct batch *batch;
    DL_FOREACH(watch->poisons, batch)
    {
        if (batch->is_launching)
            return 1;
    }
    return 0;
}

void batches_forget(struct watch *watch)
{
    lock_expect(RANK_SLACK);
    for (unsigned i = 0; i < BATCHES; i++)
        flight_end(&watch->batches[i].flight);
    while (is_in_use(watch)) {
        lock_release(&watch->lock);
        aside_sleep(PAUSE_US);
        lock_take(&watch->lock);
    }
    while (watch->poisons)
        batch_drop(watch, watch->poisons);
    HOLD(&pinned);
    results_forget(&watch->results);
}

static CUresult submit(const struct watch *watch, const struct batch *batch, const struct stream *stream)
{
    return pattern_launch(watch->kernel, stream->handle, batch->device_jobs, batch->device_states, batch->count);
}

/* The launch has been made, or refused. Returns whether it is under way. */
static int launched(struct watch *watch, struct batch *batch, CUresult result)
{
    lock_expect(RANK_SLACK);
    if (result == CUDA_SUCCESS)
        watch->launches += batch->buffers != NULL;
    else
        flight_end(&batch->flight);
    wake_sleeping_worker(); /* the background thread collects what it finds */
    return result == CUDA_SUCCESS;
}

int batch_launch(struct watch *watch, struct batch *batch)
{
    lock_expect(RANK_SLACK);
    struct stream *own = books_stream(watch->books);
    if (!own)
        return 0;
    batch->list = NULL;
    flight_begin(&batch->flight, own, batch->states, batch->count);
    return launched(watch, batch, submit(watch, batch, own));
}

int batch_launch_on(struct watch *watch, struct batch *batch, struct stream *stream)
{
    lock_expect(RANK_SLACK);
    __atomic_store_n(&batch->is_launching, 1, __ATOMIC_RELAXED);
    flight_begin(&batch->flight, stream, batch->states, batch->count);
    lock_release(&watch->lock);
    CUresult result = submit(watch, batch, stream);
    lock_take(&watch->lock);
    __atomic_store_n(&batch->is_launching, 0, __ATOMIC_RELAXED);
    return launched(watch, batch, result);
}

int batch_run(struct watch *watch, struct batch *batch, uint64_t until_ms)
{
    lock_expect(RANK_SLACK);
    return batch_launch(watch, batch) && pattern_await(&batch->flight, batch->jobs, batch->count, until_ms);
}

void batch_add(struct watch *watch, struct batch *batch, const struct slack *slack)
{
    lock_expect(RANK_SLACK);
    struct pattern_job *job = &batch->jobs[batch->count];
    *job = (struct pattern_job){.does = slack->does == PATTERN_CHECK ? PATTERN_CHECK | PATTERN_RENEW : slack->does};
    if (slack->does & PATTERN_CHECK) {
        slack_ranges(slack->block, slack->does & PATTERN_WRITE ? slack->checked : slack->layout, job->check);
        batch->buffers[batch->count] = slack_described(slack);
        watch->checked++;
    }
    if (slack->does & PATTERN_WRITE)
        slack_ranges(slack->block, slack->layout, job->write);
    batch->count++;
}

/*
 * Blocks that are idle in the list have passed only once the launch has, so nobody unmaps them before. One that was taken out
 * of the list for that is left alone; one that was taken out for a new buffer comes here with PATTERN_WRITE, or is live by now;
 * one that is on its way into the list is kept (slack_keep()).
 * Returns how many at the head of the queue are to be launched. Caller holds the lock.
 */
static unsigned hold_back(struct watch *watch, struct freelist *list)
{
    lock_expect(RANK_SLACK);
    struct slack *slack, *next;
    unsigned jobs = 0;
    list_lock(list);
    uint64_t sequence = freelist_launches(list);
    DL_FOREACH_SAFE2(list->slack_queue->first, slack, next, behind)
    {
        enum block_state state = block_state_now(slack->block);
        if (jobs == SLACK_MOST)
            break;
        if (state == BLOCK_HELD && slack->does == PATTERN_CHECK && !slack_is_kept(slack)) {
            slack_dequeue(slack);
            watch->missed++;
            continue;
        }
        if (state == BLOCK_IDLE && slack->does & PATTERN_CHECK)
            slack->block->free_sequence = sequence;
        jobs++;
    }
    list_unlock(list);
    return jobs;
}

/* Moves the first of the queue into the batch, as if it was launched. */
static void fill_batch(struct watch *watch, struct batch *batch, struct freelist *list)
{
    lock_expect(RANK_SLACK);
    const struct stream *stream = list == &list->books->shared ? NULL : __atomic_load_n(&list->stream, __ATOMIC_RELAXED);
    uint64_t now = now_ns(), on = stream ? (uintptr_t)stream->handle : SINCE_ALL; /* shared: cuMemFree waits for all work */
    for (unsigned jobs = hold_back(watch, list); jobs; jobs--) {
        struct slack *slack = list->slack_queue->first;
        batch_add(watch, batch, slack);
        slack->does = 0; /* so that the pattern is not forgotten with the place in the queue */
        slack->turn = batch->flight.turn + 1;
        __atomic_store_n(&slack->batch, batch, __ATOMIC_RELAXED);
        slack_dequeue(slack);
        slack_watched(slack, now, on);
    }
}

/* The driver has refused the launch of the batch's latest turn. */
static void discard_all(struct watch *watch, const struct batch *batch)
{
    lock_expect(RANK_SLACK);
    struct slack *slack;
    DL_FOREACH(watch->slacks, slack)
    {
        if (slack->batch == batch && slack->turn == batch->flight.turn)
            slack_discard(slack);
    }
}

static void launch_some(struct watch *watch, struct batch *batch, struct freelist *list, struct stream *stream)
{
    lock_expect(RANK_SLACK);
    __atomic_store_n(&batch->is_launching, 1, __ATOMIC_RELAXED);
    fill_batch(watch, batch, list);
    if (!batch->count) {
        __atomic_store_n(&batch->is_launching, 0, __ATOMIC_RELAXED);
        freelist_launched(list);
        return;
    }
    batch->list = list;
    int is_launched = batch_launch_on(watch, batch, stream);
    freelist_launched(list);
    if (!is_launched)
        discard_all(watch, batch);
}

void slack_launch(struct watch *watch, struct freelist *list, struct stream *stream, int is_alone)
{
    lock_expect(RANK_TOUCH);
    struct batch *batch;
    HOLD(&watch->lock);
    while (watch_is_ready(watch) && list->slack_queue->count && (batch = batch_take(watch)) != NULL) {
        batch->is_alone = is_alone;
        launch_some(watch, batch, list, stream);
    }
}

/* ---- what was found ---- */

/* The second launch needs the memory as it is: nobody uses it again before the report. */
static void keep(struct watch *watch, const struct batch *batch, uint64_t base)
{
    lock_expect(RANK_SLACK);
    struct slack *slack = books_keep(watch->books, base) && heap_options->poison == FILL_OFF ? watch->slacks : NULL;
    while (slack && slack->block->slot.base != base)
        slack = slack->next;
    if (slack && !slack->queue && slack_is_over(slack))
        freelist_withhold(batch->list ? batch->list : &watch->books->shared, slack->block);
}

size_t batch_collect(struct watch *watch, struct batch *batch, struct heap_slack *out, size_t max)
{
    lock_expect(RANK_SLACK);
    size_t count = batch->on_result(batch, out, max);
    for (unsigned i = 0; batch->buffers && i < batch->count; i++) {
        if (batch->states[i] == PATTERN_BAD)
            keep(watch, batch, batch->buffers[i].slot.base);
    }
    flight_end(&batch->flight);
    return count;
}

/* Collects a batch with findings that is over, if there is one. Returns their number. */
static size_t collect_one(struct watch *watch, struct heap_slack *found)
{
    struct batch *poison, *next;
    size_t count = 0;
    HOLD(&watch->lock);
    for (unsigned i = 0; i < BATCHES && !count; i++) {
        struct batch *batch = &watch->batches[i];
        if (has_findings(batch))
            count = batch_collect(watch, batch, found, 2 * SLACK_MOST);
    }
    DL_FOREACH_SAFE(watch->poisons, poison, next)
    {
        if (count || poison->is_launching || !flight_is_over(&poison->flight))
            continue;
        count = batch_collect(watch, poison, found, 2 * SLACK_MOST);
        batch_drop(watch, poison);
    }
    if (count)
        untold_begin();
    return count;
}

int slack_is_flying(struct books *books)
{
    struct watch *watch = __atomic_load_n(&books->watch, __ATOMIC_ACQUIRE);
    int is_flying = 0;
    if (!watch)
        return 0;
    HOLD(&watch->lock);
    is_flying = watch->poisons && __atomic_load_n(&books->context->fault, __ATOMIC_RELAXED) == CUDA_SUCCESS;
    for (unsigned i = 0; i < BATCHES && !is_flying; i++) {
        struct batch *batch = &watch->batches[i];
        is_flying = !flight_is_over(&batch->flight) || has_findings(batch);
    }
    return is_flying;
}

size_t slack_collect(struct books *books)
{
    struct watch *watch = __atomic_load_n(&books->watch, __ATOMIC_ACQUIRE);
    struct heap_slack *found = watch ? malloc(2 * SLACK_MOST * sizeof *found) : NULL;
    size_t count, all = 0;
    while (found && (count = collect_one(watch, found)) != 0) {
        slack_report_found(books, found, count);
        all += count;
    }
    free(found);
    return all;
}
