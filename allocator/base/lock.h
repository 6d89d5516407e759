/*
 * Mutexes with a rank, against deadlocks: a thread that holds a lock may only take locks of a higher rank. Debug builds check
 * this every time a lock is taken (lock.c aborts and prints both ranks); release builds compile to the plain mutex.
 *
 * The ranks below are in the order in which they are taken.
 *
 * No driver call that may wait is made under a lock that hooks of other streams or contexts take: the stream may be full and
 * wait for the host, which waits for the hook. Debug builds check that at each such call (driver/call_checks.c). The ranks
 * marked "one's own" are left out: of one context or stream, or of a thread that begins something; whoever waits for them would
 * wait natively.
 */
#pragma once

#include <pthread.h>

enum lock_rank {
    RANK_PROCESS = 1, /* one's own: initialisation; held for all of it */
    RANK_VISIT,    /* one's own: the background thread works in this context, or it is being destroyed. Who only wants to know
                      what the thread has in hand tries, and gives up */
    RANK_SPACE,    /* one's own: address space is reserved, if not at the start; held across that */
    RANK_CONTEXTS, /* one's own: a context begins or ends; held while the other rooms load their parts into a new one */
    RANK_FILTER,   /* a pool's filter, a callback into the program, is running */
    RANK_TOUCH,    /* one's own: this stream ends, begins or joins a capture, or is used by a thread other than its own */
    RANK_BOOKS,    /* a context's free lists and pools */
    RANK_PACK,     /* a context's pages that small buffers share */
    RANK_SLACK,    /* the slack of a context's buffers; held across launches on cufence's own stream, and while cufence_check()
                      waits for them */
    RANK_STREAMS,  /* the table of streams */
    RANK_TWIN,     /* a block gets a twin, or ceases to be mapped; held across map and set access */
    RANK_LIST,     /* the blocks of one free list: a spin lock */
    RANK_RECORDED, /* the streams recorded for one block: a spin lock */
    RANK_TWINS,    /* which twins a block has */
    RANK_WAITS,    /* events of contexts other than the block's are queried, or such a context is about to be destroyed */
    RANK_EVENTS,   /* a context's unused events */
    RANK_CAPTURES, /* which streams have begun a capture */
    RANK_EXECUTABLES, /* executable graphs; textures */
    RANK_POOLS,       /* the program's memory pools */
    RANK_ORDER,       /* the order of streams, with streams=on */
    RANK_LAUNCHES,    /* rings of launches */
    RANK_VALUES,      /* one's own: visits to launches, which an option asks for, and results of poison; held while pinned
                         memory is allocated and kernels of visits are loaded, once each */
    RANK_ARENA,       /* the address space */
    RANK_PHYSICAL,    /* the cache of physical handles */
    RANK_PASSED,      /* buffers that are left to the driver */
    RANK_WAKE,        /* wakes the background thread */
    RANK_CODE, /* one's own: the code of all modules; held while the driver is asked for a kernel's module, and while it is read
                */
    RANK_FRAMES, /* the session of libdw that is kept; held while it names frames */
    RANK_DRIVER, /* one's own: the driver's library is loaded; held across that */
    RANK_LEAF    /* every lock under which no other is taken */
};

struct lock {
    pthread_mutex_t mutex;
    enum lock_rank rank;
};

#define LOCK(rank)                                                                                                             \
    {                                                                                                                          \
        PTHREAD_MUTEX_INITIALIZER, rank                                                                                        \
    }

#ifdef NDEBUG
#define lock_entered(rank) ((void)(rank))
#define lock_left(rank) ((void)(rank))
#define lock_expect(rank) ((void)(rank))
#define lock_may_wait(call) ((void)(call))
#else
/* The calling thread is about to take, or has just released, a lock of this rank. Aborts if it may not, or has not held one. */
void lock_entered(enum lock_rank rank);
void lock_left(enum lock_rank rank);
/* What a comment says of the caller: it holds one. Aborts if it does not. */
#define lock_expect(rank) lock_expected(rank, __func__)
void lock_expected(enum lock_rank rank, const char *function);
/* The driver's `call`, which may wait for a stream that waits for the host, is about to be made. Aborts under a lock of
 * others'. */
void lock_may_wait(const char *call);
#endif

static inline void lock_init(struct lock *lock, enum lock_rank rank)
{
    pthread_mutex_init(&lock->mutex, NULL);
    lock->rank = rank;
}

static inline void lock_take(struct lock *lock)
{
    lock_entered(lock->rank);
    pthread_mutex_lock(&lock->mutex);
}

/* Returns 0 if another thread has the lock, or this one. */
static inline int lock_try(struct lock *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0)
        return 0;
    lock_entered(lock->rank);
    return 1;
}

static inline void lock_release(struct lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
    lock_left(lock->rank);
}

/* Holds a lock until the end of the block. Declares a variable, so it stands among statements. */
#define HOLD(which) HOLD_AS(which, __LINE__)
#define HOLD_AS(which, line) HOLD_NAMED(which, line)
#define HOLD_NAMED(which, line)                                                                                                \
    struct lock *const held_##line __attribute__((cleanup(lock_let_go), unused)) = (which);                                    \
    lock_take(held_##line)

static inline void lock_let_go(struct lock *const *held)
{
    lock_release(*held);
}

/* For waits until a time of CLOCK_MONOTONIC. */
static inline void lock_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Waits for the condition, until a time of its clock (NULL: for ever); the lock is released meanwhile. Returns 0 or ETIMEDOUT.
 */
static inline int lock_wait(struct lock *lock, pthread_cond_t *condition, const struct timespec *until)
{
    lock_left(lock->rank);
    int failed = until ? pthread_cond_timedwait(condition, &lock->mutex, until) : pthread_cond_wait(condition, &lock->mutex);
    lock_entered(lock->rank);
    return failed;
}
