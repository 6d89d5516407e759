/* Reads a table from JSON. In a file of its own, so that a library that only writes needs no parser. */
#include "json_table.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST_LIST 4096
#define DIGITS "0123456789abcdef"

struct reading {
    struct json_memory *memory;
    const char *wrong; /* the name of the first bad member; NULL if there is none */
    int is_out_of_memory;
};

static void set_number(const struct field *field, void *to, uint64_t number)
{
    memcpy((char *)to + field->at, &number, field->size);
}

static void set_count(const struct field *field, void *to, size_t count)
{
    if (field->count)
        memcpy((char *)to + field->count - 1, &count, field->count_size);
}

static uint64_t most_of(const struct field *field)
{
    if (field->most)
        return field->most;
    if (field->type == FIELD_LIST || field->type == FIELD_BYTES || field->type == FIELD_PAIRS)
        return field->flags & BEHIND ? LONGEST_LIST : field->size / (field->type == FIELD_BYTES ? 1 : field->table->bytes);
    if (field->type == FIELD_INT && field->size == sizeof(int))
        return INT32_MAX;
    return field->size < 8 ? ((uint64_t)1 << 8 * field->size) - 1 : INT64_MAX;
}

/* ---- values: each returns 0 if it is not one of the field ---- */

static int take_number(const struct field *field, const json_t *json, void *to)
{
    json_int_t number = json_integer_value(json);
    if (!json_is_integer(json) || (number < 0 && (field->type == FIELD_NUMBER || -(uint64_t)number > most_of(field) + 1)) ||
        (number > 0 && (uint64_t)number > most_of(field)))
        return 0;
    set_number(field, to, (uint64_t)number);
    return 1;
}

static int take_hex(const struct field *field, const json_t *json, void *to)
{
    const char *text = json_is_string(json) ? json_string_value(json) : "";
    text = strncmp(text, "0x", 2) == 0 ? text + 2 : "";
    size_t length = strlen(text);
    uint64_t number = strtoull(text, NULL, 16);
    if (length < 1 || length > 16 || strspn(text, DIGITS) != length || (field->most && number > field->most))
        return 0;
    set_number(field, to, number);
    return 1;
}

static int take_text(const struct field *field, const char *text, void *to)
{
    if (text && field->type == FIELD_TEXT)
        memcpy((char *)to + field->at, &text, sizeof text);
    else if (text)
        text_format((char *)to + field->at, field->size, "%s", text);
    return text != NULL;
}

static int take_triple(const struct field *field, const json_t *json, void *to)
{
    uint32_t triple[3];
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(json, i);
        if (!json_is_integer(one) || json_integer_value(one) < 0 ||
            (uint64_t)json_integer_value(one) > (field->most ? field->most : UINT32_MAX))
            return 0;
        triple[i] = (uint32_t)json_integer_value(one);
    }
    memcpy((char *)to + field->at, triple, sizeof triple);
    return json_array_size(json) == 3;
}

static int take_word(const struct field *field, const json_t *json, void *to)
{
    const char *text = json_string_value(json);
    for (unsigned i = 0; text && field->words[i]; i++) {
        if (strcmp(text, field->words[i]) != 0 || !*text)
            continue;
        set_number(field, to, i);
        return 1;
    }
    return 0;
}

static int take_real(const json_t *json, double *value)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    const char *text = json_string_value(json);
    *value = json_number_value(json);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i])) {
            *value = strtod(text, NULL);
            return 1;
        }
    return json_is_number(json);
}

static int take_scalar(const struct field *field, const json_t *json, void *to)
{
    struct scalar scalar = {.whole = json_integer_value(json), .kind = json_is_integer(json) ? SCALAR_WHOLE : SCALAR_REAL};
    int is_ok = take_real(json, &scalar.value);
    memcpy((char *)to + field->at, &scalar, field->type == FIELD_REAL ? sizeof scalar.value : sizeof scalar);
    return is_ok;
}

/* ---- what needs memory ---- */

/* Returns where the elements belong; NULL if out of host memory, or if there are too many. */
static char *room_for(struct reading *reading, const struct field *field, size_t count, size_t size, void *to)
{
    char *at = (char *)to + field->at;
    if (count > most_of(field))
        return NULL;
    if (!(field->flags & BEHIND))
        return count * size <= field->size ? at : NULL;
    void *taken = *(void **)at; /* a part may be told in several places */
    if (!taken || field->type != FIELD_PART)
        taken = json_take(reading->memory, count, size);
    memcpy(at, &taken, sizeof taken);
    reading->is_out_of_memory |= !taken;
    return taken;
}

static int take_bytes(struct reading *reading, const struct field *field, const json_t *json, void *to)
{
    const char *text = json_string_value(json);
    size_t count = text ? strlen(text) / 2 : 0;
    char *at = text && strspn(text, DIGITS) == 2 * count && !text[2 * count] ? room_for(reading, field, count, 1, to) : NULL;
    for (size_t i = 0; at && i < count; i++)
        at[i] = (char)strtoul((const char[]){text[2 * i], text[2 * i + 1], 0}, NULL, 16);
    if (at)
        set_count(field, to, count);
    return at != NULL;
}

