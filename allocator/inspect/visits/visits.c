#include "jobs.h"

#include "base/clock.h"
#include "base/thread.h"
#include "base/lock.h"
#include "inspect/values/types.h"
#include "launch/launch.h"
#include "stacks/labels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DECISIONS 4096u   /* a power of two */
#define MOST_BYTES 32768u /* of arguments; the driver's limit is 32,764 */
#define MOST_REACHED 512u
#define NAMES 3       /* of a kernel */
#define SHAPES 16384u /* of launches, room; three quarters are used */
#define STOP_MS 10000 /* how long a launch that may be the last waits for what is found */

static struct {
    uint64_t launches;             /* atomic: number of launches so far */
    uint64_t decisions[DECISIONS]; /* atomic: a function's address << 8, and the users that may want its launches */
    int keeps_buffers;             /* whatever the users say: uaf=strict */
    int is_closed;                 /* atomic */
} visits;

static HOT_TLS struct job *begun; /* the calling thread's launch, between the two calls */

/* ---- which launches a filter chooses, by three questions, each of which costs more than the one before ---- */

/* The shapes of which a launch was chosen, of all filters. Under the lock, a leaf. */
static struct {
    struct lock lock;
    uint64_t seen[SHAPES]; /* 0: free */
    size_t count;
} shapes = {.lock = LOCK(RANK_LEAF)};

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    return (hash ^ value ^ hash >> 29) * UINT64_C(0x100000001b3); /* FNV-1a's prime */
}

/* What a shape is: the kernel, its grid, block, cluster and shared memory, and the sizes of the buffers that the arguments
 * point to. Never 0. */
static uint64_t shape_of(const struct filter *filter, const struct visit *visit)
{
    uint64_t hash = mixed(mixed((uintptr_t)filter, (uintptr_t)visit->function), (uintptr_t)visit->graph);
    for (int i = 0; i < 3; i++)
        hash = mixed(mixed(mixed(hash, visit->grid[i]), visit->block[i]), visit->cluster[i]);
    hash = mixed(hash, visit->shared_bytes);
    for (size_t i = 0; i < visit->reached_count; i++)
        hash = mixed(hash, visit->reached[i].range.size);
    return hash ? hash : 1;
}

/* Whether no launch of its shape was chosen before. Without room for another shape, none is new. */
static int is_new(const struct filter *filter, const struct visit *visit)
{
    uint64_t shape = shape_of(filter, visit);
    size_t at = shape % SHAPES;
    HOLD(&shapes.lock);
    while (shapes.seen[at] && shapes.seen[at] != shape)
        at = (at + 1) % SHAPES;
    int is_first = !shapes.seen[at] && shapes.count < SHAPES / 4 * 3;
    if (is_first)
        shapes.seen[at] = shape;
    shapes.count += (size_t)is_first;
    return is_first;
}

static size_t add_names(const struct launch_function *function, const char **out)
{
    const struct kernel_names *names = types_names(function);
    if (!names)
        return 0;
    out[0] = names->mangled;
    out[1] = names->demangled;
    out[2] = names->plain;
    return NAMES;
}

static int may_choose_function(const struct filter *filter, const struct launch_function *function)
{
    const char *names[NAMES];
    return filter_may_choose(filter, names, add_names(function, names));
}

/* Whether it may choose this launch, which the calling thread makes: asks without the places, which cost the most. */
static int may_choose_number(const struct filter *filter, const struct launch_function *function, uint64_t number)
{
    const char *names[NAMES];
    if (filter_needs_places(filter))
        return 1;
    const struct filter_launch launch = {
        .names = names, .name_count = add_names(function, names), .number = number, .label = label_current()};
    return filter_chooses(filter, &launch);
}

static size_t names_of(const struct visit *visit, const char **out)
{
    size_t count = 0;
    if (visit->function)
        return add_names(visit->function, out);
    for (size_t i = 0; i < visit->graph_function_count; i++)
        count += add_names(visit->graph_functions[i], out + count);
    return count;
}

/* Whether it chooses the launch: a graph's, if it chooses one of its kernels. */
static int chooses(const struct filter *filter, const struct visit *visit)
{
    struct stack_frame frames[STACK_READ];
    struct filter_place places[STACK_READ];
    const char *names[NAMES * GRAPH_KERNELS];
    size_t count = 0;
    if (filter_needs_places(filter))
        count = visit->stack.python ? stack_interned_frames(visit->stack.python, frames, STACK_READ)
                                    : stack_frames(&visit->stack, frames, STACK_READ);
    for (size_t i = 0; i < count; i++)
        places[i] = (struct filter_place){frames[i].file, frames[i].line};
    const struct filter_launch launch = {.names = names,
                                         .name_count = names_of(visit, names),
                                         .number = visit->number,
                                         .label = visit->label,
                                         .places = places,
                                         .place_count = count};
    return filter_chooses(filter, &launch) && (!filter_wants_new(filter) || is_new(filter, visit));
}

