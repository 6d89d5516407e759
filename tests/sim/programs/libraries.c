/* Libraries that programs load, one for each of these names. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AT_START __attribute__((constructor)) static void

#if defined IS_STATICS /* as many static objects as PyTorch's libraries have, each of which is to be destroyed at the exit */
extern int __cxa_atexit(void (*function)(void *), void *argument, void *object); /* of the C++ ABI */
extern void *__dso_handle;

static void destroy(void *object)
{
    ++*(unsigned *)object;
}

AT_START loaded(void)
{
    static unsigned destroyed;
    for (int i = 0; i < 20000; i++)
        __cxa_atexit(destroy, &destroyed, &__dso_handle);
}
#elif defined IS_DEBUGGER /* what matters of the driver's debugger: it wants to be called at the exit, and must not be */
static void destroyed(void)
{
    puts("destroyed");
}

AT_START loaded(void)
{
    atexit(destroyed);
}
#elif defined                                                                                                                  \
    IS_BLOCKING /* holds the loader's lock for good: it says so through the descriptor in BLOCKING, and never returns */
AT_START block(void)
{
    const char *descriptor = getenv("BLOCKING");
    if (descriptor && write(atoi(descriptor), "", 1) == 1)
        for (;;)
            pause();
}
#else           /* IS_OUTER wraps a function of the next one, as interposing libraries do */
int next_answer(void);

__attribute__((visibility("default"))) int next_answer(void)
{
#ifdef IS_OUTER
    int (*inner)(void);
    *(void **)&inner = dlsym(RTLD_NEXT, "next_answer");
    return inner == NULL ? -1 : inner() + 2;
#else
    return 40;
#endif
}
#endif
