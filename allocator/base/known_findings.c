#include "known_findings.h"

#include "error.h"
#include "files.h"
#include "list.h"
#include "options.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN "pattern:"
#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* some editors on Windows put it in front */
#define KEY "\"finding_name\""         /* in docs/finding.schema.json */

const char *const known_words[] = {NULL, "suppressed", "baseline"};

/* Takes the text. */
static int add(struct known_names *names, char *text, enum known as)
{
    if (!text || !list_make_room(&names->all, names->count, sizeof *names->all)) {
        free(text);
        return 0;
    }
    names->all[names->count++] = (struct known_name){text, as};
    return 1;
}

static cufence_status no_memory(void)
{
    return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
}

/* Stores the letter whose \uXXXX `at` is behind the u of, in UTF-8: jansson writes few so, others all but ASCII, in two halves
 * beyond U+FFFF. Returns what follows. */
static const char *put_letter(const char *at, char **to)
{
    static const unsigned heads[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned letter = 0, low = 0;
    sscanf(at, "%4x", &letter);
    at += strnlen(at, 4);
    if (letter >> 10 == 0xd800 >> 10 && sscanf(at, "\\u%4x", &low) == 1 && low >> 10 == 0xdc00 >> 10) {
        letter = 0x10000 + ((letter & 0x3ff) << 10 | (low & 0x3ff));
        at += strnlen(at, 6);
    }
    int rest = (letter > 0x7f) + (letter > 0x7ff) + (letter > 0xffff);
    *(*to)++ = (char)(heads[rest] | letter >> 6 * rest);
    while (rest--)
        *(*to)++ = (char)(0x80 | (letter >> 6 * rest & 0x3f));
    return at;
}

/* Copies the text up to the closing quote. A name has no control characters. */
static char *unquoted(const char *at)
{
    size_t length = 0;
    while (at[length] && at[length] != '"')
        length += at[length] == '\\' && at[length + 1] ? 2 : 1;
    char *copy = strndup(at, length), *to = copy;
    for (at = copy; copy && *at;) {
        int is_escaped = *at == '\\' && at[1];
        at += is_escaped;
        if (is_escaped && *at == 'u')
            at = put_letter(at + 1, &to);
        else
            *to++ = *at++;
    }
    if (copy)
        *to = '\0';
    return copy;
}

/* The library is linked without a parser of JSON. A key in quotes can't be part of a text, where quotes are escaped. */
static cufence_status take_names(struct known_names *names, const char *text, const char *path)
{
    size_t before = names->count;
    names->has_run = 1;
    for (const char *at = text; (at = strstr(at, KEY)) != NULL;) {
        at += strlen(KEY);
        at += strspn(at, ": \t\r\n");
        if (*at == '"' && !add(names, unquoted(at + 1), KNOWN_BASELINE))
            return no_memory();
    }
    if (!strstr(text, "\"cufence\""))
        return error_set(CUFENCE_ERROR_OPTION, "%s: it has no line of JSON that cufence wrote", path);
    if (names->count == before && strstr(text, "\"headline\""))
        return error_set(CUFENCE_ERROR_OPTION,
                         "%s: its findings have no names, because an older cufence wrote it; make a new one", path);
    return CUFENCE_OK;
}

/* A line of names at a time, up to the first that is JSON: all that follows is findings. */
static cufence_status read_lines(struct known_names *names, char *text, const char *path)
{
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *start = line + strspn(line, " \t");
        size_t length = strlen(start);
        if (*start == '{') {
            if (next)
                next[-1] = '\n';
            return take_names(names, start, path);
        }
        while (length && strchr(" \t\r", start[length - 1]))
            start[--length] = '\0';
        if (*start && *start != '#' && !add(names, strdup(start), KNOWN_SUPPRESSED))
            return no_memory();
    }
    return CUFENCE_OK;
}

static cufence_status zero_byte(const char *text, const char *path)
{
    size_t line = 1;
    for (; *text; text++)
        line += *text == '\n';
    return error_set(CUFENCE_ERROR_OPTION, "%s: a zero byte is in line %zu; it must be a text file", path, line);
}

cufence_status known_read(struct known_names *names, const char *path)
{
    FILE *file = files_open_text(path);
    char *text = NULL;
    size_t capacity = 0;
    if (!file)
        return error_set(CUFENCE_ERROR_OPTION, "%s: %s", path, strerror(errno));
    cufence_status status = CUFENCE_OK;
    ssize_t length = files_read_until(file, &text, &capacity, '\0');
    if (length < 0 && errno)
        status = error_set(CUFENCE_ERROR_OPTION, "%s: %s", path,
                           errno == EFBIG ? "it has more than 16 MiB; list the names of the findings" : strerror(errno));
    else if (length > 0 && !text[length - 1])
        status = zero_byte(text, path);
    else if (length > 0)
        status = read_lines(names, text + (strncmp(text, BYTE_ORDER_MARK, 3) ? 0 : 3), path);
    free(text);
    fclose(file);
    return status;
}

cufence_status known_read_option(struct known_names *names, const char *value)
{
    char path[PATH_MAX];
    return !*value ? CUFENCE_OK : options_expand_path(value, path, sizeof path) ?: known_read(names, path);
}

enum known known_as(const struct known_names *names, const char *name)
{
    for (size_t i = 0; name && *name && i < names->count; i++) {
        const struct known_name *known = &names->all[i];
        int is_pattern = known->as == KNOWN_SUPPRESSED && !strncmp(known->text, PATTERN, strlen(PATTERN));
        const char *pattern = known->text + strlen(PATTERN);
        if (is_pattern ? !fnmatch(pattern + strspn(pattern, " \t"), name, 0) : !strcmp(known->text, name))
            return known->as;
    }
    return KNOWN_NOT;
}

void known_free(struct known_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->all[i].text);
    free(names->all);
    *names = (struct known_names){0};
}
