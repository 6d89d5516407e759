/* What the doctor has found. */
#include "doctor.h"
#include "words.h"

#include "base/text.h"

#include <cufence.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA 1

enum { FINDING_INDENT = 4 + 1 + 18 + 1 }; /* the columns of the mark and the name */

static const char *const words[] = {"yes", "no", "missing", "none"}, *const marks[] = {"yes", "no", "NO", "-"};

void findings_section(struct findings *findings, const char *title)
{
    findings->section = title;
    if (!findings->is_json)
        printf("%s%s\n", findings->all ? "\n" : "", title);
}

void found(struct findings *findings, enum verdict_mark mark, const char *what, const char *remedy, const char *format, ...)
{
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
    if (findings->is_json)
        return;
    printf("%-4s %-18s ", marks[mark], what);
    words_print(stdout, detail, FINDING_INDENT);
    if (remedy) {
        printf("%-*s-> ", FINDING_INDENT, "");
        words_print(stdout, remedy, FINDING_INDENT + 3);
    }
    fflush(stdout); /* the next check may take long, or end the process */
}

void ask(struct findings *findings, const char *what, const char *format, ...)
{
    char said[16384] = "", *command = NULL, *answer;
    va_list arguments;
    json_t *check, *all = NULL;
    size_t i;
    va_start(arguments, format);
    FILE *out = vasprintf(&command, format, arguments) >= 0 ? popen(command, "re") : NULL;
    va_end(arguments);
    said[out ? fread(said, 1, sizeof said - 1, out) : 0] = '\0';
    int status = out ? pclose(out) : -1;
    if ((answer = strstr(said, "[{")) && (all = json_loads(answer, JSON_DISABLE_EOF_CHECK, NULL)))
        *answer = '\0';
    if (!all || *said)
        found(findings, FOUND_NO, what, NULL, "%s (status 0x%x): %.400s", all ? "it has said" : "it does not answer",
              (unsigned)status, said);
    json_array_foreach(all, i, check)
    {
        const char *name = "", *word = "", *detail = "", *remedy = NULL;
        int mark = FOUND_MARKS;
        json_unpack(check, "{ss ss ss s?s}", "check", &name, "found", &word, "detail", &detail, "remedy", &remedy);
        while (--mark > FOUND_YES && strcmp(words[mark], word) != 0)
            ;
        found(findings, (enum verdict_mark)mark, name, remedy, "%s", detail);
    }
    json_decref(all);
    free(command);
}

void findings_conclude(const struct findings *findings)
{
    if (findings->is_json)
        text_put_json(stdout,
                      json_pack("{si ss sb sO}", "schema", SCHEMA, "cufence", cufence_version_string(), "can_work",
                                !findings->count[FOUND_MISSING], "checks", findings->all),
                      JSON_INDENT(1));
    else if (findings->count[FOUND_MISSING])
        printf("\ncufence cannot work here: it lacks what is marked NO.\n");
    else
        printf("\ncufence can work here%s.\n", findings->count[FOUND_NO] ? ", with the limits marked no" : "");
}
