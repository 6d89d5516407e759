#include "jobs.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/output.h"
#include "base/text.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#define MOST_JOBS 65536  /* that wait; later ones are only counted */
#define REFUSED_MOST 100 /* looks in turn at which another thread has the lock */
#define PAUSE_US 100     /* between two looks at work that is not done */
#define FAULT_MS 1000    /* after a fault, work that was done before it may still be about to say so */

const struct visit_user *visit_users[VISIT_USERS];
unsigned visit_users_added;

static struct {
    struct lock lock;      /* guards what is not marked otherwise */
    pthread_cond_t filled; /* a job was submitted, or the end has come */
    pthread_cond_t freed;  /* pinned memory was given back, or a job is finished */
    pthread_t thread;
    pthread_cond_t ended; /* the thread has */
    int has_thread, is_closing, has_ended;
    struct job *first;  /* in the order of their submission */
    uint64_t submitted; /* so many were */
    uint64_t finishing; /* turn of the one that its users are just getting the results of, 0: none */
    size_t count;
    int has_waited_in_vain;
    uint64_t limit;  /* of pinned memory in a context; constant after the start */
    uint64_t missed; /* jobs beyond MOST_JOBS */
} jobs = {.lock = LOCK(RANK_VALUES),
          .filled = PTHREAD_COND_INITIALIZER,
          .freed = PTHREAD_COND_INITIALIZER,
          .ended = PTHREAD_COND_INITIALIZER,
          .limit = VISITS_PINNED};

void visits_need(uint64_t pinned_bytes)
{
    jobs.limit = pinned_bytes > jobs.limit ? pinned_bytes : jobs.limit;
}

/* ---- contexts ---- */

/* Loads the kernels of those users that have none there yet. */
static int load(struct visit_context *made, unsigned users)
{
    int is_loaded = made->ready || flight_load_mark(&made->mark);
    for (unsigned i = made->ready; i < users && is_loaded; i++) {
        const struct visit_user *user = visit_users[i];
        size_t count = 0;
        while (count < VISIT_KERNELS && user->kernels[count])
            count++;
        if (user->ptx)
            is_loaded = kernels_load(user->ptx, user->kernels, made->functions[i], count);
    }
    return is_loaded;
}

static struct visit_context *prepare(struct context *context)
{
    static int has_said; /* atomic */
    lock_take(&jobs.lock);
    struct visit_context *made = context->books[CONTEXT_VALUES];
    if (!made && (made = calloc(1, sizeof *made)) != NULL) {
        made->results.limit = jobs.limit;
        __atomic_store_n((struct visit_context **)&context->books[CONTEXT_VALUES], made, __ATOMIC_RELEASE);
    }
    unsigned users = visit_user_count();
    if (made && made->ready != users && load(made, users))
        __atomic_store_n(&made->ready, users, __ATOMIC_RELEASE);
    int is_ready = made && made->ready == users;
    lock_release(&jobs.lock);
    if (!is_ready && !__atomic_exchange_n(&has_said, 1, __ATOMIC_RELAXED))
        output_say("cufence: the driver does not load cufence's kernels on device %d: values and checks of launches there "
                   "are left out\n",
                   context->device);
    return is_ready ? made : NULL;
}

struct visit_context *visit_context_of(struct context *context)
{
    struct visit_context *made = __atomic_load_n((struct visit_context **)&context->books[CONTEXT_VALUES], __ATOMIC_ACQUIRE);
    return made && __atomic_load_n(&made->ready, __ATOMIC_ACQUIRE) == visit_user_count() ? made : prepare(context);
}

void visits_context_begun(struct context *context)
{
    visit_context_of(context);
}

/* ---- memory ---- */

static uint8_t *take_locked(struct visit_context *within, size_t bytes)
{
    lock_expect(RANK_VALUES);
    uint8_t *memory = results_take(&within->results, bytes);
    if (memory)
        jobs.has_waited_in_vain = 0;
    return memory;
}

