#include "fatbin.h"

#define LONGER 15 /* in a token: more bytes follow, which add to it */
#define LEAST_MATCH 4

/* Stops behind `most`: the caller compares it. */
static uint64_t read_length(struct reader *reader, uint64_t length, uint64_t most)
{
    if (length != LONGER)
        return length;
    uint8_t more;
    do {
        more = reader_u8(reader);
        length += more;
    } while (more == 255 && length <= most);
    return length;
}

/* What is copied may be what it makes: an offset of 1 repeats a byte. */
static void copy_match(uint8_t *to, uint64_t offset, uint64_t length)
{
    const uint8_t *from = to - offset;
    if (offset >= length) {
        memcpy(to, from, length);
        return;
    }
    for (uint64_t i = 0; i < length; i++)
        to[i] = from[i];
}

/* A block is a row of sequences: a token with two lengths, literals, and a match, which the last one lacks. */
int lz4_unpack(struct span block, uint8_t *to, uint64_t size)
{
    struct reader reader = reader_of(block, 0);
    uint64_t at = 0;
    while (reader.at) {
        uint8_t token = reader_u8(&reader);
        uint64_t literals = read_length(&reader, token >> 4, size);
        if (literals > size - at || !reader_copy(&reader, to + at, literals))
            return 0;
        at += literals;
        if (!reader_left(&reader))
            return at == size;
        uint64_t offset = reader_u16(&reader);
        uint64_t length = read_length(&reader, token & 15, size) + LEAST_MATCH;
        if (!reader.at || offset == 0 || offset > at || length > size - at)
            return 0;
        copy_match(to + at, offset, length);
        at += length;
    }
    return 0;
}
