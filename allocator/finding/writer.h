/*
 * Writes the lines of a report: a prefix, a key, the text, and the certainty in a fixed column.
 * The text is kept in memory until report_close(), which alone reports a failed write. Thread safety: one thread at a time.
 */
#pragma once

#include "analysis/dump/evidence.h"

#include <stdio.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

struct report {
    FILE *out; /* a memory stream over text */
    char *text;
    size_t size;
    size_t line; /* offset of the current line in text */
    int pid, has_failed;
    int prefix;     /* width of the "==pid== " prefix in columns */
    int is_verbose; /* names of C++ in full; set by the caller, 0 at first */
};

/* pid: of the program that the report is about, printed at the start of every line; 0: no prefix. Returns 0 if out of host
 * memory. */
int report_open(struct report *report, int pid);

/* Returns the text, which the caller frees, or NULL if out of host memory. */
char *report_close(struct report *report);

/* Starts a line. Either key may be NULL; "" leaves its column blank. */
void report_begin(struct report *report, const char *key, const char *subkey);

/* Replaces control characters with '?', so that a name from the program or the dump cannot forge a line. */
void report_put(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "61.9 ms ago ", or nothing if the event is later than now. */
void report_put_age(struct report *report, uint64_t now_ns, uint64_t then_ns);

/* Ends the line with the certainty in its column, blank for CERTAIN_NOT. */
void report_end(struct report *report, enum certainty certainty);

/* Puts the gap, such as ", ", and the text; if there is no room for them, the text gets a line of its own, behind the keys and
 * `indent` blanks, and the certainty stays on the one before. Returns the certainty for report_end(). */
enum certainty report_flow(struct report *report, const char *key, const char *subkey, int indent, const char *gap,
                           const char *text, enum certainty certainty);
/* The same with a comma, under the column of subkey, which may be NULL. */
enum certainty report_put_more(struct report *report, const char *subkey, const char *text, enum certainty certainty);

/* The three at once. */
void report_line(struct report *report, const char *key, const char *subkey, enum certainty certainty, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Returns the columns left on the line. */
int report_room(struct report *report);

/* Puts a sentence under a key, wrapped to as many lines as needed. */
void report_sentence(struct report *report, const char *key, const char *text, enum certainty certainty);

/* A number formatted for people. Uses integer arithmetic: the program's locale must not change a report. */
struct amount {
    char text[48];
};

struct amount amount_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
struct amount amount_in(uint64_t value, uint64_t unit, const char *name); /* "1.5 GiB", "3 ms" */
struct amount amount_of(uint64_t bytes);                                  /* "4000", "64 MiB", "1.2 GiB" */
struct amount bytes_of(uint64_t bytes);                                   /* the same with a unit: "4000 bytes" */
struct amount real_of(double value);                                      /* "2.5", "-1.0e-12", "NaN", "Inf" */
struct amount age_of(uint64_t ns);                                        /* "61.9 ms", "1.5 min"; "less than 10 ms" */
