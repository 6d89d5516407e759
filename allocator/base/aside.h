/*
 * Where hooks do what is rare: with room on the stack, and without being cancelled.
 *
 * A program's thread may have a stack of 16 KiB, a fibre one of any size, and natively such a call succeeds. So a hook's own
 * frames stay small (tests/python/test_stack_use.py has the limit), and what is deep or may wait goes through aside_call(). A
 * thread with enough room left stays on its own stack. Only one with less, or whose sp lies outside of the stack that the
 * thread library knows (a fibre), changes to a stack of ours for the call. It stays the same thread: its number, its current
 * context, its thread-local variables and the locks that it holds are what a thread of ours would lack.
 *
 * While the call runs, the thread cannot be cancelled: write(), poll() and the like are cancellation points, and a cancelled
 * thread would leave our locks held. A request takes effect at the program's next cancellation point. On the fast paths around
 * these calls no cancellation point is passed; with PTHREAD_CANCEL_ASYNCHRONOUS a thread must not be in a hook at all, as it
 * must not be in malloc().
 *
 * Thread safety: every function, from any thread.
 */
#pragma once

#include "thread.h"

/* Calls the function. In such a call already, it is an ordinary call. If there is no memory for a stack, the function runs on
 * the thread's own. */
void aside_call(void (*function)(void *argument), void *argument);

/* For a callback of the program, within a call of aside_call(): calls the function on the thread's own stack, and with its own
 * state of cancellation. */
void aside_return_for(void (*function)(void *argument), void *argument);

/* usleep(), which is a cancellation point, without one: for waits with a lock held or something half done. */
void aside_sleep(unsigned microseconds);

/* The calling thread's own stack, [low, high). high is 0: not asked for yet; 1: unknown to the thread library. */
struct own_stack {
    uint64_t low, high;
};
extern HOT_TLS struct own_stack aside_own;

/* Asks for the above. */
void aside_ask_for_bounds(void);
