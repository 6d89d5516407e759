#include "variables.h"
#include "arguments.h"

#include "base/options.h"
#include "base/text.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "CUFENCE_"
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What users set comes first. */
enum { FOR_USERS = 5 };
static const char *const known[] = {"OPTIONS", "DRIVER", "SIM", "LIBRARY", "SOURCES",
                                    /* set by cufence itself */
                                    "COLLECT", "RESTARTED", "PYTEST_WORKER", "TALLY",
                                    /* of ./dev, the build and the tests */
                                    "BUILD", "CUDA_INCLUDE", "PREBUILT", "PYTHONS", "RESULTS", "SANITIZER", "TORTURE_MINUTES",
                                    "YES"};
static const char *const known_families[] = {"FAIL_MALLOC", "TEST_"};

static int is_known(const char *name, size_t length)
{
    for (size_t i = 0; i < COUNT(known); i++)
        if (strlen(known[i]) == length && !memcmp(known[i], name, length))
            return 1;
    for (size_t i = 0; i < COUNT(known_families); i++)
        if (!strncmp(name, known_families[i], strlen(known_families[i])))
            return 1;
    return 0;
}

static const char *nearest(const char *name, size_t length)
{
    const char *found = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < FOR_USERS; i++) {
        size_t edits = text_slip(name, length, known[i]);
        if (edits < best) {
            best = edits;
            found = known[i];
        }
    }
    return found;
}

/* The option that `name` stands for, or is a slip of. */
static const struct option_row *option_of(const char *name, size_t length)
{
    char key[64];
    int is_exact;
    if (length >= sizeof key)
        return NULL;
    for (size_t i = 0; i < length; i++)
        key[i] = (char)tolower((unsigned char)name[i]);
    return options_find(key, length, &is_exact);
}

int variables_judge(const char *entry, struct variable_note *note)
{
    if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0)
        return 0;
    const char *name = entry + strlen(PREFIX), *value = strchr(entry, '=');
    if (!value || is_known(name, (size_t)(value - name)))
        return 0;
    size_t length = (size_t)(value - name);
    const char *variable = nearest(name, length);
    const struct option_row *row = option_of(name, length);
    snprintf(note->what, sizeof note->what, "%.100s: cufence does not read this variable", entry);
    if (variable)
        snprintf(note->remedy, sizeof note->remedy, "write " PREFIX "%s%.100s", variable, value);
    else if (row)
        snprintf(note->remedy, sizeof note->remedy, "write CUFENCE_OPTIONS=%s%.100s", row->name, value);
    else
        snprintf(note->remedy, sizeof note->remedy,
                 "unset it: options go into CUFENCE_OPTIONS=key=value, and `cufence options` lists them");
    for (char *at = note->what; *at; at++)
        if (iscntrl((unsigned char)*at))
            *at = '?';
    for (char *at = note->remedy; *at; at++)
        if (iscntrl((unsigned char)*at))
            *at = '?';
    return 1;
}

void variables_tell(const char *command, char *const *entries)
{
    static int has_told; /* by the only thread */
    struct variable_note note;
    for (; !has_told && *entries; entries++)
        if (variables_judge(*entries, &note))
            arguments_complain(command, 0, "%s; %s", note.what, note.remedy);
    has_told = 1;
}
