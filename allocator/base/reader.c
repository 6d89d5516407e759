#include "reader.h"

struct span span_part(struct span span, uint64_t offset, uint64_t size)
{
    if (size == 0 || offset > span.size || size > span.size - offset)
        return (struct span){NULL, 0};
    return (struct span){span.bytes + offset, (size_t)size};
}

const char *span_string(struct span span, uint64_t offset)
{
    struct reader reader = reader_of(span, offset);
    return reader_string(&reader);
}

static uint64_t read_leb(struct reader *reader, int is_signed)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = reader_u8(reader);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) && shift < 70);
    if ((byte & 0x80) || !reader->at)
        return reader_break(reader);
    if (is_signed && (byte & 0x40) && shift < 64)
        value |= UINT64_MAX << shift;
    return value;
}

uint64_t reader_uleb(struct reader *reader)
{
    return read_leb(reader, 0);
}

int64_t reader_sleb(struct reader *reader)
{
    return (int64_t)read_leb(reader, 1);
}

const char *reader_string(struct reader *reader)
{
    const char *text = (const char *)reader->at;
    const uint8_t *end = reader_left(reader) ? memchr(reader->at, 0, reader_left(reader)) : NULL;
    if (!end) {
        reader_break(reader);
        return NULL;
    }
    reader_skip(reader, (uint64_t)(end - reader->at) + 1);
    return text;
}
