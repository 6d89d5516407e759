/*
 * The lines of a source file around one of them, for people to read. Thread safety: any thread.
 */
#ifndef CUFENCE_BASE_SOURCE_H
#define CUFENCE_BASE_SOURCE_H

#include <stddef.h>

#define SOURCE_LINES 3

struct source_line {
    int number;     /* from 1 */
    char text[160]; /* without its newline, cut to fit; tabs are blanks */
};

/* Reads line `line` and its neighbours. Returns how many there are; 0 if the file is no regular one, cannot be read, or has no
 * such line. `path` may be NULL; a relative one is also looked for in the folder that CUFENCE_SOURCES names. */
size_t source_read(const char *path, int line, struct source_line out[SOURCE_LINES]);

#endif
