#include "unwind_code.h"

static volatile int sink; /* keeps the calls from being jumps */

__attribute__((noinline)) static void library_inner(unwind_callee *callee, void *argument)
{
    callee(argument);
    sink++;
}

__attribute__((visibility("default"))) void library_outer(unwind_callee *callee, void *argument)
{
    library_inner(callee, argument);
    sink++;
}
