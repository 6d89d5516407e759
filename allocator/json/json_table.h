/*
 * A table: a struct whose members are told as JSON. One table of fields makes JSON of it (json_table_write()) and reads that
 * back. tests/support/schema.h makes the schema of it.
 *
 *     TABLE(point, struct point, FIELD(HEX, struct point, address, "address"),
 *           FIELD(NUMBER, struct point, bytes, "bytes", .flags = NOT_ZERO),
 *           FIELD(LIST, struct point, frames, "frames", .flags = BEHIND, .table = &frame, COUNT(struct point, frame_count)));
 *
 * A table (1) writes a struct as JSON, (2) reads it back, and (3) is what the schema in the docs is made from. It never owns
 * what it writes, and no other code names a member of the JSON.
 *
 * The fields of a table are told in its order. A field that is absent has no member in the JSON; in the struct it is 0, NULL or
 * "", or what its type says below. Pure; any thread.
 */
#pragma once

#include "base/error.h"
#include "base/shape.h"
#include "json_memory.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum field_type {
    FIELD_NUMBER, /* an integer of 1, 2, 4 or 8 bytes, without sign. Above INT64_MAX, which JSON readers lack, it is absent */
    FIELD_INT,    /* an int, or a number of 8 bytes that is told as one with a sign */
    FIELD_HEX,    /* uint64_t, "0x7e0000" */
    FIELD_TEXT,   /* const char *. NULL and "" are absent, unless EVEN_EMPTY. One that is no UTF-8 is repaired */
    FIELD_CHARS,  /* the same in an array of char. What does not fit is cut */
    FIELD_TRIPLE, /* uint32_t[3], as a list */
    FIELD_BOOL,   /* an int: true or false */
    FIELD_TRUE,   /* an int: true, or absent */
    FIELD_WORD,   /* an enum: one of `words`, "" for a value that is absent */
    FIELD_REAL,   /* a double; "NaN", "Infinity" and "-Infinity" are texts, as JSON has no such numbers */
    FIELD_SCALAR, /* a struct scalar */
    FIELD_BYTES,  /* uint8_t[], or behind a pointer, of which `count` are valid, or all without one: hexadecimal digits */
    FIELD_PART,   /* another table. Without a name its members are told as the holder's own */
    FIELD_LIST,   /* an array of tables, or behind a pointer, of which `count` are valid */
    FIELD_PAIRS,  /* a list of tables with a text and a value, as one object: the text is the member's name */
    FIELD_AGO,    /* uint64_t, a time: how long before the present, see json_table_write_at(); absent if later. Not read */
    FIELD_OPEN,   /* OPEN() to CLOSE: the fields between them are told as an object of their own */
    FIELD_CLOSE,
    FIELD_FIXED /* always the first of `words`, or `most` if there are none. Not read. The schema allows other words
                   unless it is REQUIRED: they are those of another version */
};

enum {
    NOT_ZERO = 1,   /* absent if 0; a list or bytes if empty; a triple if all are 0 */
    OR_NONE = 2,    /* a number: absent if negative, UINT64_MAX or not finite; an absent one is read as that */
    REQUIRED = 4,   /* reading JSON without it fails */
    BEHIND = 8,     /* the struct has a pointer to it; NULL: absent */
    EVEN_EMPTY = 16 /* a text is told even if it is "" */
};

struct field {
    const char *name; /* in a list's table with one field and no name, each element is that field's value itself */
    enum field_type type;
    unsigned flags;
    uint32_t at, size;        /* of the member: its offset in the struct, and its bytes */
    uint32_t when, when_size; /* WHEN(): 1 + offset and bytes of a member; where that is 0, the field is absent. If it is an
                                 int, reading makes it 1 where the field is there and it is still 0 */
    uint32_t count;           /* COUNT(): 1 + offset of a size_t or uint32_t */
    uint32_t count_size;      /* and the bytes of it */
    uint64_t most; /* reading: the largest number, or the longest list that is accepted; 0: what fits its type, 4096 */
    const struct json_table *table;
    const char *const *words; /* ends with NULL. Of a text: those that the schema allows */
    const char *about;        /* for the schema; NULL: nothing */
};

struct json_table {
    const char *name; /* of the schema's definition, for tables in several places; NULL: none */
    const struct field *fields;
    size_t count;
    size_t bytes; /* of the struct */
};

#define FIELD(kind, of, member, ...)                                                                                           \
    {                                                                                                                          \
        .type = FIELD_##kind, .at = offsetof(of, member), .size = sizeof(((of *)0)->member), .name = __VA_ARGS__               \
    }
/* What is no member. */
#define APART(kind, ...)                                                                                                       \
    {                                                                                                                          \
        .type = FIELD_##kind, .name = __VA_ARGS__                                                                              \
    }
#define OPEN(...) APART(OPEN, __VA_ARGS__)
#define CLOSE APART(CLOSE, NULL)
/* Members of the same struct, together under a name of their own. */
#define GROUP(of, group, ...) APART(PART, __VA_ARGS__, .table = &(group))
#define COUNT(of, member) .count = 1 + offsetof(of, member), .count_size = sizeof(((of *)0)->member)
#define WHEN(of, member) .when = 1 + offsetof(of, member), .when_size = sizeof(((of *)0)->member)
#define TABLE_OF(of, table) NAMED_TABLE(NULL, of, table)
#define NAMED_TABLE(title, of, table)                                                                                          \
    {                                                                                                                          \
        .name = title, .fields = table, .count = sizeof(table) / sizeof *(table), .bytes = sizeof(of)                          \
    }

/* The fields and the table in one go; of NAMED, the schema's definition has the same name. */
#define TABLE(name, of, ...)                                                                                                   \
    static const struct field name##_fields[] = {__VA_ARGS__};                                                                 \
    static const struct json_table name = TABLE_OF(of, name##_fields)
#define NAMED(name, of, ...)                                                                                                   \
    static const struct field name##_fields[] = {__VA_ARGS__};                                                                 \
    static const struct json_table name = NAMED_TABLE(#name, of, name##_fields)

/* Returns a new object, or NULL if out of host memory. */
json_t *json_table_write(const struct json_table *table, const void *from);
json_t *json_table_write_at(const struct json_table *table, const void *from, uint64_t now_ns);

/*
 * Fills in *to, whose texts point into the JSON and into `memory`, even if it fails. Members that the table does not have are
 * passed over. Errors: CORRUPT (the message names the member; it is absent in *to, and all others are filled in),
 * OUT_OF_MEMORY.
 */
cufence_status json_table_read(const struct json_table *table, const json_t *json, void *to, struct json_memory *memory,
                               struct problem *problem);

/* ---- for the files of this room ---- */

int field_is_wanted(const struct field *field, const void *holder);
/* The field at *index of the table, and moves *index behind it; NULL behind the last one. Of OPEN to CLOSE it makes a part. */
struct group {
    struct field field;
    struct json_table table;
};
const struct field *field_next(const struct json_table *table, size_t *index, struct group *group);

static inline int json_table_is_bare(const struct json_table *table)
{
    return table->count == 1 && !table->fields[0].name && table->fields[0].type != FIELD_PART;
}
