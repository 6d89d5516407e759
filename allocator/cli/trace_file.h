/*
 * A trace that is read line by line, and of which lines that were read before can be read again. A trace may be larger than
 * memory; only one line of it is kept. Not thread-safe.
 */
#ifndef CUFENCE_CLI_TRACE_FILE_H
#define CUFENCE_CLI_TRACE_FILE_H

#include "lens/diff/compare.h"

#include <stdio.h>

/* Where an event is. */
struct trace_at {
    uint64_t line; /* from 1; 0: nowhere */
    uint64_t offset;
    uint64_t number; /* in its stream */
};

struct trace_file {
    const char *path;
    FILE *file;
    char *line; /* the latest one read; room for TRACE_LINE_BYTES */
    size_t size;
    uint64_t next; /* offset of the next line */
    uint64_t lines;
    struct trace_header header;
    struct trace_writers *writers; /* of the events read so far */
    int has_ended;                 /* there is no further line */
    int is_whole;                  /* the last line is there: the program has ended in order */
    int is_cut;                    /* it ends in the middle of a line */
    uint64_t missed;               /* events without hashes */
};

/* Opens it and reads its first line. Errors: SYSTEM, CORRUPT, UNSUPPORTED, OUT_OF_MEMORY; the message begins with the file's
 * name. */
cufence_status trace_file_open(struct trace_file *file, const char *path, struct problem *problem);
void trace_file_close(struct trace_file *file); /* also one that could not be opened */

/* Reads the next event into *event, which the caller frees, and says where it is. At the end file->has_ended is set, and there
 * is no event. Errors as above; the message begins with file and line. */
cufence_status trace_file_next(struct trace_file *file, struct trace_event *event, struct trace_at *at,
                               struct problem *problem);

/* Reads an event again. file->line then has its line. */
cufence_status trace_file_again(struct trace_file *file, struct trace_at at, struct trace_event *event,
                                struct problem *problem);

#endif
