#include "writable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST = 1024 };

enum kind {
    KIND_NONE,
    KIND_FILE,   /* in a folder that exists */
    KIND_PARENT, /* a folder that has to exist */
    KIND_FOLDER, /* one that is made, with those in front of it */
};

static enum kind kind_of(const struct option_row *row)
{
    if (row->type == OPTION_FILTER_PATH)
        return KIND_FOLDER;
    if (row->type != OPTION_PATH || strstr(row->allowed, "to read"))
        return KIND_NONE;
    return strstr(row->allowed, "folder") ? KIND_FOLDER : KIND_FILE;
}

/* Cuts the last name off; "." is in front of a single one. Returns 0 if there is nothing in front. */
static int cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (!strcmp(path, ".") || !strcmp(path, "/"))
        return 0;
    if (!slash)
        strcpy(path, ".");
    else
        slash[slash == path] = '\0';
    return 1;
}

/* Returns 0, or why nothing can be made in a folder. Tries it, as access() lets root write anywhere. */
static int try_in(const char *folder)
{
    char made[LONGEST + 32];
    snprintf(made, sizeof made, "%s/.cufence-XXXXXX", folder);
    return mkdtemp(made) ? rmdir(made) : errno;
}

/* Returns 0, or why `path` cannot be written. Leaves in `path` what is in the way. */
static int judge(char *path, enum kind kind)
{
    struct stat found;
    int is_there = stat(path, &found) == 0;
    if (is_there && kind == KIND_FILE)
        return S_ISDIR(found.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
    for (int is_next = kind != KIND_PARENT; !is_there && errno == ENOENT && is_next; is_next = kind == KIND_FOLDER) {
        if (!cut(path))
            break;
        is_there = stat(path, &found) == 0;
    }
    if (!is_there)
        return errno;
    return S_ISDIR(found.st_mode) ? try_in(path) : ENOTDIR;
}

/* Leaves in `path` what can be checked of a name, and returns as what. */
static enum kind reduce(const char *name, enum kind kind, int is_here, char path[LONGEST])
{
    if (is_here) /* a bad name is for others to refuse */
        return options_expand_path(name, path, LONGEST) == CUFENCE_OK ? kind : KIND_NONE;
    snprintf(path, LONGEST, "%s", name);
    if (kind == KIND_FILE && strchr(path, '%') && cut(path))
        return strchr(path, '%') ? KIND_NONE : KIND_PARENT;
    while (strchr(path, '%') && cut(path))
        ;
    return kind;
}

static void check(const struct option_row *row, const char *value, int is_here, writable_complaint *complain, int *count)
{
    char path[LONGEST], sentence[2 * LONGEST];
    enum kind kind = kind_of(row);
    const char *name = row->type == OPTION_FILTER_PATH ? strchr(value, '=') + 1 : value;
    enum kind checked = reduce(name, kind, is_here, path);
    int error = checked == KIND_NONE ? 0 : judge(path, checked);
    if (!error)
        return;
    snprintf(sentence, sizeof sentence, "%s=%s: nothing can be written there: %s: %s; name a %s that can be written", row->name,
             value, path, strerror(error), kind == KIND_FILE ? "file" : "folder");
    complain(row, sentence);
    ++*count;
}

int writable_check(const struct options *options, int is_here, writable_complaint *complain)
{
    size_t rows;
    int count = 0;
    const struct option_row *row = options_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        const char *value = (const char *)options + row[i].offset;
        if (kind_of(&row[i]) != KIND_NONE && *value)
            check(&row[i], value, is_here, complain, &count);
    }
    return count;
}
