/*
 * The options: one table of name, type, default and help feeds the parser, `cufence options`, the documentation and the tests.
 *
 * Units: sizes in bytes (written with K, M, G, T as powers of 1024), times in milliseconds.
 * Thread safety: none; parsed once at start, only read after that.
 */
#ifndef CUFENCE_BASE_OPTIONS_H
#define CUFENCE_BASE_OPTIONS_H

#include <cufence.h>
#include <stdio.h>

enum option_uaf { UAF_OFF, UAF_STRICT };
enum option_side { SIDE_END, SIDE_START, SIDE_ALTERNATE };
enum option_ipc { IPC_REFUSE, IPC_DRIVER };
enum option_peers { PEERS_AUTO, PEERS_ON, PEERS_OFF };
enum option_on_fault { ON_FAULT_ERROR, ON_FAULT_ABORT, ON_FAULT_CONTINUE };

#define OPTION_ALIGN_AUTO 0u

struct options {
    enum option_uaf uaf;           /* off (default) | strict */
    uint64_t align;                /* auto = OPTION_ALIGN_AUTO, or a power of two from 1 to 2M; default 16 */
    enum option_side side;         /* end (default) | start | alternate */
    enum option_on_fault on_fault; /* error (default) | abort | continue */
    uint64_t max_reports;          /* 1..1000000, default 100: findings that are printed; others are counted */
    uint64_t exitcode;             /* 0..255, default 86: status of a process that would end well after a fault; 0 leaves it */
    uint64_t guard;                /* smallest guard, 2M..64G, default 64M */
    uint64_t guard_max;            /* a guard grows with its buffer up to this, 2M..64G, default 4G */
    uint64_t arena;                /* address space to reserve, 1G..64T, default 64T; halved until the driver agrees */
    uint64_t waste;                /* percent by which a reused mapping may be larger than needed, 0..100, default 12 */
    uint64_t idle_age;             /* ms after which an idle mapping is given back, 0 = never, default 30000 */
    uint64_t idle_max;  /* idle bytes above which the oldest are given back, default 0 = three quarters of the device */
    uint64_t cache_max; /* physical memory kept without a mapping, per device, default 1G */
    uint64_t history;   /* freed buffers remembered, 0..16M, default 65536 */
    uint64_t launches;  /* kernel launches remembered of each context, 0..65536, default 1024; 0 remembers none */
    int stacks;         /* on (default) | off: remember where in Python each buffer was allocated (uaf=strict: and freed) */
    uint64_t exit_wait; /* ms that the end of the process waits for the devices' last faults, default 10000; 0: not */
    int coredump;       /* on (default) | off: arm GPU core dumps */
    enum option_peers peers; /* auto (default): map buffers for the peers that the program gives access to | on: all | off */
    enum option_ipc ipc;     /* refuse (default) | driver: what cuMemAlloc gives under the preload can be exported */
    int quiet;               /* on | off (default): no closing line at the end of the process */
    int verbose;             /* on | off (default): say on stderr what was set up, and statistics at the end */
    char log[256];           /* file for reports beside stderr, "" = stderr only; %p pid, %r rank, %h host */
    char record[256];        /* folder that gets the core dump and the snapshot of each fault, "" = none; the same letters */
    char json[256];          /* file that gets each report as a line of JSON, "" = none; the same letters */
};

enum option_type {
    OPTION_CHOICE, /* an enum: the position of the value in `allowed` */
    OPTION_ALIGN,  /* uint64_t: "auto" = OPTION_ALIGN_AUTO, or a power of two in bytes */
    OPTION_BYTES,  /* uint64_t: digits, then nothing or K, M, G or T, then nothing, B or (behind a letter) iB */
    OPTION_NUMBER, /* uint64_t: digits */
    OPTION_SWITCH, /* int: on = 1, off = 0 */
    OPTION_PATH    /* char[]: a file name for options_expand_path() */
};

/* One row of the table. */
struct option_row {
    const char *name;
    enum option_type type;
    const char *allowed;       /* for people: "off | strict", "2M..64G" */
    const char *default_value; /* as one would write it */
    const char *help;          /* one sentence */
    size_t offset;             /* of the field in struct options */
    uint64_t minimum;          /* ALIGN, BYTES and NUMBER: the limits, both allowed. PATH: maximum = bytes with the NUL */
    uint64_t maximum;
    const char *refused; /* a value that people will try and this version does not have, NULL for none ... */
    const char *refusal; /* ... and the sentence that says so */
};

/* The rows, in the order in which they are printed. *count gets their number. Static. */
const struct option_row *options_table(size_t *count);

/* The row of that name, or else the one that the name is probably a slip of (*is_exact = 0 then); NULL if there is none.
 * `name` needs no NUL. */
const struct option_row *options_find(const char *name, size_t length, int *is_exact);

/* Fills in the defaults. */
void options_default(struct options *options);

/*
 * Parses "key=value,key=value" (NULL or "" is fine; blanks around keys and values are skipped; a trailing comma is allowed;
 * a key may come twice, the last one wins) on top of what *options holds.
 * `source` names the text in messages ("CUFENCE_OPTIONS", "cufence_init").
 * Errors: OPTION: names the source, the key, the value and what is allowed, or for an unknown key the known one that
 * it resembles (where it does) and the list; also guard_max < guard, once all is parsed. *options is unchanged then.
 */
cufence_status options_parse(struct options *options, const char *text, const char *source);

/* Writes the value that *options holds for `row` as one would type it, at most `size` bytes with the NUL. */
void options_format(const struct options *options, const struct option_row *row, char *out, size_t size);

/* Prints the table: name, allowed values, default, help. */
void options_print(FILE *out);

/* Expands %p (process), %r (RANK, else LOCAL_RANK, else 0), %h (host name), %% in a file name.
 * Errors: OPTION (another letter after %), OVERFLOW (longer than `size`). */
cufence_status options_expand_path(const char *pattern, char *out, size_t size);

/* RANK, else LOCAL_RANK, of the environment: of a distributed job; -1 if neither is a number. */
int options_rank(void);

#endif
