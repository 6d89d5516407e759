#include "thread.h"

#include <signal.h>

int thread_start(pthread_t *thread, void *(*function)(void *), void *argument)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&blocked, own[i]);
    /* A new thread inherits the mask of the one that makes it. */
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int failed = pthread_create(thread, NULL, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
