/* What matters here of the driver's debugger library: it wants to be called at the exit, and must not be. */
#include <stdio.h>
#include <stdlib.h>

static void destroyed(void)
{
    puts("destroyed");
}

__attribute__((constructor)) static void loaded(void)
{
    atexit(destroyed);
}
