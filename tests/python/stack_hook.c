/* What tests/python/test_stacks.py and bench/stacks.py call through ctypes: captures, as text and in nanoseconds. */
#include "stacks/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define MOST 64

EXPORT uint32_t hook_number(void);
EXPORT size_t hook_text(uint32_t number, char *out, size_t size);
EXPORT size_t hook_all(char *out, size_t size);
EXPORT double hook_python_ns(unsigned rounds);
EXPORT double hook_all_ns(unsigned rounds);

static size_t write_frames(const struct stack_frame *frames, size_t count, char *out, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < count && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s:%d:%s:%s\n", frames[i].file, frames[i].line, frames[i].function,
                               frames[i].is_python ? "python" : frames[i].module);
    return count;
}

uint32_t hook_number(void)
{
    return stack_capture_python();
}

size_t hook_text(uint32_t number, char *out, size_t size)
{
    struct stack_frame frames[MOST];
    return write_frames(frames, stack_python_frames(number, frames, MOST), out, size);
}

size_t hook_all(char *out, size_t size)
{
    struct stack_frame frames[MOST];
    struct stack stack;
    stack_capture(&stack);
    return write_frames(frames, stack_frames(&stack, frames, MOST), out, size);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double hook_python_ns(unsigned rounds)
{
    uint32_t sink = 0;
    double start = now();
    for (unsigned i = 0; i < rounds; i++)
        sink += stack_capture_python();
    double end = now();
    return sink == UINT32_MAX ? -1 : (end - start) / rounds;
}

/* Into a ring, as launches are kept. */
double hook_all_ns(unsigned rounds)
{
    enum { RING = 1024 };
    static struct stack *ring;
    if (!ring && !(ring = calloc(RING, sizeof *ring)))
        return -1;
    double start = now();
    for (unsigned i = 0; i < rounds; i++)
        stack_capture(&ring[i % RING]);
    return (now() - start) / rounds;
}
