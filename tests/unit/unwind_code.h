/* Code that test_unwind.c takes stacks in, compiled in different ways: see tests/CMakeLists.txt. */
#ifndef CUFENCE_TESTS_UNWIND_CODE_H
#define CUFENCE_TESTS_UNWIND_CODE_H

#include <stddef.h>

typedef void unwind_callee(void *argument);

/* Without frame pointers. */
void code_take(void *stack); /* captures it; for the others, which call it once */
void code_small(unwind_callee *callee, void *argument);
void code_with_full_registers(unwind_callee *callee, void *argument); /* all that a callee keeps hold values of its own */
void code_with_alloca(unwind_callee *callee, void *argument);
void code_with_large_frame(unwind_callee *callee, void *argument); /* 600 bytes */
void code_with_huge_frame(unwind_callee *callee, void *argument);  /* more than a captured stack holds */
void code_with_realigned_frame(unwind_callee *callee, void *argument);
void code_with_two_ends(unwind_callee *callee, void *argument, int early);
void code_that_traps(void); /* by an invalid instruction */

/* As in a program with CUDA's runtime in it: each calls the one before, and the first takes the stack. */
void libcudart_static_76a125a71b5a(void *stack);
void cudaLaunchKernel(void *stack);
void code_that_launches(void *stack);

/* With frame pointers, and without any call frame information. */
void plain_outer(unwind_callee *callee, void *argument);
void plain_inner(unwind_callee *callee, void *argument);

/* Of a library, whose table of dynamic symbols has the outer one only: it calls a static function `library_inner`. */
typedef void unwind_library_outer(unwind_callee *callee, void *argument);
void library_outer(unwind_callee *callee, void *argument);

#endif
