#include "sanitizer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a place: "f(int)+0x80 in /src/k.cu:12", "0x80 in f(int)", "0x80 in /src/k.cu:12:f(int)" ---- */

static void set_text(char *out, size_t size, const char *from, size_t length)
{
    snprintf(out, size, "%.*s", (int)(length < size ? length : size - 1), from);
}

/* "/src/k.cu:12", also with ":f(int)" behind it. Returns 0 if it is no such thing. */
static int take_file(const char *text, struct sanitizer_error *error)
{
    const char *colon = NULL, *end = NULL;
    for (const char *at = strchr(text, ':'); at && !colon; at = strchr(at + 1, ':')) {
        size_t digits = strspn(at + 1, "0123456789");
        end = at + 1 + digits;
        if (at > text && digits && digits < 10 && (!*end || (*end == ':' && end[1] != ':')))
            colon = at;
    }
    if (!colon)
        return 0;
    set_text(error->file, sizeof error->file, text, (size_t)(colon - text));
    error->line = atoi(colon + 1);
    if (*end)
        snprintf(error->function, sizeof error->function, "%s", end + 1);
    return 1;
}

static void take_place(const char *text, struct sanitizer_error *error)
{
    const char *plus = NULL, *in;
    char *end;
    if (!strncmp(text, "0x", 2)) {
        error->offset = strtoull(text, &end, 16);
        if (strncmp(end, " in ", 4) != 0)
            return;
        if (!take_file(end + 4, error))
            snprintf(error->function, sizeof error->function, "%s", end + 4);
        return;
    }
    for (const char *at = strstr(text, "+0x"); at; at = strstr(at + 1, "+0x"))
        plus = at;
    if (!plus)
        return;
    set_text(error->function, sizeof error->function, text, (size_t)(plus - text));
    error->offset = strtoull(plus + 1, &end, 16);
    in = strncmp(end, " in ", 4) ? NULL : end + 4;
    if (in)
        take_file(in, error);
}

/* ---- lines ---- */

static int begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* Adds to the error's words. */
static void add(struct sanitizer_error *error, const char *text)
{
    size_t used = strlen(error->text);
    snprintf(error->text + used, sizeof error->text - used, "%s%s", used ? ", " : "", text);
}

/* "1 error", "3 hazards displayed (2 errors, 1 warning)" */
static int take_summary(const char *text, struct sanitizer_output *out)
{
    const char *summary = strstr(text, " SUMMARY: ");
    if (!summary || begins(text, "LEAK"))
        return 0;
    out->has_summary = 1;
    out->summary = strtoull(summary + strlen(" SUMMARY: "), NULL, 10);
    return 1;
}

static int is_same(const struct sanitizer_error *a, const struct sanitizer_error *b)
{
    return a->offset == b->offset && a->line == b->line && !strcmp(a->file, b->file) && !strcmp(a->function, b->function);
}

/* The error is complete. One at a place that is listed already counts there. */
static void keep(struct sanitizer_output *out, struct sanitizer_error *error)
{
    int is_of_code = error->offset != UINT64_MAX || error->file[0];
    size_t i = 0;
    if (error->text[0] && !is_of_code)
        set_text(out->other, sizeof out->other, error->text, strlen(error->text));
    while (is_of_code && i < out->count && !is_same(&out->errors[i], error))
        i++;
    out->read += (uint64_t)is_of_code;
    if (is_of_code && i < out->count)
        out->errors[i].times++;
    else if (is_of_code && i < SANITIZER_ERRORS)
        out->errors[out->count++] = *error;
    *error = (struct sanitizer_error){.offset = UINT64_MAX, .times = 1};
}

static void take_header(const char *text, struct sanitizer_output *out, struct sanitizer_error *error)
{
    static const char access[] = "access at "; /* a race's first place is in its first line */
    char place[sizeof error->text];
    keep(out, error);
    if (!*text || begins(text, "COMPUTE-SANITIZER") || take_summary(text, out))
        return;
    add(error, text);
    const char *at = begins(text, "Error: Race") || begins(text, "Warning: Race") ? strstr(text, access) : NULL;
    if (!at)
        return;
    snprintf(place, sizeof place, "%s", at + strlen(access));
    char *hazards = strstr(place, " [");
    if (hazards && strstr(hazards, "hazard"))
        *hazards = '\0';
    take_place(place, error);
}

static void take_detail(const char *text, struct sanitizer_error *error)
{
    if (!error->text[0] || begins(text, "Host Frame") || begins(text, "Device Frame") || begins(text, "Saved host backtrace") ||
        begins(text, "in "))
        return;
    if (begins(text, "at ") && error->offset == UINT64_MAX && !error->file[0])
        take_place(text + 3, error);
    if (sscanf(text, "by thread (%u,%u,%u) in block (%u,%u,%u)", &error->thread[0], &error->thread[1], &error->thread[2],
               &error->block[0], &error->block[1], &error->block[2]) == 6)
        error->has_thread = 1;
    add(error, text);
}

static void take_line(char *line, struct sanitizer_output *out, struct sanitizer_error *error)
{
    size_t marks = strspn(line, "=");
    for (char *at = line; *at; at++)
        *at = iscntrl((unsigned char)*at) ? ' ' : *at;
    for (size_t end = strlen(line); end && line[end - 1] == ' ';)
        line[--end] = '\0';
    size_t blanks = strspn(line + marks, " ");
    if (marks < 8 && line[0] && !begins(line, "cufence replay: the launch ")) /* how its outputs compare */
        set_text(out->said, sizeof out->said, line, strlen(line));
    if (marks < 8)
        return;
    if (blanks > 1)
        take_detail(line + marks + blanks, error);
    else
        take_header(line + marks + blanks, out, error);
}

void sanitizer_read(const char *text, size_t size, struct sanitizer_output *out)
{
    char line[4096];
    struct sanitizer_error error = {.offset = UINT64_MAX, .times = 1};
    memset(out, 0, sizeof *out);
    while (size) {
        const char *end = memchr(text, '\n', size);
        size_t length = end ? (size_t)(end - text) : size;
        set_text(line, sizeof line, text, length);
        take_line(line, out, &error);
        text += length + (end != NULL);
        size -= length + (end != NULL);
    }
    keep(out, &error);
}
