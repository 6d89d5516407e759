#include "parts.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void part_append(char *text, size_t size, const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    text_vformat(text + length, size - length, format, arguments);
    va_end(arguments);
}

void part_append_argument(char *text, size_t size, struct argument_name name)
{
    if (name.number < 0)
        part_append(text, size, "argument word %d", name.word);
    else
        part_append(text, size, "argument %d", name.number);
    if (name.offset)
        part_append(text, size, " at byte %" PRIu32, name.offset);
}

static struct called_from called_from(struct buffer_frames known, uint32_t stack)
{
    struct stack_frame frames[STACK_READ];
    struct called_from from = {NULL, stack && known.read ? known.read(known.from, stack, frames, STACK_READ) : 0};
    if (from.count)
        from.frames = malloc(from.count * sizeof *frames);
    if (!from.frames)
        return (struct called_from){NULL, 0};
    memcpy(from.frames, frames, from.count * sizeof *frames);
    return from;
}

struct buffer_fact part_buffer(const cufence_buffer *buffer, struct buffer_frames frames)
{
    return (struct buffer_fact){.buffer = buffer,
                                .argument = unnamed_argument,
                                .is_allocated = buffer->allocated_ns != 0,
                                .is_freed = buffer->freed_ns != 0,
                                .has_redzone = buffer->redzone_before || buffer->redzone_after,
                                .allocated = called_from(frames, buffer->allocated_stack),
                                .freed = called_from(frames, buffer->freed_stack)};
}

void part_inside(struct finding *finding, const cufence_buffer *buffer, struct buffer_frames frames, uint64_t address,
                 enum certainty certainty)
{
    finding->buffer = part_buffer(buffer, frames);
    finding->buffer.certainty = certainty;
    finding->buffer.from = FROM_START;
    finding->buffer.distance = address - buffer->address;
    finding->address = (struct address_fact){.certainty = certainty, .is_one = 1, .value = address, .is_in_arena = 1};
}
