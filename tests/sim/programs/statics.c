/* A library with as many static objects as PyTorch's have, each of which is to be destroyed at the exit. */
extern int __cxa_atexit(void (*function)(void *), void *argument, void *object); /* of the C++ ABI */
extern void *__dso_handle;

static void destroy(void *object)
{
    ++*(unsigned *)object;
}

__attribute__((constructor)) static void loaded(void)
{
    static unsigned destroyed;
    for (int i = 0; i < 20000; i++)
        __cxa_atexit(destroy, &destroyed, &__dso_handle);
}
