/* NEXT_OUTER: a library that wraps a function of the next one, as interposing libraries do. Else that next one. */
#include <dlfcn.h>
#include <stddef.h>

int next_answer(void);

__attribute__((visibility("default"))) int next_answer(void)
{
#ifdef NEXT_OUTER
    int (*inner)(void);
    *(void **)&inner = dlsym(RTLD_NEXT, "next_answer");
    return inner == NULL ? -1 : inner() + 2;
#else
    return 40;
#endif
}
