#include "arguments.h"

#include "vmm/arena.h"

#include <string.h>

size_t arguments_pack(const struct launch_call *call, const struct launch_function *function, uint8_t *out, size_t max)
{
    struct launch_span span;
    size_t size = function && function->has_layout ? function->argument_bytes : 0;
    size = size < max ? size : max;
    memset(out, 0, size);
    for (uint32_t i = 0; launch_span(call, function, i, &span); i++) {
        if (span.is_all)
            size = span.size = span.size < max ? span.size : (uint32_t)max;
        if (span.offset <= size && span.size && span.size <= size - span.offset)
            memcpy(out + span.offset, span.bytes, span.size);
    }
    return size;
}

int arguments_reach_one(uint64_t pointer, int device, struct reached *out)
{
    if (!heap_owns(pointer) || !heap_range_of(pointer, &out->range))
        return 0;
    out->pointer = pointer;
    out->bytes = out->range.size - (pointer - out->range.address);
    out->is_out_of_way = out->range.device != device && !arena_is_shared(out->range.device, device);
    return 1;
}

/* Looks at the words of `size` bytes at `start`, which is a multiple of 8 for every argument that can hold a pointer. */
static size_t reach_words(const uint8_t *bytes, const struct launch_function *function, struct launch_argument within,
                          int number, int device, struct reached *out, size_t max)
{
    size_t found = 0;
    for (uint32_t at = 0; found < max && at + 8 <= within.size; at += 8) {
        uint64_t word;
        memcpy(&word, bytes + within.offset + at, sizeof word);
        if (arguments_reach_one(word, device, &out[found])) {
            out[found].function = function;
            out[found].argument = number;
            out[found++].at = at;
        }
    }
    return found;
}

size_t arguments_reach(const uint8_t *bytes, size_t size, const struct launch_function *function, CUfunction handle, int device,
                       struct reached *out, size_t max)
{
    size_t found = 0;
    int has_layout = function && function->has_layout;
    if (!has_layout)
        found = reach_words(bytes, function, (struct launch_argument){0, (uint32_t)size}, -1, device, out, max);
    for (uint32_t i = 0; has_layout && i < function->argument_count && found < max; i++) {
        struct launch_argument argument = function->arguments[i];
        if (argument.offset <= size && argument.size <= size - argument.offset)
            found += reach_words(bytes, function, argument, (int)i, device, out + found, max - found);
    }
    for (size_t i = 0; i < found; i++)
        out[i].handle = handle;
    return found;
}

int arguments_describe(const struct heap_range *range, cufence_buffer *out)
{
    cufence_description found;
    heap_describe(range->address, &found);
    *out = found.buffer;
    if (out->id != range->id)
        out->id = 0;
    return out->id != 0;
}
