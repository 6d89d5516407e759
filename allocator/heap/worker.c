/* The background thread: unmaps retiring blocks that have passed, chooses blocks to retire (uaf=adaptive), and releases what
 * has been idle too long. */
#include "heap_internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/thread.h"
#include "vmm/physical.h"

#include <string.h>

#define POLL_NS 200000ul    /* while freed buffers wait to be retired: two to three times the driver time of a mapping */
#define YIELD_NS 20000ul    /* after some were: others are waiting meanwhile, for what it has in hand */
#define REST_NS 100000000ul /* otherwise, while the device works on what there is to do: how often to look */
#define PACE_NS 1000000ul   /* uaf=adaptive, while the program frees buffers: nothing waits for what is retired */
#define WATCH_NS 20000000ul /* uaf=adaptive, otherwise: how soon to notice that it does */
#define PATIENCE 64         /* looks in vain at what waits to be retired, before they come half as often */
#define QUIET 8             /* looks in vain before the thread goes to sleep */
#define STOP_MS 2000        /* many times what a driver call takes */

static pthread_t thread;
static int is_running; /* used only by the thread that starts and stops it */

static int has_retiring(void)
{
    for (const struct books *books = books_next(NULL, -1); books; books = books_next(books, -1)) {
        if (figure(&books->shared.retiring_count))
            return 1;
    }
    return 0;
}

/* What a look around has shown. */
struct agenda {
    int is_active;   /* the program is freeing buffers that may be retired, or with uaf=strict, some were */
    int is_pending;  /* there will be more to do when the device has gone on */
    uint64_t due_ns; /* when there will be although neither device nor program do anything; UINT64_MAX: never */
};

/* Why the thread looks. ASKED: somebody needs memory, and wants to know what has passed. */
enum cause { FOR_WORK, TO_TRIM, ASKED };

static void visit(struct books *books, enum cause cause, int has_gone, struct agenda *agenda)
{
    if (__atomic_load_n(&books->context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return;
    SCOPE scope = scope_visit(books->context);
    if (scope.pushed) {
        RETURNS_MEMORY;
        events_fill(books);
        if (has_gone || cause != FOR_WORK)
            reclaim_graphs(books);
        if (heap_options->uaf == UAF_ADAPTIVE)
            agenda->is_active |= adaptive_work(books);
        else
            agenda->is_active |= reclaim_retired(books);
        if (cause == TO_TRIM)
            reclaim_old(books);
        else if (cause == ASKED)
            reclaim_look(books, 0);
    }
}

int heap_collect(void)
{
    int is_pending = 0;
    for (struct books *books = books_next(NULL, -1); books; books = books_next(books, -1)) {
        slack_collect(books);
        is_pending |= slack_is_flying(books);
    }
    return is_pending;
}

/* One look at everything. */
static struct agenda look_around(enum cause cause)
{
    struct agenda agenda = {.due_ns = UINT64_MAX};
    int has_gone = captures_are_gone();
    if (cause != ASKED)
        heap_collect(); /* before memory is retired that the reports need */
    for (struct books *books = books_next(NULL, -1); books; books = books_next(books, -1)) {
        if (visit_begin(books, 0)) {
            visit(books, cause, has_gone, &agenda);
            visit_end(books);
        }
        agenda.is_pending |= reclaim_is_pending(books, &agenda.due_ns);
    }
    agenda.is_pending |= heap_collect();
    if (heap_options->uaf == UAF_ADAPTIVE && adaptive_due_ns() < agenda.due_ns)
        agenda.due_ns = adaptive_due_ns();
    return agenda;
}

struct rest {
    uint64_t until_ns;
    enum wake_depth depth;
};

/* Until when to wait. quiet: looks in vain so far. is_seen: everybody could see the thread sleep for WATCH_NS before the last
 * look, which has thus seen whatever was stored by those who could not. Only then it sleeps for longer. */
static struct rest choose_rest(const struct agenda *agenda, unsigned quiet, int is_seen)
{
    int is_adaptive = heap_options->uaf == UAF_ADAPTIVE;
    uint64_t now = monotonic_ns();
    if (has_retiring()) {
        unsigned slower = quiet / PATIENCE;
        uint64_t pause = (is_adaptive ? PACE_NS : agenda->is_active ? YIELD_NS : POLL_NS) << slower;
        return (struct rest){now + (pause < WATCH_NS ? pause : WATCH_NS), slower < 3 ? WAKE_POLLING : WAKE_RESTING};
    }
    if (is_adaptive && agenda->is_active)
        return (struct rest){now + PACE_NS, WAKE_POLLING};
    if (quiet < QUIET || agenda->is_pending)
        return (struct rest){now + (is_adaptive && quiet < QUIET ? WATCH_NS : REST_NS), WAKE_RESTING};
    if (!is_seen || agenda->due_ns <= now)
        return (struct rest){now + WATCH_NS, WAKE_SLEEPING};
    return (struct rest){agenda->due_ns, WAKE_SLEEPING};
}

static void *run(void *unused)
{
    (void)unused;
    struct agenda agenda = {.due_ns = UINT64_MAX};
    struct rest rest = choose_rest(&agenda, 0, 0);
    uint64_t trimmed_ns = now_ns();
    unsigned quiet = 0;
    enum wake_end end;
    pthread_setname_np(pthread_self(), "cufence-worker");
    while ((end = wake_wait(rest.until_ns, rest.depth)) != WAKE_STOPPED) {
        enum cause cause = wake_is_asked() ? ASKED : now_ns() - trimmed_ns > REST_NS ? TO_TRIM : FOR_WORK;
        if (cause == TO_TRIM)
            trimmed_ns = now_ns();
        agenda = look_around(cause);
        if (cause == ASKED)
            wake_answer();
        quiet = agenda.is_active || end == WAKE_WOKEN ? 0 : quiet + (quiet < 7 * PATIENCE);
        rest = choose_rest(&agenda, quiet, end == WAKE_TIMED_OUT && rest.depth == WAKE_SLEEPING);
    }
    return NULL;
}

cufence_status worker_start(void)
{
    wake_reset();
    int failed = thread_start(&thread, run, NULL);
    if (failed)
        return error_set(CUFENCE_ERROR_SYSTEM, "cannot start the background thread: %s", strerror(failed));
    is_running = 1;
    return CUFENCE_OK;
}

void heap_close(void)
{
    if (!is_running)
        return;
    wake_stop();
    if (!thread_join_within(thread, STOP_MS))
        pthread_detach(thread); /* the process ends even if a driver call hangs */
    is_running = 0;
}
