/*
 * Starts cufence's own threads. The kernel delivers a signal to any thread that does not block it. A program that blocks
 * signals and reads them with sigwait() or signalfd() would lose them to one of our threads, and would be killed by them. So
 * our threads block all signals except those that their own instructions raise.
 *
 * A process ends when its last thread does, and our threads must not keep it: once the main thread has left with
 * pthread_exit(), a thread of ours looks up to ten times a second whether only ours are left, and then calls exit(0), as the C
 * library would.
 *
 * Thread safety: any thread.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Thread-local data of the fast path, accessed without a function call. It takes up the small static TLS reserve that the
 * loader keeps for dlopened libraries, so use a few words in all. */
#define HOT_TLS __attribute__((tls_model("initial-exec"))) _Thread_local

/* Like pthread_create() with default attributes, and returns the same. The caller's signal mask is unchanged. */
int thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

/* Joins the thread unless that takes longer; returns whether it has. */
int thread_join_within(pthread_t thread, uint64_t ms);

/*
 * Per-thread memory, allocated on first use and freed when the thread ends. Used instead of thread-local variables, which would
 * take up the small static TLS reserve that the loader keeps for dlopened libraries.
 */
struct thread_memory {
    size_t size;       /* bytes; zero-initialised */
    int is_ready;      /* atomic; starts as 0 */
    pthread_key_t key; /* constant once it is */
};
void *thread_memory(struct thread_memory *memory); /* NULL: out of host memory */

extern HOT_TLS uint32_t thread_own_id; /* of thread_id() alone; 0: not asked for yet */
uint32_t thread_ask_id(void);          /* likewise */

/* The kernel's number of the calling thread, as gettid() returns it; a system call the first time only. */
static inline uint32_t thread_id(void)
{
    uint32_t id = thread_own_id;
    return __builtin_expect(id != 0, 1) ? id : thread_ask_id();
}
