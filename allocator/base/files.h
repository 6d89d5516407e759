/*
 * Folders and files that are kept for the user. Those that cufence names are open to their owner alone, and none is
 * overwritten. Thread safety: all functions, any thread.
 */
#ifndef CUFENCE_BASE_FILES_H
#define CUFENCE_BASE_FILES_H

#include <stddef.h>

/* Makes the folder and its parents. Returns 0 on failure and sets errno. */
int files_make_folder(const char *folder);

/* Creates a file for writing, 0600. Returns its descriptor, or -1 and sets errno, if the name is taken too. */
int files_create(const char *name);

/* Opens or creates a file that the user has named, for writing. `flags` come on top: O_APPEND. Never waits for a FIFO's reader.
 * A link that another user has put there is not followed, except for root's, such as /dev/stderr, and the folder's owner's: in
 * a folder that all may write to, it would choose which of our files is written. Returns the descriptor, or -1 and sets errno.
 */
int files_open_named(const char *name, int flags);

/* Return 0 on failure and set errno; the second one closes the descriptor. */
int files_write(int fd, const void *bytes, size_t size);
int files_put_text(int fd, const char *text);

#endif
