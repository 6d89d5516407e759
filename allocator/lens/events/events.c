#include "events.h"

#include "lens/values/names.h"
#include "lens/values/types.h"

#include <inttypes.h>
#include <string.h>

enum { SCALARS = SEEN_ARGUMENTS, BUFFERS = HASHING_RANGES, TEXT = 1 << 19 };

/* Of the latest event; used by the visits' thread alone. */
static struct {
    struct seen_scalar scalars[SCALARS];
    struct seen_buffer buffers[BUFFERS];
    char text[TEXT];
    size_t text_used;
} made;

static const char *keep_text(const char *text)
{
    size_t length = strlen(text) + 1;
    if (length > TEXT - made.text_used)
        return "?";
    char *kept = memcpy(made.text + made.text_used, text, length);
    made.text_used += length;
    return kept;
}

/* What differs from run to run and is no value: an address of this process, or of a buffer that is gone. The first byte of
 * host addresses is that of Linux on x86-64 and aarch64 programs, heaps and libraries. */
static int is_address(uint64_t word)
{
    uint64_t top = word >> 40;
    return heap_owns(word) || top == 0x55 || top == 0x56 || top == 0x7e || top == 0x7f || top == 0xaa || top == 0xff;
}

static int is_pointer(const struct visit *visit, int argument, uint32_t at)
{
    for (size_t i = 0; i < visit->reached_count; i++)
        if (visit->reached[i].argument == argument && visit->reached[i].at == at)
            return 1;
    return 0;
}

/* Up to 8 bytes: a number. */
static const char *small_value(const uint8_t *bytes, uint32_t size)
{
    char text[24];
    uint64_t word = 0;
    memcpy(&word, bytes, size);
    if (size == 8 && is_address(word))
        return SEEN_ADDRESS;
    snprintf(text, sizeof text, "0x%" PRIx64, word);
    return keep_text(text);
}

/* More: the bytes, with those of pointers as dots. */
static const char *large_value(const struct visit *visit, int argument, const uint8_t *bytes, uint32_t size)
{
    static const char digits[] = "0123456789abcdef";
    size_t room = (size_t)size * 2 + 1;
    if (room > TEXT - made.text_used)
        return "?";
    char *text = made.text + made.text_used;
    for (uint32_t at = 0; at < size; at++) {
        text[2 * at] = digits[bytes[at] >> 4];
        text[2 * at + 1] = digits[bytes[at] & 15];
    }
    for (uint32_t at = 0; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, bytes + at, 8);
        if (is_pointer(visit, argument, at) || is_address(word))
            memset(text + 2 * (size_t)at, '.', 16);
    }
    text[room - 1] = '\0';
    made.text_used += room;
    return text;
}

static size_t take_scalars(const struct visit *visit)
{
    size_t count = 0;
    const struct launch_function *function = visit->function;
    if (function && !function->has_layout && visit->argument_bytes) {
        uint32_t size = (uint32_t)visit->argument_bytes;
        made.scalars[0] = (struct seen_scalar){-1, size, large_value(visit, -1, visit->arguments, size)};
        return 1;
    }
    for (uint32_t i = 0; function && i < function->argument_count && count < SCALARS; i++) {
        struct launch_argument argument = function->arguments[i];
        if (argument.offset > visit->argument_bytes || argument.size > visit->argument_bytes - argument.offset ||
            (argument.size == 8 && is_pointer(visit, (int)i, 0)))
            continue;
        const uint8_t *bytes = visit->arguments + argument.offset;
        const char *value =
            argument.size <= 8 ? small_value(bytes, argument.size) : large_value(visit, (int)i, bytes, argument.size);
        made.scalars[count++] = (struct seen_scalar){(int)i, argument.size, value};
    }
    return count;
}

/* sums: of before, then of after; of a copy, after alone. What a copy reads has been the same before. */
static void take_hashes(const struct visit *visit, size_t index, const struct hashing *hashing, const uint64_t *sums,
                        struct seen_buffer *buffer)
{
    int is_read = visit->copy && index >= visit->written_count;
    const uint64_t *after = sums + (visit->copy ? 0 : hashing->sums * HASHING_KINDS);
    if (!visit->copy || is_read) {
        buffer->has_before = hashing_result(hashing, visit, index, sums, 0, &buffer->before);
        buffer->has_folded_before = hashing_result(hashing, visit, index, sums, 1, &buffer->folded_before);
    }
    if (!is_read) {
        buffer->has_after = hashing_result(hashing, visit, index, after, 0, &buffer->after);
        buffer->has_folded_after = hashing_result(hashing, visit, index, after, 1, &buffer->folded_after);
    }
}

static struct seen_buffer buffer_of(const struct visit *visit, const struct reached *reached)
{
    char name[NAME_BYTES];
    names_buffer(reached->range.id, name);
    return (struct seen_buffer){.argument = visit->graph ? -1 : reached->argument,
                                .at = visit->graph ? 0 : reached->at,
                                .name = keep_text(name),
                                .size = reached->range.size,
                                .offset = visit->graph ? 0 : reached->pointer - reached->range.address,
                                .bytes = visit->copy ? reached->bytes : reached->range.size};
}

/* sums: NULL if there are none. */
static size_t take_buffers(const struct visit *visit, const struct hashing *hashing, const uint64_t *sums)
{
    size_t count = 0;
    for (size_t i = 0; i < visit->reached_count && count < BUFFERS; i++) {
        if (visit->graph && visit_first_of_buffer(visit, i) < i) /* its kernels share buffers */
            continue;
        made.buffers[count] = buffer_of(visit, &visit->reached[i]);
        if (sums)
            take_hashes(visit, i, hashing, sums, &made.buffers[count]);
        count++;
    }
    return count;
}

/* As in the kernel's source. */
static const char *name_of(const struct launch_function *function)
{
    const struct kernel_names *names = types_names(function);
    return names ? names->demangled : function->name;
}

static enum seen_kind kind_of(const struct visit *visit)
{
    if (visit->copy)
        return strncmp(visit->copy, "cuMemset", strlen("cuMemset")) == 0 ? SEEN_SET : SEEN_COPY;
    return visit->function ? SEEN_LAUNCH : SEEN_GRAPH;
}

struct seen_event events_make(const struct visit *visit, const struct hashing *hashing, const uint64_t *sums)
{
    struct seen_event event = {.kind = kind_of(visit),
                               .number = visit->number,
                               .launch = visit->copy ? 0 : visit->number,
                               .stream = names_stream(visit),
                               .device = visit->device,
                               .name = visit->copy       ? visit->copy
                                       : visit->function ? name_of(visit->function)
                                                         : "",
                               .symbol = visit->function ? visit->function->name : "",
                               .place = names_place(visit),
                               .shared = visit->shared_bytes,
                               .buffers = made.buffers,
                               .scalars = made.scalars};
    made.text_used = 0;
    memcpy(event.grid, visit->grid, sizeof event.grid);
    memcpy(event.block, visit->block, sizeof event.block);
    event.buffer_count = take_buffers(visit, hashing, sums);
    event.scalar_count = take_scalars(visit);
    return event;
}