int jobs_take_memory(struct visit_context *within, struct job *job, size_t bytes)
{
    const struct timespec until = clock_after(CLOCK_REALTIME, VISIT_WAIT_MS * NS_PER_MS);
    lock_take(&jobs.lock);
    uint8_t *memory = jobs.count < MOST_JOBS ? take_locked(within, bytes) : NULL;
    while (!memory && jobs.first && !jobs.has_waited_in_vain && results_fits(&within->results, bytes)) {
        jobs.has_waited_in_vain = lock_wait(&jobs.lock, &jobs.freed, &until) != 0; /* for memory that is given back */
        memory = jobs.has_waited_in_vain ? NULL : take_locked(within, bytes);
    }
    lock_release(&jobs.lock);
    job->memory = memory;
    job->bytes = memory ? bytes : 0;
    return memory != NULL;
}

static void give_locked(struct job *job)
{
    lock_expect(RANK_VALUES);
    struct visit_context *within = job->memory ? job->visit.context->books[CONTEXT_VALUES] : NULL;
    if (within) {
        results_give(&within->results, job->memory);
        pthread_cond_broadcast(&jobs.freed);
    }
    job->memory = NULL;
}

void jobs_free(struct job *job)
{
    lock_take(&jobs.lock);
    give_locked(job);
    lock_release(&jobs.lock);
    free(job->copy);
    free((void *)job->visit.graph_functions);
    free((void *)job->visit.reached);
    free((void *)job->visit.arguments);
    free(job);
}

/* ---- finishing ---- */

/* Looks whether the job is done, and takes its results then. Memory that work of ours may still write is never used again. */
static void look_locked(struct job *job)
{
    lock_expect(RANK_VALUES);
    if (job->is_done || !flight_is_over(&job->flight))
        return;
    if (job->how == VISIT_DONE && (job->copy = malloc(job->bytes)) != NULL)
        memcpy(job->copy, job->memory, job->bytes);
    if (job->how == VISIT_DONE && !job->copy)
        job->how = VISIT_NO_ROOM;
    if (job->flight.is_begun)
        give_locked(job);
    job->memory = NULL;
    job->is_done = 1;
}

static void give_up_locked(struct job *job)
{
    look_locked(job);
    if (job->is_done)
        return;
    job->how = VISIT_LOST;
    job->memory = NULL;
    job->is_done = 1;
}

