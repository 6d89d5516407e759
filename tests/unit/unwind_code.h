/* Code in which test_unwind.c captures stacks, compiled in different ways: see tests/CMakeLists.txt. */
#pragma once

#include <stdint.h>

typedef void unwind_callee(void *argument);

/* Without frame pointers. */
void code_take(void *stack); /* captures a stack; the other functions call it once */
void code_small(unwind_callee *callee, void *argument);
void code_with_full_registers(unwind_callee *callee,
                              void *argument); /* all callee-saved registers hold values of this function */
void code_with_alloca(unwind_callee *callee, void *argument);
void code_with_large_frame(unwind_callee *callee, void *argument); /* 600 bytes */
void code_with_huge_frame(unwind_callee *callee, void *argument);  /* of a page */
void code_with_realigned_frame(unwind_callee *callee, void *argument);
void code_with_two_ends(unwind_callee *callee, void *argument, int early);

/* As in a program that contains the CUDA runtime: each calls the previous one, and the first captures the stack. */
void libcudart_static_76a125a71b5a(void *stack);
void cudaLaunchKernel(void *stack);
/* What nvcc makes of kernels, not inlined. */
extern const struct launcher {
    const char *of;
    unwind_callee *wrapper;
} launchers[6];
void host_function(void *stack) __asm__("_Z6plain_6Tensor"); /* launches the kernel plain_(float*, int) */
/* In these something is inlined: all, at line 20 of model.cu; all into the wrapper, called at line 30; the wrapper only, at
 * line 40. */
void code_that_launches(void *stack);
void code_that_calls_the_wrapper(void *stack);
void code_that_calls_the_stub(void *stack);

/* With frame pointers, and without any call frame information. */
void plain_outer(unwind_callee *callee, void *argument);
void plain_inner(unwind_callee *callee, void *argument);

/* Likewise, with this in the frame pointer's register. */
void plain_with_fp(unwind_callee *callee, void *argument, uint64_t fp);

/* In a library whose dynamic symbol table has the outer function only. It calls a static function `library_inner`. */
typedef void unwind_library_outer(unwind_callee *callee, void *argument);
void library_outer(unwind_callee *callee, void *argument);
