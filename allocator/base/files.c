#include "files.h"
#include "env.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST_TEXT ((size_t)16 << 20)

int files_write(int fd, const void *from, size_t size)
{
    const char *bytes = from;
    while (size) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return 0;
        bytes += written;
        size -= (size_t)written;
    }
    return 1;
}

int files_make_folder(const char *folder)
{
    char path[1024];
    if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return 0;
    }
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return 0;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

int files_create(const char *name)
{
    return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

/* A name that is too long is cut, so that no folder has it. */
static const char *folder_of(const char *name, char folder[PATH_MAX])
{
    const char *slash = strrchr(name, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - name) + 1 : 1, slash ? name : ".");
    return folder;
}

/* Whether the link was put there by its folder's owner, by root or by this user. */
static int is_trusted(const char *name)
{
    struct stat link, parent;
    char folder[PATH_MAX];
    if (lstat(name, &link) != 0 || stat(folder_of(name, folder), &parent) != 0)
        return 0;
    return link.st_uid == geteuid() || link.st_uid == 0 || link.st_uid == parent.st_uid;
}

int files_open_named(const char *name, int flags)
{
    flags |= O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int fd = open(name, flags | O_NOFOLLOW, 0666);
    if (fd >= 0 || errno != ELOOP)
        return fd;
    if (!is_trusted(name)) {
        errno = EACCES;
        return -1;
    }
    return open(name, flags, 0666);
}

int files_put(const char *name, const void *head, size_t head_size, const void *bytes, size_t size)
{
    errno = bytes ? 0 : ENOMEM;
    int fd = bytes ? files_create(name) : -1;
    int is_ok = fd >= 0 && files_write(fd, head, head_size) && files_write(fd, bytes, size);
    is_ok = fd >= 0 && close(fd) == 0 && is_ok;
    if (fd >= 0 && !is_ok) {
        int error = errno;
        unlink(name);
        errno = error;
    }
    return is_ok;
}

/* As a stream. A pipe's reader may be about to open it. */
static FILE *open_where_it_is(const char *path)
{
    const struct timespec pause = {0, 50000000};
    int fd = files_open_named(path, O_TRUNC);
    for (int i = 0; fd < 0 && errno == ENXIO && i < 60; i++) {
        nanosleep(&pause, NULL);
        fd = files_open_named(path, 0);
    }
    if (fd < 0 && errno == ENXIO)
        errno = EPIPE;
    if (fd >= 0)
        fcntl(fd, F_SETFL, 0);
    return fd >= 0 ? fdopen(fd, "w") : NULL;
}

int document_open(struct document *document, const char *path)
{
    struct stat found;
    int is_there = stat(path, &found) == 0, fd = -1;
    *document = (struct document){.out = strcmp(path, "-") ? NULL : stdout};
    if (document->out)
        return 1;
    if (!is_there || S_ISREG(found.st_mode)) {
        if (readlink(path, document->name, PATH_MAX) >= 0) { /* what it leads to is made, as by every program */
            if ((fd = files_open_named(path, 0)) < 0)
                return 0;
            is_there = fstat(fd, &found) == 0;
            close(fd);
        }
        if (is_there ? !realpath(path, document->name) || access(path, W_OK) != 0
                     : snprintf(document->name, PATH_MAX, "%s", path) >= PATH_MAX)
            return 0;
        snprintf(document->temporary, sizeof document->temporary, "%s.%d.tmp", document->name, (int)getpid());
        fd = files_open_named(document->temporary, O_TRUNC);
        if (fd >= 0 && is_there)
            (void)!(fchown(fd, found.st_uid, found.st_gid) + fchmod(fd, found.st_mode & 07777)); /* sudo may */
    }
    if (fd < 0) /* who may not make files in the folder may write to this one */
        document->temporary[0] = '\0';
    document->out = fd >= 0 ? fdopen(fd, "w") : open_where_it_is(path);
    return document->out != NULL;
}

int document_close(struct document *document, int is_whole)
{
    int error = ferror(document->out) ? errno : 0; /* what could not be written may be gone */
    errno = 0;
    is_whole = fflush(document->out) == 0 && !ferror(document->out) && is_whole;
    error = errno ? errno : error;
    if (document->out != stdout && fclose(document->out) != 0 && is_whole) {
        is_whole = 0;
        error = errno;
    }
    if (!document->temporary[0] || (is_whole && rename(document->temporary, document->name) == 0)) {
        errno = error;
        return is_whole;
    }
    error = is_whole ? errno : error;
    unlink(document->temporary);
    errno = error;
    return 0;
}

/* Of the file, or of the folder that it would be made in, whose name in it *last is then. */
static int find_named(const char *name, struct stat *found, const char **last)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(name, '/');
    int is_there = stat(name, found) == 0;
    *last = is_there ? "" : slash ? slash + 1 : name;
    return is_there ? S_ISREG(found->st_mode) || S_ISFIFO(found->st_mode) : stat(folder_of(name, folder), found) == 0;
}

