#include "periodic.h"

#include "base/clock.h"
#include "base/output.h"
#include "base/thread.h"
#include "metrics.h"
#include "use.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    sem_t wake;
    pthread_t thread;
    int is_running; /* used by the thread that starts and stops it */
    int is_over;    /* atomic */
    int signals;    /* atomic: not answered yet */
    uint64_t every_ms;
    int is_listening; /* usr1=on */
    char file[1024];  /* "": none */
    int has_failed;   /* used by the thread, and then by the one that has joined it */
} periodic;

/* Only wakes the thread: everything else may be in the middle of something. */
static void on_signal(int number)
{
    int error = errno;
    (void)number;
    __atomic_fetch_add(&periodic.signals, 1, __ATOMIC_RELAXED);
    sem_post(&periodic.wake);
    errno = error;
}

static void complain(const char *what)
{
    if (!periodic.has_failed)
        output_say("==%d== cufence: cannot write the figures to %s: %s\n", (int)getpid(), periodic.file, what);
    periodic.has_failed = 1;
}

/* A reader sees the old file or the new one, never a part of it. */
static void write_figures(void)
{
    char beside[sizeof periodic.file + 16];
    if (!periodic.file[0])
        return;
    char *text = metrics_text();
    snprintf(beside, sizeof beside, "%s.%d", periodic.file, (int)getpid());
    FILE *out = text ? fopen(beside, "we") : NULL;
    int is_written = out && fputs(text, out) >= 0;
    int error = text ? errno : ENOMEM;
    if (out && fclose(out) != 0) {
        is_written = 0;
        error = errno;
    }
    if (is_written && rename(beside, periodic.file) != 0) {
        is_written = 0;
        error = errno;
    }
    if (!is_written) {
        if (out)
            unlink(beside);
        complain(strerror(error));
    } else {
        periodic.has_failed = 0;
    }
    free(text);
}

/* Waits until the semaphore is posted, or the file is due. */
static void rest(void)
{
    if (!periodic.file[0]) {
        while (sem_wait(&periodic.wake) != 0 && errno == EINTR)
            ;
        return;
    }
    const struct timespec until = clock_after(CLOCK_REALTIME, periodic.every_ms * NS_PER_MS);
    while (sem_timedwait(&periodic.wake, &until) != 0 && errno == EINTR)
        ;
}

static void *run(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "cufence-figures");
    write_figures();
    for (;;) {
        rest();
        if (__atomic_load_n(&periodic.is_over, __ATOMIC_ACQUIRE))
            return NULL;
        if (__atomic_exchange_n(&periodic.signals, 0, __ATOMIC_RELAXED))
            use_print(-1, "at SIGUSR1");
        else
            write_figures();
    }
}

static void listen_for_signal(void)
{
    struct sigaction before, ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (sigaction(SIGUSR1, NULL, &before) == 0 && before.sa_handler == SIG_DFL) {
        sigemptyset(&ours.sa_mask);
        sigaction(SIGUSR1, &ours, NULL);
    } else {
        output_say("cufence: usr1=on has no effect: the program handles SIGUSR1 itself\n");
    }
}

cufence_status periodic_open(const struct options *options)
{
    periodic.every_ms = options->stats_ms;
    periodic.is_listening = options->usr1;
    return options_expand_path(options->stats, periodic.file, sizeof periodic.file);
}

void periodic_start(void)
{
    if (!periodic.is_listening && !periodic.file[0])
        return;
    sem_init(&periodic.wake, 0, 0);
    int failed = thread_start(&periodic.thread, run, NULL);
    if (failed)
        output_say("cufence: usr1= and stats= have no effect: cannot start a thread: %s\n", strerror(failed));
    periodic.is_running = !failed;
    if (periodic.is_running && periodic.is_listening)
        listen_for_signal();
}

void periodic_stop(void)
{
    if (!periodic.is_running)
        return;
    periodic.is_running = 0;
    __atomic_store_n(&periodic.is_over, 1, __ATOMIC_RELEASE);
    sem_post(&periodic.wake);
    pthread_join(periodic.thread, NULL);
    write_figures();
}
