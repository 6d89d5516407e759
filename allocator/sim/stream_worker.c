/* The thread that runs a stream's work. */
#include "trap.h"
#include "stream.h"

#include <signal.h>

static void free_work_locked(struct work *work)
{
    for (size_t i = 0; i < work->ticket_count; i++)
        stream_release_locked(work->after[i].stream);
    free(work);
}

static void *worker(void *argument)
{
    struct CUstream_st *stream = argument;
    char memory[FAULT_STACK_BYTES];
    fault_thread_begin(memory);
    pthread_mutex_lock(&queue_lock);
    for (;;) {
        while (stream->first == NULL && !stream->is_closed)
            queue_sleep_locked(&stream->wake);
        struct work *work = stream->first;
        if (work == NULL)
            break;
        for (size_t i = 0; i < work->ticket_count; i++) {
            while (!ticket_is_done_locked(&work->after[i]))
                queue_sleep_locked(&queue_progress);
        }
        while (stream->context->home->stopped != 0)
            queue_sleep_locked(&queue_progress);
        pthread_mutex_unlock(&queue_lock);
        operation_run(work->operation, stream->home);
        operation_release(work->operation);
        pthread_mutex_lock(&queue_lock);
        stream->first = work->next;
        if (stream->first == NULL)
            stream->last = NULL;
        stream->completed++;
        pthread_cond_broadcast(&queue_progress);
        free_work_locked(work);
    }
    stream->has_worker = 0;
    stream->references--; /* of the worker; the list's reference is dropped last, except for those of events and tickets */
    stream_unlink_locked(stream);
    pthread_mutex_unlock(&queue_lock);
    fault_thread_end();
    return NULL;
}

/* Blocks the program's signals on these threads. Not those of faults: a blocked fault kills the process. */
int stream_start_worker_locked(CUstream stream)
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
    stream_retain_locked(stream);
    int error = pthread_create(&thread, &attributes, worker, stream);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0)
        pthread_setname_np(thread, "cusim-stream");
    else
        stream_release_locked(stream);
    stream->has_worker = error == 0;
    return error;
}
