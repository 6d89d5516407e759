/* File names with %p, %r and %h in them, the rank that these may contain, and whether they can be written. */
#include "options.h"
#include "env.h"
#include "error.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

cufence_status options_expand_path(const char *pattern, char *out, size_t size)
{
    char process[24], host[256] = "", letter[2] = "";
    size_t used = 0;

    snprintf(process, sizeof process, "%ld", (long)getpid());
    for (const char *at = pattern; *at; at++) {
        const char *piece = letter;
        letter[0] = *at;
        if (*at == '%') {
            switch (*++at) {
            case 'p':
                piece = process;
                break;
            case 'r':
                piece = env_get("RANK") ?: env_get("LOCAL_RANK") ?: "0";
                break;
            case 'h':
                if (gethostname(host, sizeof host - 1))
                    snprintf(host, sizeof host, "localhost");
                piece = host;
                break;
            case '%':
                break;
            default:
                return error_set(CUFENCE_ERROR_OPTION,
                                 "file name '%.200s': '%s' after %% is not allowed; use %%p, %%r, %%h or %%%%", pattern,
                                 *at ? (char[]){iscntrl((unsigned char)*at) ? '?' : *at, '\0'} : "nothing");
            }
        }
        size_t length = strlen(piece);
        if (length >= size - used)
            return error_set(CUFENCE_ERROR_OVERFLOW, "file name '%.200s' is longer than %zu bytes when expanded", pattern,
                             size - 1);
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used] = '\0';
    return CUFENCE_OK;
}

cufence_status options_place_path(const char *pattern, char *out, size_t size)
{
    char folder[PATH_MAX];
    cufence_status status = options_expand_path(pattern, out, size);
    size_t length = status == CUFENCE_OK && *out && *out != '/' && getcwd(folder, sizeof folder) ? strlen(folder) : 0;
    if (length && length + 1 + strlen(out) < size) {
        memmove(out + length + 1, out, strlen(out) + 1);
        memcpy(out, folder, length);
        out[length] = '/';
    }
    return status;
}

static int rank_in(const char *variable)
{
    const char *text = env_get(variable);
    char *end = NULL;
    long rank = text && *text ? strtol(text, &end, 10) : -1;
    return end && !*end && rank >= 0 && rank <= INT_MAX ? (int)rank : -1;
}

int options_rank(void)
{
    int rank = rank_in("RANK");
    return rank >= 0 ? rank : rank_in("LOCAL_RANK");
}

/* ---- whether they can be written ---- */

enum { LONGEST = 1024 };

enum kind {
    KIND_NONE,
    KIND_FILE,   /* in a folder that exists */
    KIND_PARENT, /* a folder that has to exist */
    KIND_FOLDER, /* one that is made, with those in front of it */
};

#define NAMED(option, field, kind)                                                                                             \
    {                                                                                                                          \
        option, offsetof(struct options, field), kind                                                                          \
    }

static const struct named {
    const char *option;
    size_t offset; /* of the name in struct options */
    enum kind kind;
} all_named[] = {
    NAMED("log", log, KIND_FILE),     NAMED("json", json, KIND_FILE),           NAMED("values", values_out, KIND_FILE),
    NAMED("keep", save, KIND_FOLDER), NAMED("save_values", saved, KIND_FOLDER),
};

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

/* Returns 0, or why nothing can be made in a folder. Tries it, as access() lets root write anywhere; without a name where the
 * file system can, so that a process that is killed meanwhile leaves nothing. */
static int try_in(const char *folder)
{
    char made[LONGEST + 32];
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        return close(fd), 0;
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
    if (kind == KIND_FOLDER && !is_there && lstat(path, &found) == 0) /* a link that leads nowhere: no folder can be made */
        return errno;
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

static int check(const struct named *named, const char *value, int is_here, writable_complaint *complain)
{
    char path[LONGEST], sentence[2 * LONGEST];
    enum kind checked = reduce(value, named->kind, is_here, path);
    int error = checked == KIND_NONE ? 0 : judge(path, checked);
    if (!error)
        return 0;
    snprintf(sentence, sizeof sentence, "%s=%s: nothing can be written there: %s: %s; name a %s that can be written",
             named->option, value, path, strerror(error), named->kind == KIND_FILE ? "file" : "folder");
    complain(named->option, sentence);
    return 1;
}

static const char *value_of(const struct options *options, size_t i)
{
    return (const char *)options + all_named[i].offset;
}

/* Lines of two kinds in one file could not be read. A device may be named twice. */
static int check_apart(const struct options *options, size_t i, writable_complaint *complain)
{
    const char *value = value_of(options, i);
    char sentence[2 * LONGEST];
    size_t k = 0;
    while (k < i && strcmp(value_of(options, k), value) != 0)
        k++;
    if (k == i || all_named[i].kind != KIND_FILE || !strncmp(value, "/dev/", 5))
        return 0;
    snprintf(sentence, sizeof sentence, "%s=%s: %s= names that file, too; name another", all_named[i].option, value,
             all_named[k].option);
    complain(all_named[i].option, sentence);
    return 1;
}

int writable_check(const struct options *options, int is_here, writable_complaint *complain)
{
    int count = 0;
    for (size_t i = 0; i < sizeof all_named / sizeof *all_named; i++)
        if (*value_of(options, i))
            count += check(&all_named[i], value_of(options, i), is_here, complain) ?: check_apart(options, i, complain);
    return count;
}
