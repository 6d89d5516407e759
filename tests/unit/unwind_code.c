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

#define WITH_BYTES(function, bytes_in_its_frame)                                                                               \
    void function(unwind_callee *callee, void *argument)                                                                       \
    {                                                                                                                          \
        bytes_in_its_frame;                                                                                                    \
        touch(bytes);                                                                                                          \
        callee(argument);                                                                                                      \
        touch(bytes);                                                                                                          \
    }

WITH_BYTES(code_with_alloca, char *bytes = alloca((size_t)(sink & 15) + 100))
WITH_BYTES(code_with_large_frame, char bytes[600])
WITH_BYTES(code_with_huge_frame, char bytes[4096])

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

#define MADE_BY_NVCC(function, name, callee)                                                                                   \
    void function(void *stack) __asm__(name);                                                                                  \
    __attribute__((noinline)) void function(void *stack)                                                                       \
    {                                                                                                                          \
        callee(stack);                                                                                                         \
        sink++;                                                                                                                \
    }

/* nvcc makes two functions for a kernel: a stub that launches it, and a wrapper that calls that and may be inlined. Names as nm
 * lists them in what nvcc 13.0 compiles. */
MADE_BY_NVCC(launch_helper, "_ZL25__cudaLaunchKernel_helperP9CUkern_st4dim3S1_PPvmP11CUstream_st", cudaLaunchKernel)
MADE_BY_NVCC(stub_of_plain, "_Z26__device_stub__Z6plain_PfiPfi", launch_helper)
MADE_BY_NVCC(stub_of_static, "_ZL27__device_stub__Z7static_PfiPfi", launch_helper)
MADE_BY_NVCC(stub_of_extern_c, "_Z28__device_stub__Z8extern_cPfiPfi", launch_helper)
MADE_BY_NVCC(stub_of_spaced, "_ZL38__device_stub__ZN4some6spacedIfEEvPT_iPfi", launch_helper)
MADE_BY_NVCC(stub_of_template, "_ZL34__device_stub__Z9template_IfEvPT_iPfi", launch_helper)
MADE_BY_NVCC(second_stub_of_template, "_Z32__wrapper__device_stub_template_IfEvRPT_Ri", stub_of_template)

MADE_BY_NVCC(wrapper_of_plain, "_Z6plain_Pfi", stub_of_plain)
MADE_BY_NVCC(wrapper_of_static, "_ZL7static_Pfi", stub_of_static)
MADE_BY_NVCC(wrapper_of_extern_c, "extern_c", stub_of_extern_c)
MADE_BY_NVCC(wrapper_of_spaced, "_ZN4someL6spacedIfEEvPT_i", stub_of_spaced)
MADE_BY_NVCC(wrapper_of_template, "_Z9template_IfEvPT_i", second_stub_of_template)
MADE_BY_NVCC(host_function, "_Z6plain_6Tensor", stub_of_plain)
MADE_BY_NVCC(cudas_template, "_ZL10cudaMallocIfE9cudaErrorPPT_m", libcudart_static_76a125a71b5a)

const struct launcher launchers[] = {{"plain", wrapper_of_plain},           {"static", wrapper_of_static},
                                     {"extern \"C\"", wrapper_of_extern_c}, {"in a namespace", wrapper_of_spaced},
                                     {"template", wrapper_of_template},     {"header", cudas_template}};

/* What an optimising compiler makes of it, with the lines that nvcc gives. */
#line 2963 "cuda/crt/device_functions.h"
__attribute__((always_inline)) static inline void inlined_helper(void *stack)
{
    cudaLaunchKernel(stack);
    sink++;
}

#line 1 "model.cudafe1.stub.c"
__attribute__((always_inline)) static inline void inlined_stub(void *stack)
{
    inlined_helper(stack);
    sink++;
}

#line 4 "model.cu"
__attribute__((always_inline)) static inline void inlined_wrapper(void *stack)
{
    inlined_stub(stack);
    sink++;
}

__attribute__((noinline)) static void wrapper_with_all(void *stack)
{
    inlined_stub(stack);
    sink++;
}

__attribute__((noinline)) void code_that_launches(void *stack)
{
#line 20 "model.cu"
    inlined_wrapper(stack);
    sink++;
}

__attribute__((noinline)) void code_that_calls_the_wrapper(void *stack)
{
#line 30 "model.cu"
    wrapper_with_all(stack);
    sink++;
}

__attribute__((always_inline)) static inline void wrapper_of_stub(void *stack)
{
    stub_of_plain(stack);
    sink++;
}

__attribute__((noinline)) void code_that_calls_the_stub(void *stack)
{
#line 40 "model.cu"
    wrapper_of_stub(stack);
    sink++;
}
