#include "findings.h"

#include <cufence.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA 1

/* Replaces bytes above 127 if the text is not UTF-8, as environment variables and file names may be. */
static json_t *string_of(const char *text)
{
    json_t *string = json_string(text);
    char *plain = string ? NULL : strdup(text);
    for (char *at = plain; at && *at; at++)
        if (*at & 0x80)
            *at = '?';
    if (plain)
        string = json_string(plain);
    free(plain);
    return string;
}

static json_t *finding_object(const struct finding *finding)
{
    static const char *const words[] = {"yes", "no", "missing", "none"};
    const char *name = finding->what + strspn(finding->what, " ");
    json_t *object = json_object();
    json_object_set_new(object, "section", json_string(finding->section));
    json_object_set_new(object, "check", string_of(name));
    json_object_set_new(object, "found", json_string(words[finding->mark]));
    json_object_set_new(object, "detail", string_of(finding->detail));
    if (finding->remedy[0])
        json_object_set_new(object, "remedy", string_of(finding->remedy));
    return object;
}

void findings_print_json(const struct findings *findings)
{
    json_t *document = json_object(), *checks = json_array();
    for (size_t i = 0; i < findings->count; i++)
        json_array_append_new(checks, finding_object(&findings->all[i]));
    json_object_set_new(document, "schema", json_integer(SCHEMA));
    json_object_set_new(document, "cufence", json_string(cufence_version_string()));
    json_object_set_new(document, "can_work", json_boolean(findings_count(findings, FOUND_MISSING) == 0));
    json_object_set_new(document, "checks", checks);
    json_dumpf(document, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(document);
}
