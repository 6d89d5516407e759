/*
 * The lines of a report: a prefix, a key, what there is to say, and how sure it is, in a fixed column.
 * Text is kept in memory until report_close(). A failed write shows there and nowhere before. One thread at a time.
 */
#ifndef CUFENCE_FINDING_WRITER_H
#define CUFENCE_FINDING_WRITER_H

#include "analysis/dump/evidence.h"

#include <stdio.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

struct report {
    FILE *out; /* a memory stream over text */
    char *text;
    size_t size;
    size_t line; /* where the current line begins in text */
    int pid;
    int prefix; /* columns that it takes on each line */
};

/* pid: of the program that the report is about, which every line begins with; 0: none does. Returns 0 when the host is out of
 * memory. */
int report_open(struct report *report, int pid);

/* Returns the text, which the caller frees, or NULL when the host is out of memory. */
char *report_close(struct report *report);

/* Starts a line. Either key may be NULL; "" keeps its column free. */
void report_begin(struct report *report, const char *key, const char *subkey);
void report_put(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts a name that comes from the program or from the dump: control characters in it become '?', so that it forges no line. */
void report_put_name(struct report *report, const char *name);

/* "61.9 ms ago ", nothing where the event is later than now. */
void report_put_age(struct report *report, uint64_t now_ns, uint64_t then_ns);

/* Ends the line, with the certainty in its column; CERTAIN_NOT leaves it empty. */
void report_end(struct report *report, enum certainty certainty);

/* Columns that are left on the line. */
int report_room(struct report *report);

/* A whole sentence under a key, on as many lines as it takes. */
void report_sentence(struct report *report, const char *key, const char *text, enum certainty certainty);

/* A number in the form that people read. The arithmetic is on integers: a program's locale must not change a report. */
struct amount {
    char text[48];
};

struct amount amount_in(uint64_t value, uint64_t unit, const char *name); /* "1.5 GiB", "3 ms" */
struct amount amount_of(uint64_t bytes);                                  /* "4000", "64 MiB", "1.2 GiB" */
struct amount age_of(uint64_t ns);                                        /* "61.9 ms", "1.5 min"; "less than 10 ms" */

#endif
