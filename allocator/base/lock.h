/*
 * Mutexes with a rank. A thread that holds a lock may take another one only of a higher rank, so no two threads can wait for
 * each other. Debug builds check that at every lock (lock.c aborts and names both); others compile to the mutex alone.
 *
 * The ranks, from the first to be taken to the last. Unless it says otherwise, no driver call that can take long is made under
 * a lock: queries and records of events (about 1 us) are.
 */
#ifndef CUFENCE_BASE_LOCK_H
#define CUFENCE_BASE_LOCK_H

#include <pthread.h>

enum lock_rank {
    RANK_PROCESS = 1, /* the start: held over everything that it does */
    RANK_VISIT,       /* the background thread is in a context, or a context is ending: held over mapping and unmapping */
    RANK_SYNC,        /* one synchronisation of ours at a time: held over it */
    RANK_CONTEXTS,    /* contexts that begin or end: held over what the other rooms load into a new one */
    RANK_FILTER,      /* a pool's filter runs, which is the program's */
    RANK_TOUCH,       /* a stream ends, begins or joins a capture, or is touched by a thread that it does not belong to */
    RANK_BOOKS,       /* a context's free lists and pools */
    RANK_STREAMS,     /* the table of streams */
    RANK_LIST,        /* the blocks of one free list: a spin lock */
    RANK_RECORDED,    /* the streams recorded for one block: a spin lock */
    RANK_WAITS,       /* events of another context than the block's are asked, or such a context begins to end */
    RANK_EVENTS,      /* a context's spare events */
    RANK_EXECUTABLES, /* executables of graphs */
    RANK_POOLS,       /* the program's memory pools */
    RANK_LAUNCHES,    /* rings of launches */
    RANK_ARENA,       /* the address space */
    RANK_PHYSICAL,    /* physical memory that is kept */
    RANK_BELL         /* whether the background thread has work */
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
#else
/* The calling thread is about to take, or has released, a lock of that rank. */
void lock_entered(enum lock_rank rank);
void lock_left(enum lock_rank rank);
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

static inline void lock_release(struct lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
    lock_left(lock->rank);
}

#endif
