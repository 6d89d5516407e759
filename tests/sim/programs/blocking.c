/* Holds the loader's lock for good: its constructor, which says so through the descriptor in BLOCKING, never returns. */
#include <stdlib.h>
#include <unistd.h>

static void __attribute__((constructor)) block(void)
{
    const char *descriptor = getenv("BLOCKING");
    if (descriptor && write(atoi(descriptor), "", 1) == 1)
        for (;;)
            pause();
}
