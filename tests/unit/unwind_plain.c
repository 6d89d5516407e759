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
