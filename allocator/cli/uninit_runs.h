/*
 * `cufence hunt --uninit`: what two runs did, stream by stream, and where they part. Both files are read once, side by side; of
 * an event that waits for its counterpart only the place in the file is kept. Not thread-safe.
 */
#pragma once

#include "lens/fills/compare.h"

#include <stdio.h>

/* ---- uninit_file.c: what a run did, read line by line; lines that were read before can be read again. The file may be
 * larger than memory; only one line of it is kept. ---- */

/* Where an event is. */
struct seen_at {
    uint64_t line; /* from 1; 0: nowhere */
    uint64_t offset;
    uint64_t number; /* in its stream */
};

struct seen_file {
    const char *path;
    FILE *file;
    char *line; /* the latest one read; room for SEEN_LINE_BYTES */
    size_t size;
    uint64_t next; /* offset of the next line */
    uint64_t lines;
    struct seen_header header;
    struct seen_writers *writers; /* of the events read so far */
    int has_ended;                /* there is no further line */
    uint64_t missed;              /* events without hashes */
};

/* Opens it and reads its first line. Errors: SYSTEM, CORRUPT, UNSUPPORTED, OUT_OF_MEMORY; the message begins with the file's
 * name. */
cufence_status seen_file_open(struct seen_file *file, const char *path, struct problem *problem);
void seen_file_close(struct seen_file *file); /* also one that could not be opened */

/* Reads the next event into *event, which the caller frees, and says where it is. At the end file->has_ended is set, and there
 * is no event. Errors as above; the message begins with file and line. */
cufence_status seen_file_next(struct seen_file *file, struct seen_event *event, struct seen_at *at, struct problem *problem);

/* Reads an event again. */
cufence_status seen_file_again(struct seen_file *file, struct seen_at at, struct seen_event *event, struct problem *problem);

/* ---- uninit_streams.c ---- */

enum { DIFF_A, DIFF_B, DIFF_SIDES };

struct diff_found {
    struct seen_difference what;
    uint64_t stream;
    uint64_t launch;                   /* number of the first run's launch in its process; 0: it is none */
    int has_fresh;                     /* of two fills: it was given bytes that nobody had written */
    struct seen_at at[DIFF_SIDES];     /* line 0: the run has no such event */
    struct seen_at copied[DIFF_SIDES]; /* of two fills: the last copy to the host before it with bytes that
                                           nobody had written; line 0: none */
};

struct diff {
    struct seen_file files[DIFF_SIDES];
    unsigned how;                      /* SEEN_TWO_FILLS or 0 */
    struct seen_at copied[DIFF_SIDES]; /* as in struct diff_found, so far */
    size_t most;                       /* how many differences are wanted */
    struct diff_found *found;          /* the first `most`, in the order of file A */
    size_t found_count;
    uint64_t total; /* differences found, those beyond `most` included */
    struct diff_stream *streams;
    size_t stream_count;
    int has_stopped; /* before the files' ends: enough was found */
};

/* Opens both files. `diff` has only `most` set. Call diff_close() even after an error. */
cufence_status diff_open(struct diff *diff, const char *a, const char *b, struct problem *problem);
cufence_status diff_compare(struct diff *diff, struct problem *problem);
void diff_close(struct diff *diff);

/* A difference with its events read again, to be shown. Missing ones are zeros. */
struct diff_shown {
    const struct diff_found *found;
    struct seen_event events[DIFF_SIDES];
};
cufence_status diff_show(struct diff *diff, const struct diff_found *found, struct diff_shown *shown, struct problem *problem);
void diff_hide(struct diff_shown *shown);

extern const char *const diff_kinds[SEEN_DIFFERENCES]; /* "equal inputs and other outputs" */