int files_are_same(const char *one, const char *other)
{
    struct stat first, second;
    const char *name, *other_name;
    return find_named(one, &first, &name) && find_named(other, &second, &other_name) && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino && !strcmp(name, other_name);
}

int installation_find(const char *file, const char *const *folders, size_t count, const char *name, char path[PATH_MAX])
{
    char candidate[PATH_MAX];
    const char *slash = strrchr(file, '/');
    int own = slash ? (int)(slash + 1 - file) : 0;
    for (size_t i = 0; i < count; i++)
        if (snprintf(candidate, sizeof candidate, "%.*s%s%s", own, file, folders[i], name) < (int)sizeof candidate &&
            realpath(candidate, path))
            return 1;
    path[0] = '\0';
    return 0;
}

int installation_library(const char *file, const char *name, char path[PATH_MAX])
{
    static const char *const folders[] = {
        "", "../lib/", "../lib64/", "../lib/x86_64-linux-gnu/", "../lib/aarch64-linux-gnu/", "../cufence/lib/"};
    return installation_find(file, folders, sizeof folders / sizeof *folders, name, path);
}

FILE *files_open_text(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0)
        fcntl(fd, F_SETFL, 0);
    return fd >= 0 ? fdopen(fd, "r") : NULL;
}

ssize_t files_read_until(FILE *file, char **text, size_t *room, int end)
{
    size_t length = 0;
    int letter;
    while ((letter = getc_unlocked(file)) != EOF) {
        if (length + 1 >= *room) {
            size_t more = *room ? 2 * *room : 4096;
            char *grown = more <= MOST_TEXT ? realloc(*text, more) : NULL;
            if (!grown) {
                errno = more <= MOST_TEXT ? ENOMEM : EFBIG;
                return -1;
            }
            *text = grown;
            *room = more;
        }
        (*text)[length++] = (char)letter;
        if (letter == end)
            break;
    }
    if (letter == EOF && (!length || ferror(file))) {
        errno = ferror(file) ? errno : 0;
        return -1;
    }
    (*text)[length] = '\0';
    return (ssize_t)length;
}

/* ---- source files ---- */

#define LAST_LINE 1000000
#define LARGEST ((off_t)64 << 20) /* bytes: a source file has less */

/* A path may name anything: a pipe would hang, a device may do something. */
static FILE *open_regular(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    FILE *file =
        fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= LARGEST ? fdopen(fd, "r") : NULL;
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/* A compiler that was started in the file's folder keeps the name alone: that is looked for in CUFENCE_SOURCES too. */
static FILE *open_source(const char *path, int line)
{
    char in_folder[4096];
    if (!path || line <= 0 || line > LAST_LINE)
        return NULL;
    FILE *file = open_regular(path);
    const char *folder = file || *path == '/' ? NULL : env_get("CUFENCE_SOURCES");
    if (folder && *folder && snprintf(in_folder, sizeof in_folder, "%s/%s", folder, path) < (int)sizeof in_folder)
        file = open_regular(in_folder);
    return file;
}

/* Whether an open file lies below a folder, links resolved. Everything lies below /: that is none. */
static int is_below(FILE *file, const char *folder)
{
    char link[32], path[PATH_MAX], top[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fileno(file));
    ssize_t length = readlink(link, path, sizeof path - 1);
    size_t size = length > 0 && folder && *folder && realpath(folder, top) ? strlen(top) : 0;
    path[length > 0 ? length : 0] = '\0';
    return size > 1 && !strncmp(path, top, size) && path[size] == '/';
}

static size_t read_lines(FILE *file, int line, struct source_line out[SOURCE_LINES])
{
    const int first = line - SOURCE_LINES / 2, last = line + SOURCE_LINES / 2;
    struct source_line found = {0};
    char *text = NULL;
    size_t room = 0, count = 0;
    while (found.number < last && getline(&text, &room, file) > 0) {
        text[strcspn(text, "\n")] = '\0';
        for (char *tab = text; (tab = strchr(tab, '\t')) != NULL;)
            *tab = ' ';
        for (size_t length = strlen(text); length && strchr(" \r", text[length - 1]);)
            text[--length] = '\0';
        text_format(found.text, sizeof found.text, "%s", text);
        if (++found.number >= first)
            out[count++] = found;
    }
    free(text);
    fclose(file);
    return found.number < line ? 0 : count; /* too short: another file, or another version of it */
}

size_t source_read(const char *path, int line, struct source_line out[SOURCE_LINES])
{
    FILE *file = open_source(path, line);
    return file ? read_lines(file, line, out) : 0;
}

size_t source_read_below(const char *path, int line, struct source_line out[SOURCE_LINES])
{
    FILE *file = open_source(path, line);
    int is_mine = file && (is_below(file, ".") || is_below(file, env_get("CUFENCE_SOURCES")));
    size_t count = is_mine ? read_lines(file, line, out) : 0;
    if (file && !is_mine)
        fclose(file);
    errno = file && !is_mine ? EXDEV : 0;
    return count;
}
