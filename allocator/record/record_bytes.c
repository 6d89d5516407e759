/* Records as bytes, from one process to another of the same build. The reader still checks all of them. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

static void put(struct record_bytes *to, const void *bytes, size_t size)
{
    if (!to->has_failed && size > to->room - to->size) {
        size_t room = 2 * to->room > to->size + size ? 2 * to->room : to->size + size;
        uint8_t *grown = realloc(to->at, room);
        to->has_failed = !grown;
        to->at = grown ? grown : to->at;
        to->room = grown ? room : to->room;
    }
    if (to->has_failed || !size)
        return;
    memcpy(to->at + to->size, bytes, size);
    to->size += size;
}

/* A part's size is that of its record where it lies behind a pointer. */
static size_t plain_size(const struct field *field)
{
    return field->type == FIELD_TRIPLE ? 3 * sizeof(uint32_t) : field->size;
}

static void put_value(const struct field *field, const void *at, const void *holder, struct record_bytes *to)
{
    const char *text;
    uint64_t count;
    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_CHARS:
        text = field_text(field, at);
        count = strlen(text) + 1;
        put(to, &count, sizeof count);
        put(to, text, count);
        break;
    case FIELD_BYTES:
        count = field_count(field, holder);
        put(to, &count, sizeof count);
        put(to, at, count);
        break;
    case FIELD_PART:
        record_write(field->record, at, to);
        break;
    case FIELD_AGO:
    case FIELD_FIXED:
    case FIELD_OPEN:
    case FIELD_CLOSE:
        break;
    case FIELD_LIST:
    case FIELD_PAIRS:
        count = field_count(field, holder);
        put(to, &count, sizeof count);
        for (uint64_t i = 0; i < count; i++)
            record_write(field->record, (const char *)at + i * field->record->bytes, to);
        break;
    default:
        put(to, at, plain_size(field));
    }
}

void record_write(const struct record *record, const void *from, struct record_bytes *to)
{
    struct group group;
    size_t i = 0;
    for (const struct field *field; (field = field_next(record, &i, &group)) != NULL;) {
        const void *at = field_at(field, from);
        uint8_t is_there = field_is_wanted(field, from) && (at || field->type == FIELD_LIST || field->type == FIELD_BYTES);
        if (field->when || field->flags & BEHIND)
            put(to, &is_there, sizeof is_there);
        if (is_there)
            put_value(field, at, from, to);
    }
}

/* ---- reading ---- */

struct taking {
    struct reader *reader;
    struct record_memory *memory;
    int is_out_of_memory;
};

static int take_fields(struct taking *taking, const struct record *record, void *to);

static int take_text(struct reader *reader, const struct field *field, char *to)
{
    struct reader text = reader_cut(reader, reader_u64(reader));
    const char *start = (const char *)text.at;
    size_t size = start ? (size_t)(text.end - text.at) : 0;
    if (!size || strnlen(start, size) != size - 1)
        return 0;
    if (field->type == FIELD_TEXT) {
        memcpy(to, &start, sizeof start);
        return 1;
    }
    if (size <= field->size)
        memcpy(to, start, size);
    return size <= field->size;
}

static int take_bytes(struct reader *reader, const struct field *field, void *to)
{
    uint64_t count = reader_u64(reader);
    struct reader bytes = reader_cut(reader, count);
    if (!bytes.at || count > field_most(field))
        return 0;
    if (field->flags & BEHIND)
        memcpy((char *)to + field->at, &bytes.at, sizeof bytes.at);
    else
        memcpy((char *)to + field->at, bytes.at, count);
    field_set_count(field, to, count);
    return 1;
}

/* Returns where the elements belong; NULL if out of host memory. */
static char *room_for(struct taking *taking, const struct field *field, size_t count, void *to)
{
    char *at = (char *)to + field->at;
    if (!(field->flags & BEHIND))
        return at;
    void *taken = record_take(taking->memory, count, field->record->bytes);
    taking->is_out_of_memory |= !taken;
    memcpy(at, &taken, sizeof taken);
    return taken;
}

static int take_list(struct taking *taking, const struct field *field, void *to)
{
    uint64_t count = reader_u64(taking->reader);
    if (!taking->reader->at || count > field_most(field) || count > reader_left(taking->reader))
        return 0;
    char *at = room_for(taking, field, count, to);
    int is_ok = at != NULL;
    for (uint64_t i = 0; i < count && is_ok; i++)
        is_ok = take_fields(taking, field->record, at + i * field->record->bytes);
    if (is_ok)
        field_set_count(field, to, count);
    return is_ok;
}

static int is_word(const struct field *field, uint64_t number)
{
    for (uint64_t i = 0; field->words[i]; i++)
        if (i == number)
            return 1;
    return 0;
}

static int take_plain(struct reader *reader, const struct field *field, char *to)
{
    if (!reader_copy(reader, to, plain_size(field)))
        return 0;
    if (field->type == FIELD_WORD)
        return is_word(field, field_number(field, to));
    return !field->most || field->size > sizeof(uint64_t) || field_number(field, to) <= field->most;
}

static int take_value(struct taking *taking, const struct field *field, void *to)
{
    char *at = (char *)to + field->at;
    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_CHARS:
        return take_text(taking->reader, field, at);
    case FIELD_BYTES:
        return take_bytes(taking->reader, field, to);
    case FIELD_PART:
        at = room_for(taking, field, 1, to);
        return at && take_fields(taking, field->record, at);
    case FIELD_LIST:
    case FIELD_PAIRS:
        return take_list(taking, field, to);
    case FIELD_AGO:
    case FIELD_FIXED:
    case FIELD_OPEN:
    case FIELD_CLOSE:
        return 1;
    default:
        return take_plain(taking->reader, field, at);
    }
}

static int take_fields(struct taking *taking, const struct record *record, void *to)
{
    struct group group;
    size_t i = 0;
    for (const struct field *field; (field = field_next(record, &i, &group)) != NULL;) {
        int is_there = 1,
            is_list = field->type == FIELD_LIST || field->type == FIELD_BYTES; /* without elements it is there, too */
        if (field->when || field->flags & BEHIND)
            is_there = reader_u8(taking->reader) == 1;
        if (!taking->reader->at || (!is_there && is_list && !field->when) || (is_there && !take_value(taking, field, to)))
            return 0;
        if (is_there && field->when_size == sizeof is_there && !field_is_wanted(field, to))
            memcpy((char *)to + field->when - 1, &is_there, sizeof is_there);
    }
    return 1;
}

cufence_status record_read(const struct record *record, struct reader *reader, void *to, struct record_memory *memory,
                           struct problem *problem)
{
    struct taking taking = {.reader = reader, .memory = memory};
    memset(to, 0, record->bytes);
    if (take_fields(&taking, record, to))
        return CUFENCE_OK;
    if (taking.is_out_of_memory)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    return problem_set(problem, CUFENCE_ERROR_CORRUPT, "it is damaged");
}