/* ---- which users want a launch ---- */

static uint32_t ask_users(const struct launch_function *function)
{
    uint32_t users = 0;
    for (unsigned i = 0; i < visit_user_count(); i++)
        users |= (uint32_t)(!visit_users[i]->filter || may_choose_function(visit_users[i]->filter, function)) << i;
    return users;
}

/* Functions are never freed, so a decision stays right. The table holds what fits: a function may be asked about again. */
static uint32_t users_of_function(const struct launch_function *function)
{
    uint64_t key = (uint64_t)(uintptr_t)function, hash = key * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    uint64_t *slot = &visits.decisions[hash & (DECISIONS - 1)];
    uint64_t known = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (known >> 8 == key)
        return (uint32_t)(known & 0xff);
    uint32_t users = ask_users(function);
    __atomic_store_n(slot, key << 8 | users, __ATOMIC_RELAXED);
    return users;
}

static uint32_t users_of_number(const struct launch_function *function, uint64_t number, uint32_t asked)
{
    uint32_t users = 0;
    for (unsigned i = 0; i < visit_user_count(); i++) {
        const struct visit_user *user = visit_users[i];
        if (asked >> i & 1)
            users |= (uint32_t)((!user->filter || may_choose_number(user->filter, function, number)) &&
                                (!user->wants_number || user->wants_number(function)))
                     << i;
    }
    return users;
}

static uint32_t users_of_graph(CUgraphExec graph)
{
    uint32_t users = graph_kernels_users(graph);
    for (unsigned i = 0; i < visit_user_count(); i++)
        users &= visit_users[i]->wants_graphs ? UINT32_MAX : ~(1u << i);
    return users;
}

static uint32_t users_of_visit(const struct visit *visit, uint32_t asked)
{
    uint32_t users = 0;
    for (unsigned i = 0; i < visit_user_count(); i++) {
        const struct visit_user *user = visit_users[i];
        if (asked >> i & 1)
            users |= (uint32_t)((!user->filter || chooses(user->filter, visit)) && (!user->wants || user->wants(visit))) << i;
    }
    return users;
}

/* ---- a visit begins ---- */

/* For the arguments of one launch. */
struct scratch {
    uint8_t bytes[MOST_BYTES];
    struct reached reached[MOST_REACHED];
    struct graph_kernels captured;
};

static struct scratch *own_scratch(void)
{
    static struct thread_memory scratch = {.size = sizeof(struct scratch)};
    return thread_memory(&scratch);
}

/* Without host memory, a launch is shown without its arguments. */
static void keep_arguments(struct visit *visit, const struct scratch *scratch, size_t size, size_t count)
{
    uint8_t *kept = size ? malloc(size) : NULL;
    struct reached *reached = count ? malloc(count * sizeof *reached) : NULL;
    if (kept)
        memcpy(kept, scratch->bytes, size);
    if (reached)
        memcpy(reached, scratch->reached, count * sizeof *reached);
    visit->arguments = kept;
    visit->argument_bytes = kept ? size : 0;
    visit->reached = reached;
    visit->reached_count = reached ? count : 0;
}

static void take_arguments(struct visit *visit, const struct launch_call *call)
{
    struct scratch *scratch = own_scratch();
    size_t size = scratch ? arguments_pack(call, visit->function, scratch->bytes, MOST_BYTES) : 0;
    size_t count = size ? arguments_reach(scratch->bytes, size, visit->function, call->function, visit->device,
                                          scratch->reached, MOST_REACHED)
                        : 0;
    keep_arguments(visit, scratch, size, count);
}

/* The buffers that the graph's kernels were given, as far as there still are buffers. */
static void take_graph(struct visit *visit)
{
    struct scratch *scratch = own_scratch();
    size_t count = 0;
    if (!scratch || !graph_kernels_read(visit->graph, &scratch->captured))
        return;
    const struct graph_kernels *captured = &scratch->captured;
    for (size_t i = 0; i < captured->reached_count && count < MOST_REACHED; i++) {
        struct reached *now = &scratch->reached[count];
        *now = captured->reached[i];
        count += (size_t)arguments_reach_one(captured->reached[i].pointer, visit->device, now);
    }
    const struct launch_function **functions = calloc(captured->function_count, sizeof *functions);
    if (functions) {
        memcpy(functions, captured->functions, captured->function_count * sizeof *functions);
        visit->graph_functions = functions;
        visit->graph_function_count = captured->function_count;
    }
    keep_arguments(visit, scratch, 0, count);
}

