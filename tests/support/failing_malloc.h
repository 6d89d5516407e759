/*
 * Host memory that runs out: makes one allocation of cufence fail. libfailing_malloc.so stands in front of malloc, calloc,
 * realloc, reallocarray, aligned_alloc and posix_memalign, and counts the calls whose caller lies in cufence.
 *
 *   - A program that links it, or finds it with dlsym, arms it: fail_malloc(3).
 *   - Any program:  LD_PRELOAD=libfailing_malloc.so CUFENCE_FAIL_MALLOC=3 program
 *     counts from the start; CUFENCE_FAIL_MALLOC=0 only counts. At the end one line on stderr says how many there were.
 *   - CUFENCE_FAIL_MALLOC_IN=NAME, at the start, counts the calls of the object whose path contains NAME, in place of
 * "libcufence.so". A test that has cufence's rooms linked in names itself, and counts its own calls too.
 *
 * Counted is who calls malloc itself: what the C library or jansson allocates on cufence's behalf is not.
 * Thread safety: any thread. The nth call is one of all threads'.
 */
#pragma once

/* The nth counted call from now returns NULL (posix_memalign ENOMEM), once. 0: none fails. Counting starts again. */
void fail_malloc(unsigned nth);

/* Calls counted since the last fail_malloc(), or the start. */
unsigned fail_malloc_count(void);
