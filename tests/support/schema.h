/*
 * The JSON schema (2020-12) of what json_table_write() makes of a record; definitions of records with a name are added to
 * `definitions`. unit_golden keeps that in docs/ with it.
 */
#pragma once

#include "json/json_table.h"

#include <string.h>

static inline json_t *record_schema(const struct json_table *record, json_t *definitions);
static inline json_t *schema_of(const struct field *field, json_t *definitions);

static inline json_t *schema_typed(const char *type)
{
    return json_pack("{ss}", "type", type);
}

static inline json_t *schema_words_of(const char *const *words)
{
    json_t *list = json_array();
    for (; *words; words++)
        if (**words)
            json_array_append_new(list, json_string(*words));
    return json_pack("{so}", "enum", list);
}

static inline json_t *schema_real_of(void)
{
    return json_pack("{s[{ss}{s[sss]}]}", "anyOf", "type", "number", "enum", "NaN", "Infinity", "-Infinity");
}

static inline json_t *schema_pattern_of(const char *pattern)
{
    return json_pack("{ssss}", "type", "string", "pattern", pattern);
}

/* Of the record itself, or a reference to its definition. */
static inline json_t *schema_part_of(const struct json_table *record, json_t *definitions)
{
    if (!record->name)
        return record_schema(record, definitions);
    if (!json_object_get(definitions, record->name)) {
        json_object_set_new(definitions, record->name, json_null()); /* for its place in the order */
        json_object_set_new(definitions, record->name, record_schema(record, definitions));
    }
    return json_pack("{so}", "$ref", json_sprintf("#/$defs/%s", record->name));
}

static inline json_t *schema_list_of(const struct json_table *record, json_t *definitions)
{
    json_t *items = json_table_is_bare(record) ? schema_of(record->fields, definitions) : schema_part_of(record, definitions);
    return json_pack("{ssso}", "type", "array", "items", items);
}

static inline json_t *schema_number_of(const struct field *field)
{
    return json_pack("{sssi}", "type", "integer", "minimum", field->flags & NOT_ZERO);
}

static inline json_t *schema_of(const struct field *field, json_t *definitions)
{
    switch (field->type) {
    case FIELD_NUMBER:
        return schema_number_of(field);
    case FIELD_INT:
        return field->flags & OR_NONE ? schema_number_of(field) : schema_typed("integer");
    case FIELD_HEX:
        return schema_pattern_of("^0x[0-9a-f]+$");
    case FIELD_TEXT:
    case FIELD_CHARS:
        return field->words ? schema_words_of(field->words) : schema_typed("string");
    case FIELD_TRIPLE:
        return json_pack("{sss{sssi}sisi}", "type", "array", "items", "type", "integer", "minimum", 0, "minItems", 3,
                         "maxItems", 3);
    case FIELD_BOOL:
        return schema_typed("boolean");
    case FIELD_TRUE:
        return json_pack("{sb}", "const", 1);
    case FIELD_WORD:
        return schema_words_of(field->words);
    case FIELD_REAL:
    case FIELD_SCALAR:
        return field->flags & OR_NONE ? schema_typed("number") : schema_real_of();
    case FIELD_BYTES:
        return schema_pattern_of("^([0-9a-f]{2})*$");
    case FIELD_PART:
        return schema_part_of(field->table, definitions);
    case FIELD_LIST:
        return schema_list_of(field->table, definitions);
    case FIELD_PAIRS:
        return json_pack("{sss{ss}}", "type", "object", "additionalProperties", "type", "string");
    case FIELD_AGO:
        return schema_number_of(field);
    case FIELD_OPEN:
    case FIELD_CLOSE:
        break;
    case FIELD_FIXED:
        if (!field->words)
            return json_pack("{sI}", "const", (json_int_t)field->most);
        return field->flags & REQUIRED ? json_pack("{ss}", "const", field->words[0]) : schema_typed("string");
    }
    return NULL;
}

static inline void schema_add_fields(const struct json_table *record, json_t *properties, json_t *required, json_t *definitions)
{
    struct group group;
    size_t i = 0;
    for (const struct field *field; (field = field_next(record, &i, &group)) != NULL;) {
        if (!field->name) {
            schema_add_fields(field->table, properties, required, definitions);
            continue;
        }
        json_t *schema = schema_of(field, definitions);
        if (field->about)
            json_object_set_new(schema, "description", json_string(field->about));
        json_object_set_new(properties, field->name, schema);
        if (field->flags & REQUIRED)
            json_array_append_new(required, json_string(field->name));
    }
}

static inline json_t *record_schema(const struct json_table *record, json_t *definitions)
{
    json_t *properties = json_object(), *required = json_array();
    schema_add_fields(record, properties, required, definitions);
    json_t *schema = json_pack("{sssO}", "type", "object", "properties", properties);
    if (json_array_size(required))
        json_object_set(schema, "required", required);
    json_decref(properties);
    json_decref(required);
    return schema;
}
