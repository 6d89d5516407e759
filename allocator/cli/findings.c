#include "findings.h"

#include <cufence.h>

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA 1

static void print_finding(const struct finding *finding)
{
    static const char *const marks[] = {"yes", "no", "NO", "-"};
    printf("%-4s %-18s %s\n", marks[finding->mark], finding->what, finding->detail);
    if (finding->remedy[0])
        printf("%-4s %-18s -> %s\n", "", "", finding->remedy);
    fflush(stdout); /* what follows may take its time, or end the process */
}

void findings_section(struct findings *findings, const char *title)
{
    findings->section = title;
    if (!findings->is_json)
        printf("%s%s\n", findings->count ? "\n" : "", title);
}

void found(struct findings *findings, enum verdict_mark mark, const char *what, const char *remedy, const char *format, ...)
{
    if (findings->count == findings->capacity) {
        size_t capacity = findings->capacity ? findings->capacity * 2 : 64;
        struct finding *grown = realloc(findings->all, capacity * sizeof *grown);
        if (!grown) {
            fprintf(stderr, "cufence doctor: the host has no memory\n");
            exit(1);
        }
        findings->all = grown;
        findings->capacity = capacity;
    }
    struct finding *finding = &findings->all[findings->count++];
    va_list arguments;
    *finding = (struct finding){.section = findings->section, .mark = mark};
    snprintf(finding->what, sizeof finding->what, "%s", what);
    snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy ? remedy : "");
    va_start(arguments, format);
    vsnprintf(finding->detail, sizeof finding->detail, format, arguments);
    va_end(arguments);
    for (char *at = finding->detail; *at; at++) /* messages of others come here too, and may have several lines */
        if (*at == '\n' || *at == '\r')
            *at = at[1] ? ' ' : '\0';
    if (!findings->is_json)
        print_finding(finding);
}

size_t findings_count(const struct findings *findings, enum verdict_mark mark)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->count; i++)
        count += findings->all[i].mark == mark;
    return count;
}

/* Environment variables and file names may be anything. */
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

static void print_json(const struct findings *findings)
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

void findings_conclude(const struct findings *findings)
{
    size_t missing = findings_count(findings, FOUND_MISSING), limits = findings_count(findings, FOUND_NO);
    if (findings->is_json)
        print_json(findings);
    else if (missing)
        printf("\ncufence cannot work here: it lacks what is marked NO.\n");
    else
        printf("\ncufence can work here%s.\n", limits ? ", with the limits marked no" : "");
}

void findings_free(struct findings *findings)
{
    free(findings->all);
    *findings = (struct findings){0};
}
