/*
 * Bytes in the slack of a buffer that a kernel has changed, as a check has found them afterwards: no core dump and no call of
 * the host, only what is left in memory, and the launches that may have done it. Pure; any thread.
 */
#pragma once

#include "analysis/values/value.h"
#include "analysis/verdict/diagnosis.h"
#include "base/reader.h"

#define FINDING_SLACK "slack write"
#define FINDING_POISON "write to poisoned memory"
#define SLACK_LAUNCHES 8
#define SLACK_VALUES 8
#define SINCE_ALL UINT64_MAX

/* What a launch did when it was launched again with the buffer's edge at a guard: RERUN. */
struct slack_again {
    const struct evidence_stop *stop; /* where it wrote; NULL: nothing is known */
    const struct evidence_lane *lane; /* the first thread that did */
    uint64_t address;                 /* that it wrote to, in the program */
    size_t threads, warps;
    size_t later; /* how many of the launches behind launches[0] came after it; the others came before */
};

/* Bytes of a buffer that the program has poisoned: when and where. The frames are borrowed, innermost first. */
struct poison_fact {
    uint64_t start, bytes;          /* 0 bytes: none */
    uint64_t buffer, address, size; /* which one: its id, and where */
    uint64_t ns, stream, tid;
    uint64_t until_stream; /* of the check, if `until` is known */
    const char *copy;  /* a call of the host that was given some of the bytes to write meanwhile; NULL: there was none, ... */
    uint64_t copies;   /* ... and how many there were */
    uint64_t until_ns; /* when it was checked */
    uint64_t after, until; /* launch_entry.sequence: that thread's last launch before, and the last one of until_tid before the
                              bytes were unpoisoned; 0: not known */
    uint64_t until_tid;
    uint32_t stack; /* interned */
    const struct stack_frame *frames;
    size_t frame_count;
};

/* What the check of a pattern has found. */
struct slack_found {
    struct poison_fact poison; /* it was in there, not beside the buffer */
    int is_before;             /* in front of the buffer's start, not behind its end */
    uint64_t address;          /* of the first changed byte */
    uint64_t span;             /* from there to the last changed byte, in bytes */
    uint64_t changed;          /* number of bytes in between that were changed */
    uint8_t bytes[64];         /* what was found there, as many as fit */
    size_t byte_count;
    uint64_t since_ns;          /* when the bytes were good */
    uint64_t since_on;          /* by a launch on this stream: work of others that was launched before may have come behind it;
                                   SINCE_ALL: by one behind all work */
    uint64_t buffers, first_id; /* number of buffers that had the memory since then, and the first of them */
};

struct slack_write {
    const cufence_buffer *buffer; /* the last one that had the memory */
    struct slack_found found;
    struct fault_launch launches[SLACK_LAUNCHES]; /* that were given one of these buffers since then, newest first, but for
                                                     the one that is known to have done it: that is the first */
    size_t launch_count, launch_total;            /* in launches[]; in all */
    size_t apart;      /* of launch_total: those on other streams that were launched at another time */
    size_t graphs;     /* graphs that were launched since then: what they were given is unknown */
    int is_incomplete; /* launches since then are no longer on record */
    uint64_t now_ns;
    struct buffer_frames buffer_frames;
    int has_type; /* `type`: that of the elements, which all of these launches agree on */
    enum value_type type;
    struct scalar values[SLACK_VALUES]; /* the first ones that were found, by that type; set by finding_of_slack() */
    size_t value_count;
    struct slack_again again; /* of launches[0] */
    char untold[256];         /* why `again` knows nothing, "" if that was not asked for */
    enum certainty certainty; /* that launches[0] did it, CERTAIN_NOT: none is known; set by finding_of_slack() */
};

/* Another launch that was given the memory, of the kernel with that mangled name, or NULL: what its pointers there point to.
 * Call before it is counted in launch_total. */
void slack_take_type(struct slack_write *write, const char *symbol, const struct launch_argument *layout, size_t count,
                     struct span arguments);
