/*
 * A thread with the id of one that has ended, as programs get it after 4 million threads. Linux hands ids out in order, and
 * says where it stands in ns_last_pid; whoever may write there (root, mostly) has the id at once. Otherwise, or where another
 * process is quicker, threads are made until the id comes round, which may take seconds.
 */
#pragma once

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct thread_with_id {
    pid_t wanted;
    int has_run;
    void *(*run)(void *);
    void *argument;
};

static inline void *run_if_wanted(void *argument)
{
    struct thread_with_id *thread = argument;
    if (gettid() == thread->wanted) {
        thread->has_run = 1;
        thread->run(thread->argument);
    }
    return NULL;
}

/* Runs the function to its end in a new thread whose gettid() is `id`, which no thread has now. Returns 0, or -1 if none got
 * it. */
static inline int run_in_thread_with_id(pid_t id, void *(*run)(void *), void *argument)
{
    struct thread_with_id thread = {.wanted = id, .run = run, .argument = argument};
    for (long tries = 0; tries < 5000000 && !thread.has_run; tries++) {
        pthread_t handle;
        FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "w");
        if (last != NULL) {
            fprintf(last, "%d", (int)id - 1);
            fclose(last);
        }
        if (pthread_create(&handle, NULL, run_if_wanted, &thread) != 0)
            return -1;
        pthread_join(handle, NULL);
    }
    return thread.has_run ? 0 : -1;
}