static void fill(struct visit *visit, const struct launch_event *event, struct stream *stream, uint64_t number)
{
    visit->number = number;
    visit->context = stream->context;
    visit->stream = stream_ref(stream);
    visit->handle = event->stream;
    visit->device = visit->context->device;
    visit->tid = thread_id();
    visit->time_ns = monotonic_ns();
    visit->graph = event->graph;
    visit->label = label_current();
    if (!event->call) {
        take_graph(visit);
        return;
    }
    visit->function = functions_find(event->call->function);
    visit->shape = event->call->shape;
    visit->shared_bytes = event->call->shared_bytes;
    visit->is_cooperative = event->call->is_cooperative;
    visit->kernel = event->call->function;
    take_arguments(visit, event->call);
}

/* Gives each user its part of the job's memory. Returns 0 if there is none. */
static int prepare(struct job *job)
{
    size_t bytes = visit_rounded(1); /* for the flight's word */
    struct scope scope = scope_enter(job->visit.context);
    struct visit_context *within = scope.pushed ? visit_context_of(job->visit.context) : NULL;
    for (unsigned i = 0; within && i < visit_user_count(); i++) {
        if (!(job->users >> i & 1))
            continue;
        job->offsets[i] = bytes;
        job->parts[i] = (struct visit_part){.visit = &job->visit,
                                            .bytes = visit_users[i]->size ? visit_users[i]->size(&job->visit) : 0,
                                            .functions = within->functions[i]};
        bytes += visit_rounded(job->parts[i].bytes);
    }
    int is_prepared = within && jobs_take_memory(within, job, bytes);
    for (unsigned i = 0; is_prepared && i < visit_user_count(); i++)
        job->parts[i].memory = job->memory + job->offsets[i];
    scope_leave(scope);
    return is_prepared;
}

/* Keeps the buffers from being unmapped under work of ours: another stream may free one that the launch only names. */
static void keep_buffers(const struct job *job)
{
    int keeps = visits.keeps_buffers;
    for (unsigned i = 0; i < visit_user_count(); i++)
        keeps |= (job->users >> i & 1) && !visit_users[i]->looks_at_all;
    for (size_t i = 0; keeps && i < job->visit.reached_count; i++)
        heap_record_stream((void *)(uintptr_t)job->visit.reached[i].range.address, job->visit.handle);
}

/* Makes the visit one of those users that want it, with memory for its results. Returns 0, and frees the job, if none does. */
static int join(struct job *job, uint32_t asked)
{
    job->users = users_of_visit(&job->visit, asked);
    if (!job->users) {
        jobs_free(job);
        return 0;
    }
    job->how = prepare(job) ? VISIT_DONE : VISIT_NO_ROOM;
    return 1;
}

static void submit_mark(struct job *job)
{
    const struct visit_context *within = visit_context_of(job->visit.context);
    uint32_t *words = (uint32_t *)(void *)job->memory;
    for (unsigned i = 0; i < visit_user_count(); i++) {
        if (job->parts[i].failure != CUDA_SUCCESS)
            job->how = VISIT_FAILED;
    }
    if (!within || flight_mark(&job->flight, within->mark, job->visit.stream.stream, job->visit.handle, words) != CUDA_SUCCESS)
        job->how = VISIT_FAILED;
}

static void submit_before(struct job *job)
{
    keep_buffers(job);
    for (unsigned i = 0; i < visit_user_count(); i++) {
        if (job->users >> i & 1)
            visit_users[i]->before(&job->parts[i]);
    }
}

/* The launch becomes part of a graph. */
static void note_captured(const struct launch_event *event, uint32_t users)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t capture = 0;
    CUgraph graph = NULL;
    struct scratch *scratch = event->call ? own_scratch() : NULL;
    if (!scratch || !event->stream || event->stream == CU_STREAM_LEGACY || !driver->stream_capture_info ||
        driver->stream_capture_info(event->stream, &status, &capture, &graph, NULL, NULL) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_ACTIVE || !graph)
        return;
    const struct launch_function *function = functions_find(event->call->function);
    size_t size = arguments_pack(event->call, function, scratch->bytes, MOST_BYTES);
    size_t count = arguments_reach(scratch->bytes, size, function, event->call->function, event->context->device,
                                   scratch->reached, MOST_REACHED);
    graph_kernels_note(graph, capture, function, users, scratch->reached, count);
}

