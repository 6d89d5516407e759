#include "findings.h"
#include "words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINDING_INDENT = 4 + 1 + 18 + 1 }; /* the columns of the mark and the name */

static void print_finding(const struct finding *finding)
{
    static const char *const marks[] = {"yes", "no", "NO", "-"};
    printf("%-4s %-18s ", marks[finding->mark], finding->what);
    words_print(stdout, finding->detail, FINDING_INDENT);
    if (finding->remedy[0]) {
        printf("%-*s-> ", FINDING_INDENT, "");
        words_print(stdout, finding->remedy, FINDING_INDENT + 3);
    }
    fflush(stdout); /* the next check may take long, or end the process */
}

void findings_section(struct findings *findings, const char *title)
{
    findings->section = title;
    if (!findings->is_json)
        printf("%s%s\n", findings->count ? "\n" : "", title);
}

static struct finding *new_finding(struct findings *findings)
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
    return &findings->all[findings->count++];
}

/* Messages of drivers and other libraries come here too, and may have several lines. */
static void join_lines(char *text)
{
    for (; *text; text++)
        if (*text == '\n' || *text == '\r')
            *text = text[1] ? ' ' : '\0';
}

void found(struct findings *findings, enum verdict_mark mark, const char *what, const char *remedy, const char *format, ...)
{
    va_list arguments;
    struct finding *finding = new_finding(findings);
    va_start(arguments, format);
    vsnprintf(finding->detail, sizeof finding->detail, format, arguments);
    va_end(arguments);
    finding->section = findings->section;
    finding->mark = mark;
    snprintf(finding->what, sizeof finding->what, "%s", what);
    snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy ? remedy : "");
    join_lines(finding->detail);
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

void findings_conclude(const struct findings *findings)
{
    size_t missing = findings_count(findings, FOUND_MISSING), limits = findings_count(findings, FOUND_NO);
    if (findings->is_json)
        findings_print_json(findings);
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
