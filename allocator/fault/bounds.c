#include "surroundings.h"

#include "base/reader.h"
#include "heap/heap.h"

#define NEAR 8
#define TICK_NS UINT64_C(10000000) /* how far a launch's time may be behind: one tick of the slowest kernel configuration */

int bounds_find(uint64_t address, cufence_buffer *found)
{
    cufence_buffer near[NEAR];
    size_t count = heap_near(address, near, NEAR);
    found->id = 0;
    for (size_t i = 0; i < count; i++) {
        const cufence_buffer *buffer = &near[i];
        int is_inside = address >= buffer->mapping_start && address < buffer->mapping_end;
        if (is_inside && (!found->id || !buffer->freed_ns || (found->freed_ns && buffer->id > found->id)))
            *found = *buffer;
    }
    return found->id != 0;
}

static int is_given(const struct rerun_launch *launch, const cufence_buffer *buffer)
{
    return buffer->size &&
           has_word(launch->arguments, launch->argument_bytes, buffer->address, buffer->address + buffer->size - 1);
}

/* Within a tick of the launch, its arguments decide: a buffer before it in the same memory seldom had the same address. */
int bounds_are_sure(const cufence_buffer *buffer, const struct rerun_launch *launches,
                    const struct fault_launch *const *recorded, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!recorded[i])
            return 0;
        uint64_t time_ns = recorded[i]->entry->time_ns;
        int is_older = buffer->allocated_ns + TICK_NS <= time_ns;
        int is_near = buffer->allocated_ns <= time_ns + TICK_NS && is_given(&launches[i], buffer);
        if ((!is_older && !is_near) || (buffer->freed_ns && buffer->freed_ns < time_ns))
            return 0;
    }
    return count > 0;
}