/* Out of line, so that a launch that nobody wants costs little. */
__attribute__((noinline)) static void begin(const struct launch_event *event, uint64_t number, uint32_t users)
{
    int may_capture = heap_may_capture();
    if (!may_capture && event->call)
        users = users_of_number(functions_find(event->call->function), number, users);
    if (users && !stream_is_open(event->stream)) {
        note_captured(event, users);
        return;
    }
    if (may_capture && event->call)
        users = users_of_number(functions_find(event->call->function), number, users);
    struct stream *stream = users ? stream_resolve(event->stream) : NULL;
    struct job *job = stream ? calloc(1, sizeof *job) : NULL;
    if (!job)
        return;
    fill(&job->visit, event, stream, number);
    stack_capture_from(&job->visit.stack, event->frame ? event->frame : __builtin_frame_address(0));
    if (!join(job, users))
        return;
    if (job->how == VISIT_DONE)
        submit_before(job);
    begun = job;
}

void visits_launch_begins(const struct launch_event *event)
{
    uint64_t number = __atomic_add_fetch(&visits.launches, 1, __ATOMIC_RELAXED);
    const struct launch_function *function = event->call ? functions_find(event->call->function) : NULL;
    uint32_t users = function ? users_of_function(function) : event->call ? 0 : users_of_graph(event->graph);
    if (users && !__atomic_load_n(&visits.is_closed, __ATOMIC_RELAXED))
        begin(event, number, users);
}

/* ---- it ends ---- */

static void submit_after(struct job *job)
{
    beside_note(&job->visit);
    for (unsigned i = visit_user_count(); i-- > 0;) {
        if (job->users >> i & 1)
            visit_users[i]->after(&job->parts[i]);
    }
    submit_mark(job);
}

__attribute__((noinline)) static void end(struct job *job, CUresult result)
{
    begun = NULL;
    job->visit.result = result;
    if (job->how == VISIT_DONE && result != CUDA_SUCCESS) {
        job->how = VISIT_FAILED;
        submit_mark(job);
    } else if (job->how == VISIT_DONE) {
        submit_after(job);
    }
    int waits = 0;
    for (unsigned i = 0; i < visit_user_count(); i++)
        waits |= (job->users >> i & 1) && visit_users[i]->waits;
    CUstream stream = job->visit.handle;
    jobs_submit(job);
    if (waits && driver->cuStreamSynchronize(stream) == CUDA_SUCCESS)
        jobs_await(STOP_MS);
}

void visits_launch_ended(CUresult result)
{
    if (__builtin_expect(begun != NULL, 0))
        end(begun, result);
}

/* ---- work of the users ---- */

static void note(struct visit_part *part, CUresult result)
{
    if (part->failure == CUDA_SUCCESS)
        part->failure = result;
}

void visit_launch(struct visit_part *part, unsigned kernel, uint32_t blocks, uint32_t threads, void **arguments)
{
    note(part, kernels_launch(part->functions[kernel], blocks, threads, part->visit->handle, arguments));
}

void visit_copy(struct visit_part *part, uint8_t *to, uint64_t from, size_t bytes)
{
    note(part, driver->cuMemcpyDtoHAsync(to, from, bytes, part->visit->handle));
}

/* ---- start and end ---- */

void visits_open(const struct options *options)
{
    visits.keeps_buffers = options->uaf == UAF_STRICT;
}

void visits_add(const struct visit_user *user)
{
    unsigned count = visit_user_count();
    for (unsigned i = 0; i < count; i++) {
        if (visit_users[i] == user)
            return; /* the start is tried again */
    }
    assert(count < VISIT_USERS);
    visit_users[count] = user;
    __atomic_store_n(&visit_users_added, count + 1, __ATOMIC_RELEASE);
    if (!count)
        __atomic_store_n(&visits.launches, launch_total(), __ATOMIC_RELAXED);
}

int visits_have_users(void)
{
    return visit_user_count() != 0;
}

int visits_await(unsigned ms)
{
    return jobs_await(ms);
}

void visits_close(unsigned ms)
{
    __atomic_store_n(&visits.is_closed, 1, __ATOMIC_RELAXED);
    jobs_close(ms);
    for (unsigned i = 0; i < visit_user_count(); i++) {
        if (visit_users[i]->closed)
            visit_users[i]->closed();
    }
}
