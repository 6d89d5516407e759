/*
 * The options: one table of name, type, default and help feeds the parser, `cufence options`, the documentation and the tests.
 *
 * Units: sizes in bytes (written with K, M, G, T as powers of 1024), times in milliseconds.
 * Thread safety: none; parsed once at start, read-only afterwards.
 */
#pragma once

#include <cufence.h>
#include <stdio.h>

enum option_uaf { UAF_OFF, UAF_ADAPTIVE, UAF_STRICT };
enum option_stacks { STACKS_ON, STACKS_PYTHON, STACKS_OFF };
enum option_streams { STREAMS_OFF, STREAMS_ON, STREAMS_HOST };
enum option_side { SIDE_END, SIDE_START, SIDE_ALTERNATE };
enum option_ipc { IPC_REFUSE, IPC_DRIVER };
enum option_peers { PEERS_AUTO, PEERS_ON, PEERS_OFF };
enum option_explain { EXPLAIN_AUTO, EXPLAIN_OFF, EXPLAIN_DUMP, EXPLAIN_RERUN };
enum { FILL_OFF = 256 }; /* fill, poison: other values are the byte */
enum option_small { SMALL_AUTO, SMALL_MAP, SMALL_PACK };
enum option_say { SAY_NORMAL, SAY_QUIET, SAY_VERBOSE };
enum option_nan { NAN_OFF, NAN_REPORT, NAN_STOP, NAN_REPORT_INF, NAN_STOP_INF }; /* INF: infinities too */
enum option_on_fault { ON_FAULT_ERROR, ON_FAULT_ABORT, ON_FAULT_CONTINUE };

#define OPTION_ALIGN_AUTO 0u

struct options {
    enum option_uaf uaf;           /* off | adaptive (default) | strict */
    uint64_t align;                /* auto = OPTION_ALIGN_AUTO, or a power of two from 1 to 2M; default 16 */
    enum option_side side;         /* end (default) | start | alternate */
    enum option_on_fault on_fault; /* error (default) | abort | continue */
    int slack;                     /* on (default) | off: watch the bytes around buffers with a pattern */
    uint64_t fill;                 /* the byte that fresh buffers are filled with, FILL_OFF (default): none */
    uint64_t poison;               /* the same for freed buffers */
    uint64_t exitcode;             /* 0..255, default 86: exit status after a fault, instead of 0; 0: leave it unchanged */
    uint64_t guard;                /* minimum size of a guard, 2M..64G, default 64M */
    uint64_t guard_max;            /* maximum size of a guard, which grows with its buffer, 2M..64G, default 4G */
    uint64_t history;              /* freed buffers to remember, 0..16M, default 65536 */
    uint64_t launches;             /* launches to remember per thread and context, 0..65536, default 4096; 0: none */
    enum option_stacks stacks;   /* on (default) | python | off: record the stack of each allocation, and of frees that unmap */
    enum option_streams streams; /* off (default) | on | on+host: find buffers that are freed or written while in use */
    uint64_t exit_wait;          /* max wait at exit for pending GPU work, in ms, default 1000; 0: no wait */
    enum option_explain explain; /* auto (default): dump, and rerun but on the simulated device | off | dump: arm GPU core dumps
                                    | rerun: also launch a faulted kernel again */
    uint64_t rerun_ms;           /* 100..600000, default 10000: the most that a report waits for that */
    uint64_t stuck;              /* 0..86400, default 0: end and report kernels, seconds after the last launch; 0: never */
    enum option_peers peers; /* auto (default): map buffers for peers that the program gives access to | on: all | off: none */
    enum option_ipc ipc;     /* refuse (default) | driver: under the preload library, memory of cuMemAlloc can be exported */
    char skip[256];          /* filter.h: do not guard these */
    uint64_t min_size;       /* bytes of the smallest buffer to guard, default 0: skip=smaller:BYTES */
    enum option_small small; /* auto (default) | map | pack: small buffers share pages */
    int leaks;               /* on | off (default): what is live at exit is a finding */
    enum option_say say;     /* normal (default) | quiet: no summary line at exit | verbose: print the setup, and statistics at
                                exit, to stderr */
    char log[256];           /* file for reports besides stderr, "" = stderr only; %p pid, %r rank, %h host */
    char save[256];          /* keep: folder for a bundle of each fault, "" = none; %p, %r, %h */
    uint64_t save_max;       /* bytes of buffers in a bundle of a fault, default 4G */
    char known[256];         /* file of findings that are not reported (known_findings.h), "" = none */
    char json[256];          /* file for reports as lines of JSON, "" = none; %p, %r, %h */
    char save_values[256];   /* filter.h: launches whose inputs and outputs are kept, "" = none */
    char saved[256];         /* folder for them; %p, %r, %h */
    uint64_t saves_max;      /* bytes of buffers that save_values keeps in all, default 4G */
    uint64_t save_replay;    /* launches of each kernel that are kept for `cufence replay`, too, default 4 */
    uint64_t every;          /* 1..1000000, default 1: with nan look at one launch of each kernel in so many */
    char values[256];        /* filter.h: launches whose values are shown, "" = none */
    char values_out[256];    /* file for them as lines of JSON, instead of stderr, "" = stderr; %p, %r, %h */
    enum option_nan nan;     /* off (default) | report | stop | report+inf | stop+inf: look for the first NaN */
};

