#include "capture.h"
#include "kernel.h"
#include "trap.h"
#include "virtual_memory.h"

#include <signal.h>

struct work {
    struct work *next;
    struct operation *operation;
    uint64_t serial; /* in order of submission, over all streams */
    size_t ticket_count;
    struct ticket after[];
};

pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t queue_progress = PTHREAD_COND_INITIALIZER;
static uint64_t last_serial;              /* under queue_lock */
static unsigned long long last_stream_id; /* under queue_lock */
static struct CUstream_st *spares;        /* closed and idle; under queue_lock */
static atomic_ulong next_thread_number = 1;
static __thread unsigned long own_thread_number;
static __thread int uses_own_default;

/* A thread that is cancelled meanwhile goes on waiting: the lock must not stay with it. */
static void sleep_locked(pthread_cond_t *until)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_cond_wait(until, &queue_lock);
    pthread_setcancelstate(state, NULL);
}

unsigned long thread_number(void)
{
    if (own_thread_number == 0)
        own_thread_number = atomic_fetch_add(&next_thread_number, 1);
    return own_thread_number;
}

/* What a handle points to. */
struct named {
    CUstream stream;
};

static CUstream named_locked(CUstream handle)
{
    return handle_is_valid(HANDLE_STREAM, handle) ? ((const struct named *)(const void *)handle)->stream : NULL;
}

static CUstream create_locked(CUcontext context, unsigned flags)
{
    struct named *named = handle_create(HANDLE_STREAM, sizeof *named, NULL);
    struct CUstream_st *stream = spares;
    if (stream == NULL) {
        stream = memory_new(sizeof *stream);
        pthread_cond_init(&stream->wake, NULL);
    } else {
        LL_DELETE(spares, stream);
    }
    stream->context = context;
    stream->home = context->home;
    stream->flags = flags;
    stream->id = ++last_stream_id;
    stream->owner = 0;
    stream->is_closed = stream->is_detached = 0;
    stream->handle = (CUstream)(void *)named;
    named->stream = stream;
    LL_PREPEND(stream->home->streams, stream);
    return stream;
}

CUstream stream_create(CUcontext context, unsigned flags)
{
    HOLD(&queue_lock);
    return create_locked(context, flags);
}

static void unlink_locked(CUstream stream)
{
    LL_DELETE(stream->home->streams, stream);
    LL_PREPEND(spares, stream);
}

/* The queue still runs to its end, and the context waits for it. */
static void close_locked(CUstream stream)
{
    handle_destroy(HANDLE_STREAM, stream->handle);
    stream->is_closed = 1;
    if (stream->has_worker)
        pthread_cond_signal(&stream->wake);
    else
        unlink_locked(stream);
}

int ticket_is_done_locked(const struct ticket *ticket)
{
    return ticket->stream == NULL || ticket->stream->completed >= ticket->count;
}

void ticket_wait_locked(struct ticket ticket)
{
    while (!ticket_is_done_locked(&ticket) || (ticket.stream != NULL && ticket.stream->context->home->dumps_in_progress != 0))
        sleep_locked(&queue_progress);
}

static int is_blocking(const struct CUstream_st *stream)
{
    return (stream->flags & CU_STREAM_NON_BLOCKING) == 0;
}

/* Whether the rules of the legacy stream order the two. */
static int is_ordered(const struct CUstream_st *legacy, const struct CUstream_st *other)
{
    return legacy == legacy->context->legacy && other->context == legacy->context && is_blocking(other);
}

/* Whether a synchronisation of `stream` (NULL: of the context) waits for `other`. */
static int is_waited_for(CUcontext context, const struct CUstream_st *stream, const struct CUstream_st *other)
{
    if (stream == NULL)
        return other->context == context || other->context->home == context; /* or its green ones' */
    return stream == other || is_ordered(stream, other);
}

/* The last work in the queue up to a number. */
static uint64_t last_of(const struct CUstream_st *stream, uint64_t serial)
{
    uint64_t last = 0;
    for (const struct work *work = stream->first; work != NULL && work->serial <= serial; work = work->next)
        last = work->serial;
    return last;
}

static int is_idle_up_to(CUcontext context, const struct CUstream_st *stream, uint64_t serial)
{
    for (const struct CUstream_st *other = context->home->streams; other != NULL; other = other->next) {
        if (is_waited_for(context, stream, other) && other->first != NULL && other->first->serial <= serial &&
            (context->home->stopped == 0 || last_of(other, serial) > context->home->stopped))
            return 0;
    }
    return context->home->dumps_in_progress == 0;
}

int stream_is_idle_locked(CUstream stream)
{
    return is_idle_up_to(stream->context, stream, last_serial);
}

static void wait_locked(CUcontext context, const struct CUstream_st *stream)
{
    uint64_t serial = last_serial;
    while (!is_idle_up_to(stream == NULL ? context : stream->context, stream, serial)) /* it may be detached meanwhile */
        sleep_locked(&queue_progress);
}

void context_wait_locked(CUcontext context)
{
    wait_locked(context, NULL);
}

