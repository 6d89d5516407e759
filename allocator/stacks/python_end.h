/*
 * The end of the Python interpreter, which frees the state and the frames of every thread, also of one that is still at work in
 * C code (a daemon thread). So captures stop where the end begins, and the interpreter waits for those under way.
 *
 * A function of ours is registered with Python's atexit, which runs before anything is freed. A capture says in a word of its
 * thread's own that it is reading; the function forbids reading and waits until no word says so. The capture makes no barrier
 * for that: membarrier(2) makes one in all threads at the end. The registration is a pending call of the main thread's, so it
 * takes a moment; until then the interpreter is asked at each capture whether it is ending. An end that begins runs pending
 * calls first, so it does not overtake the registration.
 *
 * An interpreter that a program starts anew after its end is not read any more.
 *
 * Thread safety: every function, from any thread, with the GIL or without. No lock is held while Python is called.
 */
#ifndef CUFENCE_STACKS_PYTHON_END_H
#define CUFENCE_STACKS_PYTHON_END_H

#include <stddef.h>

enum python_reading {
    PYTHON_MAY_BE_READ = 0,
    PYTHON_BEHIND_A_BARRIER, /* a system without membarrier(2) */
    PYTHON_NOT_WATCHED_YET,
    PYTHON_ENDS,
};

/* Of one thread at a time; never freed, as the end may be looking at it. */
struct python_reader {
    struct python_reader *next; /* constant */
    int is_taken, is_reading;   /* atomic */
};

extern int python_reading; /* enum python_reading; atomic */
extern __attribute__((tls_model("initial-exec"))) _Thread_local struct python_reader *python_reader;

/* Has the thread's end give it back. NULL without host memory. */
struct python_reader *python_take_reader(void);

/* What there is to do where reading is not plainly allowed. Returns whether it is. */
int python_ask_to_read(void);

static inline void python_end_read(struct python_reader *reader)
{
    __atomic_store_n(&reader->is_reading, 0, __ATOMIC_RELEASE);
}

/* From here to python_end_read() the interpreter does not get to its end. NULL: it must not be read. Does not nest. */
static inline struct python_reader *python_begin_read(void)
{
    struct python_reader *reader = python_reader;
    if (__builtin_expect(!reader, 0) && !(reader = python_take_reader()))
        return NULL;
    __atomic_store_n(&reader->is_reading, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the processor's own order is what membarrier() sees to */
    if (__builtin_expect(__atomic_load_n(&python_reading, __ATOMIC_ACQUIRE) != PYTHON_MAY_BE_READ, 0) &&
        !python_ask_to_read()) {
        python_end_read(reader);
        return NULL;
    }
    return reader;
}

#endif
