/*
 * Bounds-checked reader for untrusted bytes: a core dump, a cubin, the tables of a library.
 *
 * A read past the end breaks the reader: `at` becomes NULL, and all further reads return 0. So a function can read all that it
 * needs and check `at` once.
 * Numbers are little-endian, like CUDA's ELF files and the processors that CUDA runs on. No alignment is assumed.
 *
 * Thread safety: pure. Nothing is allocated. Returned spans and strings point into the bytes, which must stay in memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
    const uint8_t *bytes; /* NULL if empty */
    size_t size;
};

/* Returns `size` bytes at `offset` of a span; empty if they are not entirely within it. */
struct span span_part(struct span span, uint64_t offset, uint64_t size);

/* Returns the string at `offset`, or NULL if it is not terminated within the span. */
const char *span_string(struct span span, uint64_t offset);

struct reader {
    const uint8_t *at, *end; /* at: NULL once broken */
    uint64_t position;       /* offset of `at` in the span; a caller may set it to an address instead */
};

/* Returns a reader for the bytes from `offset` to the end of the span. It is broken if there are none. */
static inline struct reader reader_of(struct span span, uint64_t offset)
{
    if (offset >= span.size)
        return (struct reader){NULL, NULL, 0};
    return (struct reader){span.bytes + offset, span.bytes + span.size, offset};
}

/* Returns the number of unread bytes, 0 if the reader is broken. */
static inline size_t reader_left(const struct reader *reader)
{
    return reader->at ? (size_t)(reader->end - reader->at) : 0;
}

/* Breaks the reader, for content that makes no sense. Returns 0. */
static inline uint64_t reader_break(struct reader *reader)
{
    reader->at = NULL;
    return 0;
}

static inline void reader_skip(struct reader *reader, uint64_t size)
{
    if (!reader->at || size > reader_left(reader)) {
        reader_break(reader);
        return;
    }
    reader->at += size;
    reader->position += size;
}

/* Returns a reader for the next `size` bytes, and moves *reader behind them. */
static inline struct reader reader_cut(struct reader *reader, uint64_t size)
{
    struct reader inner = *reader;
    reader_skip(reader, size);
    inner.end = reader->at;
    if (!reader->at)
        reader_break(&inner);
    return inner;
}

/* Copies the next `size` bytes. If there are fewer, returns 0 and leaves *to unchanged. */
static inline int reader_copy(struct reader *reader, void *to, size_t size)
{
    const uint8_t *at = reader->at;
    reader_skip(reader, size);
    if (!reader->at)
        return 0;
    memcpy(to, at, size);
    return 1;
}

/* Reads a number of `size` bytes, at most 8. */
static inline uint64_t reader_unsigned(struct reader *reader, unsigned size)
{
    uint64_t value = 0;
    if (size > sizeof value)
        return reader_break(reader);
    reader_copy(reader, &value, size);
    return value;
}

static inline int64_t reader_signed(struct reader *reader, unsigned size)
{
    uint64_t value = reader_unsigned(reader, size), sign = (uint64_t)1 << ((8 * size - 1) & 63);
    return (int64_t)((value ^ sign) - sign);
}

static inline uint8_t reader_u8(struct reader *reader)
{
    return (uint8_t)reader_unsigned(reader, 1);
}

static inline uint16_t reader_u16(struct reader *reader)
{
    return (uint16_t)reader_unsigned(reader, 2);
}

static inline uint32_t reader_u32(struct reader *reader)
{
    return (uint32_t)reader_unsigned(reader, 4);
}

static inline uint64_t reader_u64(struct reader *reader)
{
    return reader_unsigned(reader, 8);
}

/* Read LEB128 numbers. Bits above the 64th are dropped; more than 10 bytes break the reader. */
uint64_t reader_uleb(struct reader *reader);
int64_t reader_sleb(struct reader *reader);

/* Reads a NUL-terminated string. Returns NULL and breaks the reader if it is not terminated. */
const char *reader_string(struct reader *reader);

/* Read little-endian numbers; the caller has checked the bounds. */
static inline uint32_t load_u32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static inline uint64_t load_u64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Whether one of the 8-byte words lies between these two, or is one of them. */
static inline int has_word(const uint8_t *bytes, size_t size, uint64_t first, uint64_t last)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t))
        if (load_u64(bytes + at) - first <= last - first)
            return 1;
    return 0;
}
