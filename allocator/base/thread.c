#include "thread.h"

#include <stdlib.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

int thread_start(pthread_t *thread, void *(*function)(void *), void *argument)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&blocked, own[i]);
    /* A new thread inherits its creator's signal mask. */
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int failed = pthread_create(thread, NULL, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

HOT_TLS uint32_t thread_own_id;

/* The thread that forked goes on in the child with another number. */
static void forget_id(void)
{
    thread_own_id = 0;
}

static void __attribute__((constructor)) watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_id);
}

uint32_t thread_ask_id(void)
{
    thread_own_id = (uint32_t)syscall(SYS_gettid); /* glibc has gettid() since 2.30 only */
    return thread_own_id;
}

void *thread_memory(struct thread_memory *memory)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    if (!__atomic_load_n(&memory->is_ready, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&making);
        if (!memory->is_ready && pthread_key_create(&memory->key, free) == 0)
            __atomic_store_n(&memory->is_ready, 1, __ATOMIC_RELEASE);
        int is_ready = memory->is_ready;
        pthread_mutex_unlock(&making);
        if (!is_ready)
            return NULL;
    }
    void *own = pthread_getspecific(memory->key);
    if (!own && (own = calloc(1, memory->size)) != NULL && pthread_setspecific(memory->key, own) != 0) {
        free(own);
        own = NULL;
    }
    return own;
}