static void take_fields(struct reading *reading, const struct json_table *table, const json_t *json, void *to);
static int take_value(struct reading *reading, const struct field *field, const json_t *json, void *to);

static int take_list(struct reading *reading, const struct field *field, const json_t *json, void *to)
{
    const struct json_table *table = field->table;
    size_t count = json_array_size(json);
    char *at = json_is_array(json) ? room_for(reading, field, count, table->bytes, to) : NULL;
    int is_ok = at != NULL;
    for (size_t i = 0; i < count && is_ok; i++, at += table->bytes) {
        const json_t *one = json_array_get(json, i);
        is_ok = json_table_is_bare(table) ? take_value(reading, table->fields, one, at) : json_is_object(one);
        if (is_ok && !json_table_is_bare(table))
            take_fields(reading, table, one, at);
    }
    if (is_ok)
        set_count(field, to, count);
    return is_ok;
}

static int take_pairs(struct reading *reading, const struct field *field, json_t *json, void *to)
{
    const struct json_table *table = field->table;
    char *at = json_is_object(json) ? room_for(reading, field, json_object_size(json), table->bytes, to) : NULL;
    const char *name;
    json_t *value;
    if (!at)
        return 0;
    json_object_foreach(json, name, value)
    {
        if (!take_value(reading, &table->fields[1], value, at))
            return 0;
        take_text(&table->fields[0], name, at);
        at += table->bytes;
    }
    set_count(field, to, json_object_size(json));
    return 1;
}

/* Whether one of the members is there that a table has. */
static int has_any(const struct json_table *table, const json_t *json)
{
    struct group group;
    size_t i = 0;
    for (const struct field *field; (field = field_next(table, &i, &group)) != NULL;) {
        if (field->name ? json_object_get(json, field->name) != NULL : has_any(field->table, json))
            return 1;
    }
    return 0;
}

static int take_part(struct reading *reading, const struct field *field, const json_t *json, void *to)
{
    char *at = (char *)to + field->at;
    if (field->flags & BEHIND)
        at = json_is_object(json) ? room_for(reading, field, 1, field->table->bytes, to) : NULL;
    if (!at || !json_is_object(json))
        return 0;
    take_fields(reading, field->table, json, at);
    return 1;
}

static int take_value(struct reading *reading, const struct field *field, const json_t *json, void *to)
{
    int is_true = json_is_true(json);
    switch (field->type) {
    case FIELD_NUMBER:
    case FIELD_INT:
        return take_number(field, json, to);
    case FIELD_HEX:
        return take_hex(field, json, to);
    case FIELD_TEXT:
    case FIELD_CHARS:
        return take_text(field, json_string_value(json), to);
    case FIELD_TRIPLE:
        return take_triple(field, json, to);
    case FIELD_BOOL:
    case FIELD_TRUE:
        memcpy((char *)to + field->at, &is_true, sizeof is_true);
        return json_is_boolean(json);
    case FIELD_WORD:
        return take_word(field, json, to);
    case FIELD_REAL:
    case FIELD_SCALAR:
        return take_scalar(field, json, to);
    case FIELD_BYTES:
        return take_bytes(reading, field, json, to);
    case FIELD_PART:
        return take_part(reading, field, json, to);
    case FIELD_LIST:
        return take_list(reading, field, json, to);
    case FIELD_PAIRS:
        return take_pairs(reading, field, (json_t *)(uintptr_t)json, to);
    case FIELD_AGO:
    case FIELD_FIXED:
    case FIELD_OPEN:
    case FIELD_CLOSE:
        return 1;
    }
    return 0;
}

static void take_fields(struct reading *reading, const struct json_table *table, const json_t *json, void *to)
{
    struct group group;
    size_t i = 0;
    for (const struct field *field; (field = field_next(table, &i, &group)) != NULL;) {
        const json_t *value = field->name ? json_object_get(json, field->name) : json;
        if (!field->name && field->flags & BEHIND && !has_any(field->table, json))
            continue; /* the pointer stays NULL */
        int is_there = value && take_value(reading, field, value, to);
        if (!is_there && (value || field->flags & REQUIRED) && !reading->wrong)
            reading->wrong = field->name ? field->name : "value";
        if (!is_there && field->flags & OR_NONE)
            memset((char *)to + field->at, 0xff, field->size); /* of a double, that is NaN */
        if (is_there && field->when_size == sizeof is_there && !field_is_wanted(field, to))
            memcpy((char *)to + field->when - 1, &is_there, sizeof is_there);
    }
}

cufence_status json_table_read(const struct json_table *table, const json_t *json, void *to, struct json_memory *memory,
                               struct problem *problem)
{
    struct reading reading = {.memory = memory};
    memset(to, 0, table->bytes);
    take_fields(&reading, table, json, to);
    if (reading.is_out_of_memory)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    if (reading.wrong)
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "\"%s\" has a value that is not allowed", reading.wrong);
    return CUFENCE_OK;
}
