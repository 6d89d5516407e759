#include "lifecycle.h"

#include "base/output.h"
#include "base/thread.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

static struct {
    sem_t wake;
    pthread_t thread;
    int is_running; /* used by the thread that starts and stops it */
    int is_over;    /* atomic */
} usr1;

/* Only wakes the thread: everything else may be in the middle of something. */
static void on_signal(int number)
{
    int error = errno;
    (void)number;
    sem_post(&usr1.wake);
    errno = error;
}

static void *run(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "cufence-usr1");
    for (;;) {
        while (sem_wait(&usr1.wake) != 0 && errno == EINTR)
            ;
        if (__atomic_load_n(&usr1.is_over, __ATOMIC_ACQUIRE))
            return NULL;
        use_print(-1, "at SIGUSR1");
    }
}

static void listen_for_signal(void)
{
    struct sigaction before, ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (sigaction(SIGUSR1, NULL, &before) == 0 && before.sa_handler == SIG_DFL) {
        sigemptyset(&ours.sa_mask);
        sigaction(SIGUSR1, &ours, NULL);
    } else {
        output_say("cufence: live=usr1 has no effect: the program handles SIGUSR1 itself\n");
    }
}

void usr1_start(void)
{
    sem_init(&usr1.wake, 0, 0);
    int failed = thread_start(&usr1.thread, run, NULL);
    if (failed)
        output_say("cufence: live=usr1 has no effect: cannot start a thread: %s\n", strerror(failed));
    usr1.is_running = !failed;
    if (usr1.is_running)
        listen_for_signal();
}

void usr1_stop(void)
{
    if (!usr1.is_running)
        return;
    usr1.is_running = 0;
    __atomic_store_n(&usr1.is_over, 1, __ATOMIC_RELEASE);
    sem_post(&usr1.wake);
    pthread_join(usr1.thread, NULL);
}
