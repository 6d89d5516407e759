/*
 * Makes one malloc() call fail. For tests linked with --wrap (see CMakeLists.txt), which redirects the calls of the code under
 * test, but not those of the C library.
 *
 *     for (long position = 0; fail_malloc_at(position), work(), malloc_has_failed(); position++) ...
 *     fail_malloc_at(-1);
 */
#pragma once

#include <stddef.h>

static long failing_position = -1, calls_of_malloc; /* used by the test's own thread only */

/* Makes the call with this number, counted from now, fail, and no other; negative: none. */
static inline void fail_malloc_at(long position)
{
    failing_position = position;
    calls_of_malloc = 0;
}

static inline int malloc_has_failed(void)
{
    return failing_position >= 0 && calls_of_malloc > failing_position;
}

static inline int fails_now(void)
{
    return failing_position >= 0 && calls_of_malloc++ == failing_position;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}
