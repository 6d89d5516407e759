/* A library with the driver's names that is none: a test double, a recording shim. See doubles.c. */
#include <stddef.h>

#pragma GCC visibility push(default)
int cuInit(unsigned flags);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
int cuMemFree_v2(unsigned long long pointer);
int cuLaunchKernel(void);

int cuInit(unsigned flags)
{
    return 42 + (int)flags;
}

int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes)
{
    *pointer = 0x1234;
    return bytes == 10 ? 0 : 7;
}

int cuMemFree_v2(unsigned long long pointer)
{
    return pointer == 0x1234 ? 0 : 7;
}

int cuLaunchKernel(void)
{
    return 43;
}
