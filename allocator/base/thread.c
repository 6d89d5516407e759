#include "thread.h"

#include "clock.h"
#include "lock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- our own threads ---- */

struct beginning {
    void *(*function)(void *);
    void *argument;
};

/* The numbers of our threads, as a name may be refused (seccomp); 0: free. Atomic. */
static uint32_t ours[64];

static uint32_t *enlist(void)
{
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        uint32_t none = 0;
        if (__atomic_compare_exchange_n(&ours[i], &none, thread_id(), 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return &ours[i];
    }
    return NULL;
}

static void *begin(void *user)
{
    const struct beginning beginning = *(struct beginning *)user;
    uint32_t *own = enlist();
    free(user);
    pthread_setname_np(pthread_self(), "cufence"); /* the function may choose a longer one */
    void *result = beginning.function(beginning.argument);
    if (own)
        __atomic_store_n(own, 0, __ATOMIC_SEQ_CST);
    return result;
}

#define STACK_LEAST ((size_t)1 << 20) /* a low `ulimit -s` is meant for the program's threads: a report takes 190 KiB */

static int start_blocked(pthread_t *thread, void *(*function)(void *), void *argument)
{
    static const int unblocked[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
    struct beginning *beginning = malloc(sizeof *beginning);
    sigset_t blocked, before;
    pthread_attr_t attributes;
    size_t size;
    if (!beginning)
        return EAGAIN;
    *beginning = (struct beginning){function, argument};
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof unblocked / sizeof *unblocked; i++)
        sigdelset(&blocked, unblocked[i]);
    /* A new thread inherits its creator's signal mask. */
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    pthread_attr_init(&attributes);
    if (pthread_attr_getstacksize(&attributes, &size) == 0 && size < STACK_LEAST)
        pthread_attr_setstacksize(&attributes, STACK_LEAST);
    int failed = pthread_create(thread, &attributes, begin, beginning);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        free(beginning);
    return failed;
}

/* ---- the program's own threads have all ended ---- */

#define LOOK_US 5000u
#define LOOK_MOST_US 100000u

static struct {
    pthread_key_t key;
    int is_watched;  /* the key has a value in the main thread; written by that thread */
    int has_started; /* atomic: a thread of ours */
    int has_left;    /* atomic: the main thread has called pthread_exit() */
    int is_awaited;  /* atomic: a thread waits for the others' end */
    sigset_t mask;   /* of the main thread when it left */
} process;

/* The number of links is that of threads and two more; the main thread stays as a zombie until the process ends. */
static int are_only_ours_left(void)
{
    struct stat threads;
    nlink_t count = 3;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        uint32_t id = __atomic_load_n(&ours[i], __ATOMIC_SEQ_CST);
        count += id != 0 && id != (uint32_t)getpid();
    }
    return stat("/proc/self/task", &threads) == 0 && threads.st_nlink <= count;
}

/* Does what the C library does when the last thread ends: to it, our threads are the program's. As they block the signals that
 * the program might die of, this one stops doing so. */
static void *end_with_the_program(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "cufence-end");
    for (useconds_t rest = LOOK_US; !are_only_ours_left(); rest = rest < LOOK_MOST_US ? 2 * rest : LOOK_MOST_US)
        usleep(rest);
    pthread_sigmask(SIG_SETMASK, &process.mask, NULL);
    exit(0);
}

/* Where no thread can be started any more, the main thread stays for it. */
static void await_the_end(void)
{
    pthread_t thread;
    if (__atomic_exchange_n(&process.is_awaited, 1, __ATOMIC_SEQ_CST))
        return;
    if (start_blocked(&thread, end_with_the_program, NULL) == 0)
        pthread_detach(thread);
    else if (thread_id() == (uint32_t)getpid() && enlist())
        end_with_the_program(NULL);
}

/* Runs when the main thread calls pthread_exit(), not when it ends the process. */
static void main_leaves(void *unused)
{
    (void)unused;
    pthread_sigmask(SIG_SETMASK, NULL, &process.mask);
    __atomic_store_n(&process.has_left, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&process.has_started, __ATOMIC_SEQ_CST))
        await_the_end();
}

static void watch_main(void)
{
    if (thread_id() == (uint32_t)getpid() && !process.is_watched)
        process.is_watched =
            pthread_key_create(&process.key, main_leaves) == 0 && pthread_setspecific(process.key, &process) == 0;
}

int thread_start(pthread_t *thread, void *(*function)(void *), void *argument)
{
    watch_main(); /* if another thread has loaded the library */
    int failed = start_blocked(thread, function, argument);
    __atomic_store_n(&process.has_started, 1, __ATOMIC_SEQ_CST);
    if (!failed && __atomic_load_n(&process.has_left, __ATOMIC_SEQ_CST))
        await_the_end();
    return failed;
}

int thread_join_within(pthread_t thread, uint64_t ms)
{
    const struct timespec until = clock_after(CLOCK_REALTIME, ms * NS_PER_MS);
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

/* ---- numbers and memory ---- */

HOT_TLS uint32_t thread_own_id;

/* The thread that forked goes on in the child, alone and with another number. */
static void forget_threads(void)
{
    thread_own_id = 0;
    memset(ours, 0, sizeof ours);
    process.has_started = process.has_left = process.is_awaited = 0;
}

static void __attribute__((constructor)) watch(void)
{
    pthread_atfork(NULL, NULL, forget_threads);
    watch_main();
}

uint32_t thread_ask_id(void)
{
    thread_own_id = (uint32_t)syscall(SYS_gettid); /* glibc has gettid() since 2.30 only */
    return thread_own_id;
}

void *thread_memory(struct thread_memory *memory)
{
    static struct lock making = LOCK(RANK_LEAF);
    if (!__atomic_load_n(&memory->is_ready, __ATOMIC_ACQUIRE)) {
        HOLD(&making);
        if (!memory->is_ready && pthread_key_create(&memory->key, free) != 0)
            return NULL;
        __atomic_store_n(&memory->is_ready, 1, __ATOMIC_RELEASE);
    }
    void *own = pthread_getspecific(memory->key);
    if (!own && (own = calloc(1, memory->size)) != NULL && pthread_setspecific(memory->key, own) != 0) {
        free(own);
        own = NULL;
    }
    return own;
}
