/* A program that is linked with the double of double.c: see doubles.c. */
#include <stdio.h>

int cuInit(unsigned flags);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
int cuMemFree_v2(unsigned long long pointer);

int main(void)
{
    unsigned long long pointer = 0;
    int started = cuInit(0), allocated = cuMemAlloc_v2(&pointer, 10);
    printf("%d %d %llx %d\n", started, allocated, pointer, cuMemFree_v2(pointer));
    return 0;
}
