#include "lifecycle.h"

#include "base/clock.h"
#include "heap/heap.h"
#include "stacks/stack.h"
#include "witness/tell.h"

#include <stdlib.h>

void leaks_report(void)
{
    struct heap_use *found;
    size_t count = heap_use(-1, &found);
    for (size_t i = 0; found && i < count; i++) {
        struct leak leak = {.largest = &found[i].largest,
                            .buffers = found[i].buffers,
                            .bytes = found[i].bytes,
                            .frames = {stack_buffer_frames, NULL},
                            .now_ns = monotonic_ns()};
        tell_leak(&leak);
    }
    free(found);
}
