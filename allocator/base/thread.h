/*
 * Starts the threads of cufence. The kernel gives a signal to any thread that does not block it; a program that blocks its
 * signals to read them with sigwait() or signalfd() would lose them to a thread of ours, and with them its life. So ours block
 * them all, but for those that an instruction of the thread itself raises.
 *
 * Thread safety: any thread.
 */
#ifndef CUFENCE_BASE_THREAD_H
#define CUFENCE_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* As pthread_create() with default attributes; returns what that returns. The caller's own mask is left as it was. */
int thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

/*
 * Memory that each thread has of its own, taken at its first use and given back at the thread's end. Thread-local variables
 * would come out of the little room that the loader keeps for libraries that are opened late.
 */
struct thread_memory {
    size_t size;       /* bytes; zeroed at first */
    int is_ready;      /* atomic; starts as 0 */
    pthread_key_t key; /* constant once it is */
};
void *thread_memory(struct thread_memory *memory); /* NULL: the host has none */

#endif
