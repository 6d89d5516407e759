#include "fatbin.h"

#include <zstd.h>

#define IS_LZ4 UINT64_C(0x2000)
#define IS_ZSTD UINT64_C(0x8000)

struct image_header {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;        /* behind the header */
    uint32_t packed_bytes; /* the others fill up */
    uint32_t options;
    uint16_t minor, major;
    uint32_t sm;
    uint32_t name, name_bytes;
    uint64_t flags, unknown;
    uint64_t unpacked_bytes;
};

uint64_t fatbin_size(const void *start)
{
    const uint8_t *bytes = start;
    uint64_t header = load_u32(bytes + 4) >> 16, size = load_u64(bytes + 8);
    return load_u32(bytes) == FATBIN_MAGIC && header >= FATBIN_HEADER && size < INT64_MAX ? header + size : 0;
}

/* Returns 0 if there is none, or its bytes are not all in the file. */
static int read_header(struct span file, uint64_t at, struct image_header *header)
{
    struct span start = span_part(file, at, sizeof *header);
    if (!start.bytes)
        return 0;
    memcpy(header, start.bytes, sizeof *header);
    return header->header_bytes >= sizeof *header && header->bytes <= file.size &&
           span_part(file, at + header->header_bytes, header->bytes).size == header->bytes;
}

/* Returns 0 if the header makes no sense. */
static int describe(struct span content, const struct image_header *header, struct fatbin_image *image)
{
    *image = (struct fatbin_image){content, content.size, header->sm, header->kind, FATBIN_PLAIN};
    if (!(header->flags & (IS_LZ4 | IS_ZSTD)))
        return content.bytes != NULL;
    image->packing = header->flags & IS_ZSTD ? FATBIN_ZSTD : FATBIN_LZ4;
    image->packed = span_part(content, 0, header->packed_bytes);
    image->size = header->unpacked_bytes;
    return image->packed.bytes && image->size && image->size <= FATBIN_MOST;
}

int fatbin_next(struct span file, uint64_t *at, struct fatbin_image *image)
{
    struct image_header header;
    if (!*at)
        *at = file.size >= FATBIN_HEADER ? load_u32(file.bytes + 4) >> 16 : 0;
    while (*at != file.size) {
        if (!read_header(file, *at, &header))
            return -1;
        struct span content = span_part(file, *at + header.header_bytes, header.bytes);
        *at += header.header_bytes + header.bytes;
        if (header.kind == FATBIN_PTX || header.kind == FATBIN_CUBIN)
            return describe(content, &header, image) ? 1 : -1;
    }
    return 0;
}

int fatbin_unpack(const struct fatbin_image *image, uint8_t *to)
{
    if (image->packing == FATBIN_LZ4)
        return lz4_unpack(image->packed, to, image->size);
    if (image->packing == FATBIN_ZSTD)
        return ZSTD_decompress(to, image->size, image->packed.bytes, image->packed.size) == image->size;
    memcpy(to, image->packed.bytes, image->size);
    return 1;
}

/* ---- LZ4 ---- */

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
