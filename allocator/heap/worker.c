/* The background thread: unmaps retiring blocks that have passed, chooses blocks to retire (uaf=adaptive), and releases what
 * has been idle too long. */
#include "internal.h"

#include "base/error.h"
#include "base/options.h"
#include "base/thread.h"

#include <string.h>

#define POLL_NS 200000ul    /* while freed buffers wait to be retired: two to three times the driver time of a mapping */
#define YIELD_NS 20000ul    /* after some were: others are waiting meanwhile, for what it holds (visit_begin()) */
#define REST_NS 100000000ul /* otherwise: how often to check idle mappings */
#define PACE_NS 1000000ul   /* uaf=adaptive, while the program frees buffers: nothing waits for what is retired */
#define WATCH_NS 20000000ul /* uaf=adaptive, otherwise: how soon to notice that it does */
#define STOP_MS 2000        /* many times what a driver call takes */

static pthread_t thread;
static int is_running; /* used only by the thread that starts and stops it */

static int has_retiring(void)
{
    for (struct context *context = context_next(NULL); context; context = context_next(context)) {
        struct books *books = books_of(context);
        if (books && __atomic_load_n(&books->shared.retiring_count, __ATOMIC_RELAXED))
            return 1;
    }
    return 0;
}

/* Returns whether the program is freeing buffers that may be retired, or with uaf=strict, whether some were. */
static int visit(struct context *context, int is_time_to_trim, int has_gone)
{
    struct books *books = books_of(context);
    int is_active = 0;
    if (!books || __atomic_load_n(&context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return 0;
    struct scope scope = scope_visit(context);
    if (scope.pushed) {
        if (has_gone || is_time_to_trim)
            captures_collect(books);
        if (heap_options->uaf == UAF_ADAPTIVE)
            is_active = adaptive_work(books);
        else
            is_active = reclaim_retired(books);
        if (is_time_to_trim)
            reclaim_old(books);
    }
    scope_leave(scope);
    return is_active;
}

/* Sleeps until there may be work. Returns 0 when the thread is to end. */
static int wait_for_work(int is_active)
{
    int is_busy = has_retiring();
    if (heap_options->uaf != UAF_ADAPTIVE)
        return bell_wait(!is_busy ? REST_NS : is_active ? YIELD_NS : POLL_NS, is_busy);
    is_busy |= is_active;
    return bell_wait(is_busy ? PACE_NS : WATCH_NS, is_busy);
}

static void *run(void *unused)
{
    (void)unused;
    uint64_t trimmed_ns = now_ns();
    int is_active = 0;
    pthread_setname_np(pthread_self(), "cufence-worker");
    while (wait_for_work(is_active)) {
        int is_time_to_trim = now_ns() - trimmed_ns > REST_NS;
        if (is_time_to_trim)
            trimmed_ns = now_ns();
        int has_gone = captures_are_gone();
        is_active = 0;
        for (struct context *context = context_next(NULL); context; context = context_next(context)) {
            visit_begin();
            is_active |= visit(context, is_time_to_trim, has_gone);
            visit_end();
            if (books_of(context))
                slack_collect(books_of(context));
        }
    }
    return NULL;
}

cufence_status worker_start(void)
{
    bell_reset();
    int failed = thread_start(&thread, run, NULL);
    if (failed)
        return error_set(CUFENCE_ERROR_SYSTEM, "cannot start the background thread: %s", strerror(failed));
    is_running = 1;
    return CUFENCE_OK;
}

void worker_stop(void)
{
    if (!is_running)
        return;
    bell_stop();
    if (!thread_join_within(thread, STOP_MS))
        pthread_detach(thread); /* a driver call that does not return must not keep the process */
    is_running = 0;
}