/* Takes the next job that is done out of the queue. */
static struct job *next_locked(void)
{
    lock_expect(RANK_VALUES);
    uint64_t now = monotonic_ms();
    for (struct job *job = jobs.first; job; job = job->next) {
        uint64_t age = now - job->visit.time_ns / NS_PER_MS;
        look_locked(job);
        if (age > FAULT_MS && __atomic_load_n(&job->visit.context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
            give_up_locked(job); /* nothing there will ever be done */
        if (job->is_done) {
            DL_DELETE(jobs.first, job);
            jobs.count--;
            return job;
        }
        if (age < VISIT_PATIENCE_MS && !jobs.is_closing)
            return NULL;
    }
    return NULL;
}

static void finish(struct job *job)
{
    uint8_t *copy = job->how == VISIT_DONE ? job->copy : NULL;
    for (unsigned i = 0; i < visit_user_count(); i++) {
        if (job->users >> i & 1)
            visit_users[i]->finished(&job->visit, copy ? copy + job->offsets[i] : NULL, copy ? job->parts[i].bytes : 0,
                                     job->how);
    }
    jobs_free(job);
}

static void *work(void *unused)
{
    (void)unused;
    lock_take(&jobs.lock);
    while (!jobs.is_closing || jobs.first) {
        struct job *job = next_locked();
        if (!job && !jobs.first) {
            lock_wait(&jobs.lock, &jobs.filled, NULL);
            continue;
        }
        jobs.finishing = job ? job->turn : 0;
        lock_release(&jobs.lock);
        if (job)
            finish(job);
        else
            usleep(PAUSE_US);
        lock_take(&jobs.lock);
        jobs.finishing = 0;
        pthread_cond_broadcast(&jobs.freed);
    }
    jobs.has_ended = 1;
    pthread_cond_signal(&jobs.ended);
    lock_release(&jobs.lock);
    return NULL;
}

/* Whether one of the first `submitted` jobs has its results, and is not finished. */
static int is_due_locked(uint64_t submitted)
{
    for (struct job *job = jobs.first; job && job->turn <= submitted; job = job->next) {
        if (job->is_done || flight_is_over(&job->flight))
            return 1;
    }
    return jobs.finishing && jobs.finishing <= submitted;
}

/* By looks instead of waits: the caller may be a signal handler that ends the process, in a thread that holds the lock. */
int jobs_await(unsigned ms)
{
    const uint64_t until = monotonic_ms() + ms, submitted = __atomic_load_n(&jobs.submitted, __ATOMIC_RELAXED);
    int is_due = submitted != 0;
    for (unsigned refused = 0; is_due && refused < REFUSED_MOST;) {
        refused++;
        if (lock_try(&jobs.lock)) {
            refused = 0;
            is_due = !pthread_equal(pthread_self(), jobs.thread) && is_due_locked(submitted);
            lock_release(&jobs.lock);
        }
        if (is_due && monotonic_ms() >= until)
            break;
        if (is_due)
            aside_sleep(1000);
    }
    return !is_due;
}

/* ---- the queue ---- */

void jobs_submit(struct job *job)
{
    lock_take(&jobs.lock);
    if (!jobs.has_thread)
        jobs.has_thread = thread_start(&jobs.thread, work, NULL) == 0;
    int is_kept = jobs.has_thread && !jobs.is_closing && (job->memory || jobs.count < MOST_JOBS);
    if (is_kept) {
        DL_APPEND(jobs.first, job);
        job->turn = __atomic_add_fetch(&jobs.submitted, 1, __ATOMIC_RELAXED);
        jobs.count++;
        pthread_cond_signal(&jobs.filled);
    } else {
        jobs.missed++;
    }
    lock_release(&jobs.lock);
    if (!is_kept && !job->memory)
        jobs_free(job);
    /* Another one that is not kept stays in memory: our kernels may still be writing its results. */
}

void visits_context_gone(struct context *context)
{
    struct visit_context *within = context->books[CONTEXT_VALUES];
    if (!within)
        return;
    HOLD(&jobs.lock);
    for (struct job *job = jobs.first; job; job = job->next) {
        if (job->visit.context == context)
            give_up_locked(job);
    }
    results_forget(&within->results);
    memset(within->functions, 0, sizeof within->functions);
    __atomic_store_n(&within->ready, 0, __ATOMIC_RELEASE);
}

void jobs_close(unsigned ms)
{
    const struct timespec until = clock_after(CLOCK_REALTIME, ms * NS_PER_MS);
    lock_take(&jobs.lock);
    jobs.is_closing = 1;
    for (struct job *job = jobs.first; job; job = job->next)
        give_up_locked(job); /* what the devices have done is there already; the rest will never be */
    pthread_cond_signal(&jobs.filled);
    while (jobs.has_thread && !jobs.has_ended && lock_wait(&jobs.lock, &jobs.ended, &until) == 0)
        continue;
    int has_thread = jobs.has_thread, has_ended = jobs.has_ended;
    lock_release(&jobs.lock);
    if (!has_thread)
        return;
    if (has_ended) {
        pthread_join(jobs.thread, NULL);
    } else {
        pthread_detach(jobs.thread);
        output_say("cufence: the values of some launches could not be written within %u ms\n", ms);
    }
    if (jobs.missed)
        output_say("cufence: %llu launch%s had no room among those whose values wait to be written\n",
                   (unsigned long long)jobs.missed, plural_es(jobs.missed));
}
