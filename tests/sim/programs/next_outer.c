/* A library that wraps a function of the next one, as interposing libraries do. */
#include <dlfcn.h>
#include <stddef.h>

int next_answer(void);

__attribute__((visibility("default"))) int next_answer(void)
{
    int (*inner)(void);
    *(void **)&inner = dlsym(RTLD_NEXT, "next_answer");
    return inner == NULL ? -1 : inner() + 2;
}