void context_wait(CUcontext context)
{
    HOLD(&queue_lock);
    context_wait_locked(context);
}

void stream_wait_locked(CUstream stream)
{
    wait_locked(NULL, stream);
}

void stream_destroy_all(CUcontext context)
{
    HOLD(&queue_lock);
    context_wait_locked(context);
    for (struct CUstream_st *stream = context->streams, *next; stream != NULL; stream = next) {
        next = stream->next;
        if (!stream->is_closed)
            close_locked(stream);
    }
}

void stream_detach_all(CUcontext context)
{
    HOLD(&queue_lock);
    for (struct CUstream_st *stream = context->home->streams, *next; stream != NULL; stream = next) {
        next = stream->next;
        if (stream->context != context)
            continue;
        int is_programs = stream != context->legacy;
        stream->context = context->home;
        stream->flags |= CU_STREAM_NON_BLOCKING; /* it is not ordered with the home's default stream */
        stream->is_detached = 1;
        if (!stream->is_closed && !is_programs)
            close_locked(stream);
    }
}

void stream_stop(CUcontext context, int is_stopped)
{
    HOLD(&queue_lock);
    context->home->stopped = is_stopped ? last_serial : 0;
    pthread_cond_broadcast(&queue_progress);
}

void stream_count_dumps(CUcontext context, int change)
{
    HOLD(&queue_lock);
    context->home->dumps_in_progress += change;
    pthread_cond_broadcast(&queue_progress);
}

/* ---- the thread that runs a stream's work ---- */

static void *worker(void *argument)
{
    struct CUstream_st *stream = argument;
    char memory[FAULT_STACK_BYTES];
    fault_thread_begin(memory);
    pthread_mutex_lock(&queue_lock);
    for (;;) {
        while (stream->first == NULL && !stream->is_closed)
            sleep_locked(&stream->wake);
        struct work *work = stream->first;
        if (work == NULL)
            break;
        for (size_t i = 0; i < work->ticket_count; i++) {
            while (!ticket_is_done_locked(&work->after[i]))
                sleep_locked(&queue_progress);
        }
        while (stream->context->home->stopped != 0)
            sleep_locked(&queue_progress);
        pthread_mutex_unlock(&queue_lock);
        operation_run(work->operation, stream->home);
        operation_release(work->operation);
        pthread_mutex_lock(&queue_lock);
        stream->first = work->next;
        if (stream->first == NULL)
            stream->last = NULL;
        stream->completed++;
        pthread_cond_broadcast(&queue_progress);
        free(work);
    }
    stream->has_worker = 0;
    unlink_locked(stream);
    pthread_mutex_unlock(&queue_lock);
    fault_thread_end();
    return NULL;
}

/* Blocks the program's signals on these threads. Not those of faults: a blocked fault kills the process. */
int worker_start(const char *name, void *(*function)(void *), void *argument)
{
    sigset_t blocked, previous;
    sigfillset(&blocked);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&blocked, faults[i]);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &blocked, &previous);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, function, argument);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0)
        pthread_setname_np(thread, name);
    return error;
}

static int start_worker_locked(CUstream stream)
{
    int error = worker_start("cusim-stream", worker, stream);
    stream->has_worker = error == 0;
    return error;
}

static void add_ticket(struct work *work, struct ticket ticket)
{
    if (!ticket_is_done_locked(&ticket))
        work->after[work->ticket_count++] = ticket;
}

CUresult stream_enqueue_locked(CUstream stream, struct operation *operation, const struct ticket *after, struct ticket *ticket)
{
    CUcontext context = stream->context;
    int waits_for_many = stream == context->legacy;
    size_t capacity = 4;
    for (struct CUstream_st *other = context->home->streams; waits_for_many && other != NULL; other = other->next)
        capacity++;
    CALL_REFUSE(!stream->has_worker && start_worker_locked(stream) != 0, OUT_OF_MEMORY);
    struct work *work = memory_new(sizeof *work + capacity * sizeof work->after[0]);
    work->operation = operation_retain(operation);
    work->serial = ++last_serial;
    if (after != NULL)
        add_ticket(work, *after);
    if (waits_for_many) {
        for (struct CUstream_st *other = context->home->streams; other != NULL; other = other->next) {
            if (other != stream && is_ordered(stream, other))
                add_ticket(work, (struct ticket){other, other->submitted});
        }
    } else if (is_blocking(stream)) {
        add_ticket(work, (struct ticket){context->legacy, context->legacy->submitted});
    }
    if (stream->last != NULL)
        stream->last->next = work;
    else
        stream->first = work;
    stream->last = work;
    stream->submitted++;
    if (ticket != NULL)
        *ticket = (struct ticket){stream, stream->submitted};
    pthread_cond_signal(&stream->wake);
    return CUDA_SUCCESS;
}

void stream_use_own_default(int is_own)
{
    uses_own_default = is_own;
}

