#include "findings.h"
#include "words.h"

#include "base/text.h"

#include <cufence.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SCHEMA 1

enum { FINDING_INDENT = 4 + 1 + 18 + 1 }; /* the columns of the mark and the name */

void findings_section(struct findings *findings, const char *title)
{
    findings->section = title;
    if (!findings->is_json)
        printf("%s%s\n", findings->all ? "\n" : "", title);
}

static void print_finding(enum verdict_mark mark, const char *what, const char *detail, const char *remedy)
{
    static const char *const marks[] = {"yes", "no", "NO", "-"};
    printf("%-4s %-18s ", marks[mark], what);
    words_print(stdout, detail, FINDING_INDENT);
    if (remedy) {
        printf("%-*s-> ", FINDING_INDENT, "");
        words_print(stdout, remedy, FINDING_INDENT + 3);
    }
    fflush(stdout); /* the next check may take long, or end the process */
}

void found(struct findings *findings, enum verdict_mark mark, const char *what, const char *remedy, const char *format, ...)
{
    static const char *const words[] = {"yes", "no", "missing", "none"};
    char detail[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    for (char *at = detail; (at = strpbrk(at, "\r\n")) != NULL;) /* messages of drivers come here too */
        *at = at[1] ? ' ' : '\0';
    if (!findings->all)
        findings->all = json_array();
    findings->count[mark]++;
    json_array_append_new(findings->all, json_pack("{ss ss ss so so*}", "section", findings->section, "check",
                                                   what + strspn(what, " "), "found", words[mark], "detail",
                                                   text_to_json(detail), "remedy", remedy ? text_to_json(remedy) : NULL));
    if (!findings->is_json)
        print_finding(mark, what, detail, remedy);
}

void findings_conclude(const struct findings *findings)
{
    if (findings->is_json) {
        json_t *document = json_pack("{si ss sb sO}", "schema", SCHEMA, "cufence", cufence_version_string(), "can_work",
                                     !findings->count[FOUND_MISSING], "checks", findings->all);
        json_dumpf(document, stdout, JSON_INDENT(1));
        putchar('\n');
        json_decref(document);
    } else if (findings->count[FOUND_MISSING]) {
        printf("\ncufence cannot work here: it lacks what is marked NO.\n");
    } else {
        printf("\ncufence can work here%s.\n", findings->count[FOUND_NO] ? ", with the limits marked no" : "");
    }
}

void findings_free(struct findings *findings)
{
    json_decref(findings->all);
    *findings = (struct findings){0};
}
