/*
 * Members of the JSON of a finding. Running out of memory marks the whole report as failed. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_JSON_MEMBERS_H
#define CUFENCE_FINDING_JSON_MEMBERS_H

#include "analysis/dump/evidence.h"
#include "base/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>

struct members {
    json_t *object;
    int *has_failed; /* shared by all objects of a report */
};

/* Takes ownership of the value, which is released on failure. */
static inline int put(struct members to, const char *key, json_t *value)
{
    if (json_object_set_new(to.object, key, value) == 0)
        return 1;
    *to.has_failed = 1;
    return 0;
}

static inline void append(json_t *array, json_t *value, int *has_failed)
{
    if (json_array_append_new(array, value) != 0)
        *has_failed = 1;
}

static inline struct members put_object(struct members to, const char *key)
{
    struct members inner = {json_object(), to.has_failed};
    if (!put(to, key, inner.object))
        inner.object = NULL; /* jansson refuses to add members to NULL, so the failure persists */
    return inner;
}

/* jansson's integers are signed, like those of most readers. No real value is larger. */
static inline void put_number(struct members to, const char *key, uint64_t value)
{
    if (value <= INT64_MAX)
        put(to, key, json_integer((json_int_t)value));
}

static inline void put_true(struct members to, const char *key, int is_true)
{
    if (is_true)
        put(to, key, json_true());
}

static inline void put_hex(struct members to, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "0x%" PRIx64, value);
    put(to, key, json_string(text));
}

static inline void put_text(struct members to, const char *key, const char *text)
{
    if (text && *text)
        put(to, key, text_to_json(text));
}

static inline void put_certainty(struct members to, enum certainty certainty)
{
    static const char *const words[] = {NULL, "candidate", "derived", "re-run", "exact"};
    put_text(to, "certainty", words[certainty]);
}

static inline void put_dim(struct members to, const char *key, const uint32_t dim[3])
{
    json_t *array = json_array();
    for (int i = 0; i < 3; i++)
        append(array, json_integer(dim[i]), to.has_failed);
    put(to, key, array);
}

/* JSON has no NaN and no infinities. */
static inline json_t *real_to_json(double value)
{
    if (value != value)
        return json_string("NaN");
    if (value - value != 0)
        return json_string(value < 0 ? "-Infinity" : "Infinity");
    return json_real(value);
}

/* Returns the object as a line of malloc'ed text, and drops it; NULL if anything has failed. */
static inline char *members_line(struct members from)
{
    char *line = text_of_json(from.object, JSON_COMPACT);
    if (*from.has_failed) {
        free(line);
        return NULL;
    }
    return line;
}

#endif
