/* Called by tests/python/test_stacks.py and bench/stacks.py through ctypes: takes captures, and returns them as text or in
 * nanoseconds. */
#include "one_kernel.h"

#include <cufence.h>

#include "stacks/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MOST 64

EXPORT uint32_t hook_number(void);
EXPORT size_t hook_text(uint32_t number, char *out, size_t size);
EXPORT size_t hook_all(char *out, size_t size);
EXPORT const char *hook_start(void);
EXPORT double hook_ns(int what, unsigned rounds);
EXPORT void hook_use_memory(void);

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
    return write_frames(frames, stack_interned_frames(number, frames, MOST), out, size);
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

enum { RING = 4096 }; /* the default of the option launches */
enum what { NOTHING, PYTHON, STACK, LAUNCH, ALLOCATION };

static struct one_kernel kernel;

/* Call it before launches are recorded. Returns NULL, or what failed. */
const char *hook_start(void)
{
    return one_kernel_start(&kernel, RING);
}

static void take(enum what what)
{
    static struct stack *ring; /* kept like launches */
    static unsigned count;
    void *buffer;
    if (!ring)
        ring = calloc(RING, sizeof *ring);
    count++;
    if (what == PYTHON)
        stack_capture_python();
    else if (what == STACK && ring)
        stack_capture(&ring[count % RING]);
    else if (what == LAUNCH)
        one_kernel_record(&kernel, count);
    else if (what == ALLOCATION && cufence_malloc(&buffer, 4096, 0, NULL) == CUFENCE_OK)
        cufence_free(buffer, NULL);
}

/* Returns the time per round, including the clock's own time. */
double hook_ns(int what, unsigned rounds)
{
    double start = now();
    for (unsigned i = 0; i < rounds; i++)
        take((enum what)what);
    return (now() - start) / rounds;
}

/* Overwrites freed memory for 60 ms. */
void hook_use_memory(void)
{
    for (int i = 0; i < 60; i++) {
        for (size_t size = 64; size < 3000; size += 16) {
            char *memory = malloc(size);
            if (memory)
                memset(memory, 0x40, size);
            __asm__ volatile("" : : "r"(memory) : "memory"); /* keeps the compiler from removing either */
        }
        usleep(1000);
    }
}