enum option_type {
    OPTION_CHOICE, /* an enum: the index of the value in `allowed` */
    OPTION_ALIGN,  /* uint64_t: "auto" = OPTION_ALIGN_AUTO, or a power of two in bytes */
    OPTION_BYTES,  /* uint64_t: digits, then an optional K, M, G or T, then an optional B, or iB after a letter */
    OPTION_NUMBER, /* uint64_t: digits */
    OPTION_FILL,   /* uint64_t: "off" = FILL_OFF, "nan" = 0xff, or a byte as 0x and two hexadecimal digits */
    OPTION_SWITCH, /* int: on = 1, off = 0 */
    OPTION_RULES,  /* char[]: rules of filter.h */
    OPTION_PATH,   /* char[]: a file name for options_expand_path() */
    OPTION_FILTER  /* char[]: launches, as filter.h says */
};

struct option_row;

/* A part of a text. Needs no NUL. */
struct option_text {
    const char *start;
    size_t length;
};

/* Sets the fields of a merged option. Returns 0 if the row does not allow the value. */
typedef int option_setter(const struct option_row *row, struct option_text value, struct options *options);

struct option_row {
    const char *name;
    enum option_type type;
    const char *allowed;       /* for users: "off | strict", "2M..64G" */
    const char *default_value; /* as a user would write it */
    const char *help;          /* one sentence */
    size_t offset;             /* of the field in struct options */
    uint64_t minimum; /* ALIGN, BYTES and NUMBER: inclusive limits. PATH, RULES, FILTER: maximum = bytes with the NUL */
    uint64_t maximum;
    option_setter *set; /* of a merged option (option_value.h); NULL: the field at `offset` is set as `type` says ... */
    const char *joint;  /* ... and what follows this in the value sets the field of `rest`, which otherwise has its default */
    const struct option_row *rest; /* has no name */
};

/* Returns the rows in the order in which they are printed, and their number in *count. Static storage. */
const struct option_row *options_table(size_t *count);

/* The row of that name, or else the one that the name is probably a slip of (*is_exact = 0 then); NULL if there is none,
 * or the option is gone. `name` needs no NUL. */
const struct option_row *options_find(const char *name, size_t length, int *is_exact);

void options_default(struct options *options);

/*
 * Parses "key=value,key=value" and updates *options. NULL and "" are allowed, as are a trailing comma and blanks around keys
 * and values. If a key occurs twice, the last value wins.
 * `source` names the text in messages ("CUFENCE_OPTIONS", "cufence_init").
 * Errors: OPTION. The message names the source, the key, the value and what is allowed; for an unknown key, a similar known
 * key, if any, and the list of keys. *options is unchanged on error.
 */
cufence_status options_parse(struct options *options, const char *text, const char *source);

/* Expands %p (process), %r (RANK, else LOCAL_RANK, else 0), %h (host name), %% in a file name.
 * Errors: OPTION (another letter after %), OVERFLOW (longer than `size`). */
cufence_status options_expand_path(const char *pattern, char *out, size_t size);

/* The same; a name in the current folder stays there when the program changes folder, if `size` has room for both. */
cufence_status options_place_path(const char *pattern, char *out, size_t size);

/* Returns RANK, else LOCAL_RANK, which distributed jobs set in the environment; -1 if neither is a number. */
int options_rank(void);

/* ---- whether the files and folders that options name can be written. They are needed at a fault, days after the
 * start perhaps: who checks at the start says in time what is in the way. ---- */

/* Gets a sentence without a newline: the option, what is in the way, and the way out. */
typedef void writable_complaint(const char *option, const char *sentence);

/*
 * Calls `complain` for each option whose file or folder could not be written now, or whose file another option names, too.
 * Returns how many there are. Creates nothing. is_here: %p, %r and %h stand for this process; otherwise for others that are to
 * come, and only the folders in front of them are checked.
 */
int writable_check(const struct options *options, int is_here, writable_complaint *complain);
