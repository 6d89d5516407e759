#include "json_table.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

struct block {
    struct block *next;
    _Alignas(max_align_t) char bytes[];
};

void *json_take(struct json_memory *memory, size_t count, size_t size)
{
    if (size && count > (SIZE_MAX - sizeof(struct block)) / size)
        return NULL;
    struct block *block = calloc(1, sizeof *block + count * size);
    if (!block)
        return NULL;
    block->next = memory->first;
    memory->first = block;
    return block->bytes;
}

void json_memory_free(struct json_memory *memory)
{
    for (struct block *block = memory->first, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    json_decref(memory->json);
    *memory = (struct json_memory){NULL};
}

/* ---- members of a struct ---- */

const struct field *field_next(const struct json_table *table, size_t *index, struct group *group)
{
    const struct field *field = &table->fields[*index];
    if (*index >= table->count)
        return NULL;
    ++*index;
    if (field->type != FIELD_OPEN)
        return field;
    size_t first = *index;
    for (size_t depth = 1; depth; ++*index) {
        depth += table->fields[*index].type == FIELD_OPEN;
        depth -= table->fields[*index].type == FIELD_CLOSE;
    }
    group->table = (struct json_table){.fields = table->fields + first, .count = *index - 1 - first, .bytes = table->bytes};
    group->field = *field;
    group->field.type = FIELD_PART;
    group->field.table = &group->table;
    return &group->field;
}

static const void *field_at(const struct field *field, const void *holder)
{
    const char *at = (const char *)holder + field->at;
    return field->flags & BEHIND ? *(const void *const *)at : at;
}

static uint64_t field_number(const struct field *field, const void *at)
{
    uint64_t number = 0;
    memcpy(&number, at, field->size);
    return number;
}

static size_t field_count(const struct field *field, const void *holder)
{
    size_t count = field->size;
    if (field->count) {
        count = 0;
        memcpy(&count, (const char *)holder + field->count - 1, field->count_size);
    }
    return count;
}

static const char *field_text(const struct field *field, const void *at)
{
    const char *text = field->type == FIELD_TEXT ? *(const char *const *)at : at;
    return text ? text : "";
}

static int is_zero(const void *at, size_t size)
{
    const char *bytes = at;
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

int field_is_wanted(const struct field *field, const void *holder)
{
    return !field->when || !is_zero((const char *)holder + field->when - 1, field->when_size);
}

/* ---- JSON ---- */

static int64_t field_signed(const struct field *field, const void *at)
{
    uint64_t number = field_number(field, at);
    return field->size == sizeof(int) ? (int)number : (int64_t)number;
}

static int is_finite(double value)
{
    return value - value == 0;
}

/* `at` is the value, not the pointer to it. */
static int is_absent(const struct field *field, const void *at, const void *holder, uint64_t now_ns)
{
    int is_optional = (field->flags & NOT_ZERO) != 0;
    switch (field->type) {
    case FIELD_NUMBER:
        return field_number(field, at) > INT64_MAX || (is_optional && !field_number(field, at));
    case FIELD_INT:
        return ((field->flags & OR_NONE) && field_signed(field, at) < 0) || (is_optional && !field_signed(field, at));
    case FIELD_TEXT:
    case FIELD_CHARS:
        return !(field->flags & EVEN_EMPTY) && !*field_text(field, at);
    case FIELD_TRUE:
        return !*(const int *)at;
    case FIELD_WORD:
        return !*field->words[*(const unsigned *)at];
    case FIELD_REAL:
        return (field->flags & OR_NONE) && !is_finite(*(const double *)at);
    case FIELD_AGO:
        return now_ns < field_number(field, at);
    case FIELD_BYTES:
    case FIELD_LIST:
    case FIELD_PAIRS:
        return is_optional && !field_count(field, holder);
    default:
        return is_optional && is_zero(at, field->size);
    }
}

/* JSON has no NaN and no infinities. */
static json_t *real_of(double value)
{
    if (value != value)
        return json_string("NaN");
    if (!is_finite(value))
        return json_string(value < 0 ? "-Infinity" : "Infinity");
    return json_real(value);
}

static json_t *bytes_of(const uint8_t *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    char *text = malloc(2 * count + 1);
    for (size_t i = 0; text && i < count; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    json_t *string = text ? json_stringn(text, 2 * count) : NULL;
    free(text);
    return string;
}

static json_t *value_of(const struct field *field, const void *at, const void *holder, uint64_t now_ns);

static json_t *list_of(const struct json_table *table, const char *at, size_t count, uint64_t now_ns)
{
    json_t *array = json_array();
    for (; count && array; count--, at += table->bytes) {
        json_t *value = json_table_is_bare(table) ? value_of(table->fields, at + table->fields->at, at, now_ns)
                                                  : json_table_write_at(table, at, now_ns);
        if (json_array_append_new(array, value) == 0)
            continue;
        json_decref(array);
        array = NULL;
    }
    return array;
}

/* Those with an absent value are left out. */
static json_t *pairs_of(const struct json_table *table, const char *from, size_t count, uint64_t now_ns)
{
    json_t *object = json_object();
    const struct field *key = &table->fields[0], *field = &table->fields[1];
    for (; count && object; count--, from += table->bytes) {
        const void *at = field_at(field, from);
        if (is_absent(field, at, from, now_ns))
            continue;
        json_t *name = text_to_json(field_text(key, from + key->at));
        if (json_object_set_new(object, json_string_value(name), value_of(field, at, from, now_ns)) != 0) {
            json_decref(object);
            object = NULL;
        }
        json_decref(name);
    }
    return object;
}

/* Returns NULL if out of host memory. */
static json_t *value_of(const struct field *field, const void *at, const void *holder, uint64_t now_ns)
{
    const struct scalar *scalar = at;
    const uint32_t *triple = at;
    switch (field->type) {
    case FIELD_NUMBER:
        return json_integer((json_int_t)field_number(field, at));
    case FIELD_INT:
        return json_integer(field_signed(field, at));
    case FIELD_HEX:
        return json_sprintf("0x%" PRIx64, field_number(field, at));
    case FIELD_TEXT:
    case FIELD_CHARS:
        return text_to_json(field_text(field, at));
    case FIELD_TRIPLE:
        return json_pack("[III]", (json_int_t)triple[0], (json_int_t)triple[1], (json_int_t)triple[2]);
    case FIELD_BOOL:
    case FIELD_TRUE:
        return json_boolean(*(const int *)at);
    case FIELD_WORD:
        return json_string(field->words[*(const unsigned *)at]);
    case FIELD_REAL:
        return real_of(*(const double *)at);
    case FIELD_SCALAR:
        if (scalar->kind == SCALAR_HUGE)
            return json_sprintf("%" PRIu64, (uint64_t)scalar->whole);
        return scalar->kind == SCALAR_WHOLE ? json_integer(scalar->whole) : real_of(scalar->value);
    case FIELD_BYTES:
        return bytes_of(at, field_count(field, holder));
    case FIELD_PART:
        return json_table_write_at(field->table, at, now_ns);
    case FIELD_LIST:
        return list_of(field->table, at, field_count(field, holder), now_ns);
    case FIELD_PAIRS:
        return pairs_of(field->table, at, field_count(field, holder), now_ns);
    case FIELD_AGO:
        return json_integer((json_int_t)(now_ns - field_number(field, at)));
    case FIELD_OPEN:
    case FIELD_CLOSE:
        break;
    case FIELD_FIXED:
        return field->words ? json_string(field->words[0]) : json_integer((json_int_t)field->most);
    }
    return NULL;
}

/* Returns 0 if out of host memory. */
static int put_fields(json_t *object, const struct json_table *table, const void *from, uint64_t now_ns)
{
    int is_ok = 1;
    struct group group;
    size_t i = 0;
    for (const struct field *field; is_ok && (field = field_next(table, &i, &group)) != NULL;) {
        const void *at = field_at(field, from);
        if (!at && field->count) /* an empty list */
            at = "";
        if (!field_is_wanted(field, from) || !at || is_absent(field, at, from, now_ns))
            continue;
        is_ok = field->name ? json_object_set_new(object, field->name, value_of(field, at, from, now_ns)) == 0
                            : put_fields(object, field->table, at, now_ns);
    }
    return is_ok;
}

json_t *json_table_write_at(const struct json_table *table, const void *from, uint64_t now_ns)
{
    json_t *object = json_object();
    if (object && put_fields(object, table, from, now_ns))
        return object;
    json_decref(object);
    return NULL;
}

json_t *json_table_write(const struct json_table *table, const void *from)
{
    return json_table_write_at(table, from, 0);
}
