#include "unwind_code.h"

static volatile int sink; /* keeps the calls from being jumps */

__attribute__((noinline)) void plain_inner(unwind_callee *callee, void *argument)
{
    callee(argument);
    sink++;
}

__attribute__((noinline)) void plain_outer(unwind_callee *callee, void *argument)
{
    plain_inner(callee, argument);
    sink++;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl plain_with_fp\n"
        ".type plain_with_fp, @function\n"
        "plain_with_fp:\n\t"
        "pushq %rbp\n\t"
        "movq %rdx, %rbp\n\t"
        "movq %rdi, %rax\n\t"
        "movq %rsi, %rdi\n\t"
        "callq *%rax\n\t"
        "popq %rbp\n\t"
        "retq\n"
        ".size plain_with_fp, . - plain_with_fp\n");
#endif
