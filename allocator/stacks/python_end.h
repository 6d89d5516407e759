/*
 * The end of the Python interpreter. It frees the state and frames of every thread, even of a thread that is still running C
 * code (a daemon thread). So captures stop when finalization begins, and the interpreter waits for those under way.
 *
 * cufence registers a function with Python's atexit, which runs before anything is freed. Each capture sets a flag of its
 * thread while it reads; the function forbids reading and waits until no flag is set. Captures need no memory barrier for this:
 * at the end, membarrier(2) executes one on all threads. The registration is made by a pending call on the main thread, so it
 * takes a moment. Until then, each capture checks whether the interpreter is finalizing. Finalization runs pending calls first,
 * so it can't overtake the registration.
 *
 * An interpreter that the program starts again afterwards is not read any more.
 *
 * Thread safety: every function, from any thread, with the GIL or without. No lock is held while Python is called.
 */
#pragma once

#include "base/thread.h"

#include <assert.h>
#include <stddef.h>

enum python_reading {
    PYTHON_MAY_BE_READ = 0,
    PYTHON_BEHIND_A_BARRIER, /* the system has no membarrier(2) */
    PYTHON_NOT_WATCHED_YET,
    PYTHON_ENDS,
};

/* One thread's flag. Reused by later threads, but never freed: the end of the interpreter may be looking at it. */
struct python_reader {
    struct python_reader *next; /* constant */
    int is_taken, is_reading;   /* atomic */
};

extern int python_reading; /* enum python_reading; atomic */
extern HOT_TLS struct python_reader *python_reader;

/* Takes a reader for the calling thread, given back when the thread ends. NULL if out of host memory. */
struct python_reader *python_take_reader(void);

/* The slow path, when reading is not simply allowed. Returns whether it is allowed now. */
int python_ask_to_read(void);

static inline void python_end_read(struct python_reader *reader)
{
    __atomic_store_n(&reader->is_reading, 0, __ATOMIC_RELEASE);
}

/* The interpreter can't finalize between this and python_end_read(). NULL: it must not be read. Does not nest. */
static inline struct python_reader *python_begin_read(void)
{
    struct python_reader *reader = python_reader;
    if (__builtin_expect(!reader, 0) && !(reader = python_take_reader()))
        return NULL;
    assert(!reader->is_reading);
    __atomic_store_n(&reader->is_reading, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* stops the compiler from reordering; membarrier() takes care of the processor */
    if (__builtin_expect(__atomic_load_n(&python_reading, __ATOMIC_ACQUIRE) != PYTHON_MAY_BE_READ, 0) &&
        !python_ask_to_read()) {
        python_end_read(reader);
        return NULL;
    }
    return reader;
}
