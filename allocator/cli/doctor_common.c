/* What the sections of `cufence doctor` have in common. */
#include "doctor.h"

#include "arguments.h"
#include "child.h"
#include "words.h"

#include "base/text.h"

#include <cufence.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- what was found ---- */

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

void findings_free(struct findings *findings)
{
    json_decref(findings->all);
    *findings = (struct findings){0};
}

/* ---- a program that is asked ---- */

struct start {
    const char *const *argv, *const *changes;
    int out, error;
};

static int become(void *argument)
{
    const struct start *start = argument;
    for (const char *const *change = start->changes; *change; change++) {
        if (strchr(*change, '='))
            putenv((char *)*change);
        else
            unsetenv(*change);
    }
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(start->out, STDOUT_FILENO);
    dup2(start->error, STDERR_FILENO);
    execvp(start->argv[0], (char *const *)start->argv);
    dprintf(STDERR_FILENO, "%s", strerror(errno));
    return STATUS_MISSING;
}

static void read_back(int file, char *text, size_t size)
{
    ssize_t got = pread(file, text, size - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    close(file);
}

void child_run(const char *const argv[], const char *const changes[], unsigned seconds, struct child *child)
{
    struct start start = {argv, changes, memfd_create("out", MFD_CLOEXEC), memfd_create("error", MFD_CLOEXEC)};
    int refusal;
    *child = (struct child){0};
    child->is_started = child_start("doctor", become, &start, 1, &refusal) > 0;
    child->is_timed_out = child->is_started && !child_wait(seconds * 1000, &child->status);
    if (child->is_timed_out) {
        child_kill(SIGKILL);
        child_wait(seconds * 1000, &child->status);
    }
    read_back(start.out, child->out, sizeof child->out);
    read_back(start.error, child->error, sizeof child->error);
}
