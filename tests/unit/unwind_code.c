#include "unwind_code.h"

#include "stacks/stack.h"

#include <alloca.h>

static volatile int sink; /* keeps the calls from being jumps */

/* Nothing is known any more of what lies there. */
static void touch(void *bytes)
{
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

void code_take(void *stack)
{
    stack_capture(stack);
    sink++;
}

void code_small(unwind_callee *callee, void *argument)
{
    callee(argument);
    sink++;
}

void code_with_full_registers(unwind_callee *callee, void *argument)
{
    int a = sink, b = sink, c = sink, d = sink, e = sink, f = sink, g = sink;
    callee(argument);
    sink = a ^ b * 3 ^ c * 5 ^ d * 7 ^ e * 11 ^ f * 13 ^ g * 17;
    sink = a + b + c + d + e + f + g;
}

void code_with_alloca(unwind_callee *callee, void *argument)
{
    char *bytes = alloca((size_t)(sink & 15) + 100);
    touch(bytes);
    callee(argument);
    touch(bytes);
}

void code_with_large_frame(unwind_callee *callee, void *argument)
{
    char bytes[600];
    touch(bytes);
    callee(argument);
    touch(bytes);
}

void code_with_huge_frame(unwind_callee *callee, void *argument)
{
    char bytes[4096];
    touch(bytes);
    callee(argument);
    touch(bytes);
}

void code_with_realigned_frame(unwind_callee *callee, void *argument)
{
    _Alignas(64) char aligned[64];
    char *bytes = alloca((size_t)(sink & 15) + 100);
    touch(aligned);
    touch(bytes);
    callee(argument);
    touch(aligned);
    touch(bytes);
}

/* The first end's restored registers do not count behind it. */
void code_with_two_ends(unwind_callee *callee, void *argument, int early)
{
    int a = sink, b = sink;
    if (early) {
        callee(argument);
        sink = a * 3 + b;
        return;
    }
    sink++;
    callee(argument);
    sink = a + b * 5;
}

void code_that_traps(void)
{
    char bytes[40];
    touch(bytes);
#if defined(__x86_64__)
    __asm__ volatile("ud2");
#else
    __asm__ volatile("udf #0");
#endif
    touch(bytes);
}

__attribute__((noinline)) void libcudart_static_76a125a71b5a(void *stack)
{
    stack_capture(stack);
    sink++;
}

__attribute__((noinline)) void cudaLaunchKernel(void *stack)
{
    libcudart_static_76a125a71b5a(stack);
    sink++;
}

/* nvcc makes two functions for a kernel: a stub that launches it, and a wrapper that calls that and may be inlined. */
__attribute__((noinline)) void __device_stub__kernel(void *stack)
{
    cudaLaunchKernel(stack);
    sink++;
}

__attribute__((always_inline)) static inline void inlined(void *stack)
{
    __device_stub__kernel(stack);
    sink++;
}

const int line_of_launch = __LINE__ + 4;

__attribute__((noinline)) void code_that_launches(void *stack)
{
    inlined(stack);
    sink++;
}

__attribute__((noinline)) void kernel(void *stack)
{
    __device_stub__kernel(stack);
    sink++;
}

__attribute__((noinline)) void code_that_calls_the_wrapper(void *stack)
{
    kernel(stack);
    sink++;
}

__attribute__((noinline)) void ker(void *stack) /* no wrapper, though the stub's name begins so */
{
    inlined(stack);
    sink++;
}
