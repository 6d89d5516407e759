/*
 * A cubin's line table by itself, which the target for core dumps reaches only if everything around it is valid. The input: the
 * place to look up (2 bytes), how .debug_line is relocated (1), the sizes of .debug_line_str and .debug_str (1 each), those
 * two, and .debug_line.
 */
#include "fuzz.h"

#include "analysis/lines/cubin.h"

static int relocation(void *user, uint64_t offset, uint64_t *base)
{
    unsigned way = *(const uint8_t *)user;
    *base = way & 0xf0;
    return (int)((way + offset % 3) % 3) - 1;
}

static struct span take(const uint8_t **data, size_t *left, size_t size)
{
    struct span part = {*data, size < *left ? size : *left};
    *data += part.size;
    *left -= part.size;
    return part;
}

static int is_within(struct span span, const char *text)
{
    uintptr_t at = (uintptr_t)text, start = (uintptr_t)span.bytes;
    return at >= start && at < start + span.size && memchr(text, 0, span.size - (at - start)) != NULL;
}

static int is_named(const struct line_query *query, const char *text)
{
    return is_within(query->line, text) || is_within(query->line_str, text) || is_within(query->str, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cubin_line place = {0};
    if (size < 5)
        return 0;
    uint8_t way = data[2];
    uint64_t offset = data[0] | (uint64_t)data[1] << 8;
    size_t left = size - 5, line_str = data[3], str = data[4];
    data += 5;
    struct line_query query = {.start = 0x1000, .offset = offset, .relocation = relocation, .user = &way};
    query.line_str = take(&data, &left, line_str);
    query.str = take(&data, &left, str);
    query.line = take(&data, &left, left);
    if (!lines_find(&query, &place))
        return 0;
    /* the contract: the names are within the sections */
    require(is_named(&query, place.file) && (!place.directory || is_named(&query, place.directory)));
    return 0;
}
