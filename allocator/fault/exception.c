#include "exception.h"

#include <stddef.h>

static const char *const names[] = {
    [0] = "no exception",
    [1] = "illegal address",
    [2] = "user stack overflow",
    [3] = "hardware stack overflow",
    [4] = "illegal instruction",
    [5] = "out-of-range address",
    [6] = "misaligned address",
    [7] = "invalid address space",
    [8] = "invalid program counter",
    [9] = "hardware stack overflow",
    [10] = "illegal address",
    [11] = "misaligned address",
    [12] = "assertion failed",
    [13] = "system call error",
    [14] = "illegal address",
    [15] = "system atomic on memory that cannot migrate",
    [16] = "invalid system atomic",
    [17] = "cluster: out-of-range address",
    [18] = "cluster: block not present",
    [19] = "stack canary overwritten",
    [20] = "tensor memory access check",
    [21] = "tensor memory leak",
    [22] = "call requires a newer driver",
    [23] = "misaligned program counter",
    [24] = "program counter overflow",
    [25] = "misaligned register",
    [30] = "MMU fault",
};

const char *exception_name(uint32_t exception)
{
    const char *name = exception < sizeof(names) / sizeof(names[0]) ? names[exception] : NULL;
    return name ? name : "unknown exception";
}