static CUresult check_attached(const struct CUstream_st *stream)
{
    if (!stream->is_detached)
        return CUDA_SUCCESS;
    handle_is_stale((uintptr_t)stream->handle);
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult find_own_locked(CUcontext context, CUstream *stream)
{
    CALL_REFUSE(context->green != NULL, INVALID_HANDLE);
    unsigned long owner = thread_number();
    *stream = context->streams;
    while (*stream != NULL && ((*stream)->owner != owner || (*stream)->is_closed))
        *stream = (*stream)->next;
    if (*stream == NULL)
        *stream = create_locked(context, CU_STREAM_DEFAULT);
    (*stream)->owner = owner;
    return CUDA_SUCCESS;
}

CUresult stream_find_locked(CUstream handle, CUstream *stream)
{
    if (handle == NULL)
        handle = uses_own_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (handle == CU_STREAM_PER_THREAD || handle == CU_STREAM_LEGACY) {
        CONTEXT_CURRENT(context);
        *stream = context->legacy;
        return handle == CU_STREAM_LEGACY ? CUDA_SUCCESS : find_own_locked(context, stream);
    }
    *stream = named_locked(handle);
    CALL_REFUSE(*stream == NULL, INVALID_HANDLE);
    CALL_TRY(check_attached(*stream));
    return context_error((*stream)->context);
}

void stream_await_submitters_locked(CUcontext context)
{
    uint64_t before = context->home->admissions;
    while (context->home->submitters != 0 && context->home->admissions == before)
        sleep_locked(&queue_progress);
}

void stream_await_submitters(CUcontext context)
{
    HOLD(&queue_lock);
    stream_await_submitters_locked(context);
}

static int is_full(const struct CUstream_st *stream)
{
    return stream->submitted - stream->completed >= config_get()->depth;
}

static void await_room_locked(CUstream stream)
{
    CUcontext home = stream->home;
    stream->submitters++;
    home->submitters++;
    while (is_full(stream))
        sleep_locked(&queue_progress);
    home->submitters--;
    home->admissions++;
    stream->submitters--;
    pthread_cond_broadcast(&queue_progress);
}

CUresult stream_find_ready_locked(CUstream handle, CUstream *stream)
{
    CALL_TRY(stream_find_locked(handle, stream));
    while ((*stream)->capture == NULL && is_full(*stream)) {
        await_room_locked(*stream);
        CALL_TRY(stream_find_locked(handle, stream));
    }
    return CUDA_SUCCESS;
}

/* A function of one context cannot run in a stream of another; a CUkernel can. */
static int is_foreign(const struct operation *operation, const struct CUstream_st *stream)
{
    return operation->kind == OPERATION_KERNEL && operation->launch.function->context_id != 0 &&
           operation->launch.function->context_id != stream->context->home->id;
}

static CUresult submit_locked(CUstream handle, struct operation *operation, enum submit_mode mode, struct ticket *last)
{
    CUstream stream;
    CALL_TRY(stream_find_ready_locked(handle, &stream));
    CUcontext context = stream->context;
    CALL_REFUSE(is_foreign(operation, stream), INVALID_HANDLE);
    int has_memory = operation->kind == OPERATION_GRAPH && operation->graph.recording->memory_nodes != 0;
    CALL_REFUSE(stream->capture != NULL && has_memory, NOT_SUPPORTED); /* it would be a child graph */
    if (stream->capture != NULL)
        return mode == SUBMIT_ASYNC ? capture_append_locked(stream, operation) : CAPTURE_REFUSE(stream->capture);
    CALL_TRY(capture_check_implicit_locked(stream, 1));
    if (has_memory)
        CALL_TRY(graph_memory_launch(operation, stream));
    struct ticket ticket;
    CALL_TRY(stream_enqueue_locked(stream, operation, last, &ticket));
    if (last != NULL)
        *last = ticket;
    if (mode == SUBMIT_ASYNC)
        return CUDA_SUCCESS;
    ticket_wait_locked(ticket);
    return context_error(context);
}

CUresult stream_submit_behind(CUstream handle, struct operation *consumed, enum submit_mode mode, struct ticket *last)
{
    OPERATION(operation, consumed);
    HOLD(&queue_lock);
    return submit_locked(handle, operation, mode, last);
}

/* Also ends a capture that the stream is in. */
static CUresult destroy(CUstream handle, CUgraph *graph)
{
    HOLD(&queue_lock);
    CUstream stream = named_locked(handle);
    if (stream != NULL && stream->context->home->submitters != 0) {
        stream_await_submitters_locked(stream->context);
        stream = named_locked(handle);
    }
    CALL_REFUSE(stream == NULL || stream == stream->context->legacy || stream->owner != 0, INVALID_HANDLE);
    CALL_TRY(check_attached(stream));
    if (stream->capture != NULL)
        *graph = capture_end_locked(stream->capture);
    close_locked(stream);
    return CUDA_SUCCESS;
}

DRIVER(cuStreamDestroy, 4000, (CUstream, hStream))
{
    CUgraph graph = NULL;
    CUresult result = destroy(hStream, &graph);
    if (graph != NULL)
        graph_free(graph);
    return result;
}
