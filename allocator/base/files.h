/*
 * Folders and files that are kept for the user. Those that cufence names are open to their owner alone, and none is
 * overwritten. And files that are there: of the installation, and of the program's source.
 *
 * Thread safety: all functions, any thread.
 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* Makes the folder and its parents. Returns 0 on failure and sets errno. */
int files_make_folder(const char *folder);

/* Creates a file for writing, 0600. Returns its descriptor, or -1 and sets errno, if the name is taken too. */
int files_create(const char *name);

/* Opens or creates a file that the user has named, for writing. `flags` come on top: O_APPEND. Never waits for a FIFO's reader.
 * A link that another user has put there is not followed, except for root's, such as /dev/stderr, and the folder's owner's: in
 * a folder that all may write to, it would choose which of our files is written. Returns the descriptor, or -1 and sets errno.
 */
int files_open_named(const char *name, int flags);

/* Returns 0 on failure and sets errno. */
int files_write(int fd, const void *bytes, size_t size);

/* Creates a file with these bytes. NULL: the host has no memory for them. Returns 0 on failure and sets errno. */
int files_put(const char *name, const void *head, size_t head_size, const void *bytes, size_t size);

/* A file that the user has named, and that another may have now: it is replaced when the new one is whole. */
struct document {
    FILE *out;
    char name[PATH_MAX], temporary[PATH_MAX + 32]; /* "": it is written where it is */
};

/* "-" is standard output; a pipe or device is written to as it is. Links are followed as files_open_named() follows them.
 * Returns 0 on failure and sets errno: EPIPE for a pipe that nobody has opened to read within 3 seconds. */
int document_open(struct document *document, const char *path);

/* Not whole: the file stays as it was. Returns 0 if it is not whole, or cannot be written, and sets errno (0: the caller's own
 * failure). */
int document_close(struct document *document, int is_whole);

/* Whether two names are those of one file or pipe, or of one that would be made; devices never count. */
int files_are_same(const char *one, const char *other);

/* Finds files of an installation from where one of them lies. Looks for `name` in folders relative to that of `file`; each ends
 * with a slash or is "". `path` gets the real path of the first that exists. Returns 0 if there is none. */
int installation_find(const char *file, const char *const *folders, size_t count, const char *name, char path[PATH_MAX]);

/* The same for a library of the installation that `file`, a program or a library, belongs to. */
int installation_library(const char *file, const char *name, char path[PATH_MAX]);

/* Opens a file of text that the user has named. Never waits for a FIFO's writer, but reads what a pipe has. Returns NULL and
 * sets errno. */
FILE *files_open_text(const char *name);

/* Like getdelim(), but takes at most 16 MiB: no text of cufence's has more between two ends. Returns -1 at the end,
 * with errno 0, and on errors: EFBIG if there is more. */
ssize_t files_read_until(FILE *file, char **text, size_t *room, int end);

/* ---- the lines of a source file around one of them, for people to read ---- */

#define SOURCE_LINES 3

struct source_line {
    int number;     /* from 1 */
    char text[160]; /* without its newline, cut to fit; tabs are blanks */
};

/* Reads line `line` and its neighbours. Returns how many there are; 0 if the file is no regular one, cannot be read, or has no
 * such line. `path` may be NULL; a relative one is also looked for in the folder that CUFENCE_SOURCES names. */
size_t source_read(const char *path, int line, struct source_line out[SOURCE_LINES]);

/* The same for a path that a stranger may have chosen: of files below the current folder or that of CUFENCE_SOURCES, links
 * resolved. Sets errno: EXDEV for a file that is elsewhere, else anything. */
size_t source_read_below(const char *path, int line, struct source_line out[SOURCE_LINES]);
