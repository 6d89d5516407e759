/*
 * A finding: one thing that cufence has to say, as plain facts, each with how sure it is. It is built once, from the diagnosis
 * of a kernel's fault, from a call on the host, or from the reason why nothing is known; text and JSON only render it
 * (report.h, json.h), so that another form of the report is a file of its own.
 *
 * Ownership: a finding borrows buffers, names and frames from what it was built from, which must outlive it. What it allocates
 * itself, finding_free() releases; where the host has no memory for that, the frames or arguments are left out.
 * Pure; any thread, one at a time on a finding.
 */
#ifndef CUFENCE_FINDING_FINDING_H
#define CUFENCE_FINDING_FINDING_H

#include "analysis/verdict/diagnosis.h"
#include "base/source.h"
#include "misuse.h"

/* The kind of a fault whose core dump could not be read. */
#define FINDING_UNEXPLAINED "unexplained"

#define PROCESS_JOB 8 /* variables */

/* The process in which something was found, as far as it is known: NULL and 0 where it is not. */
struct finding_process {
    const char *time; /* of the finding, "2026-11-22T05:46:49Z" */
    const char *host;
    const char *command; /* the arguments, each ends with a NUL */
    size_t command_bytes;
    struct {
        const char *name, *value; /* "SLURM_PROCID", "3" */
    } job[PROCESS_JOB];           /* what launchers of distributed jobs set */
    size_t job_count;
};

/* Where a finding comes from. */
struct finding_origin {
    int pid;
    int rank;                              /* of a distributed job, -1 if there is none */
    int device;                            /* the driver's ordinal, -1 if unknown */
    const char *device_name;               /* as the driver names it, NULL to take the core dump's */
    const struct finding_process *process; /* NULL: nothing more is known of it */
};

/* One of a kernel's arguments. */
struct argument_name {
    int word;        /* index of the 8-byte word in the parameter bytes, -1: none is meant */
    int number;      /* from 0, -1 where the layout of the arguments is not known */
    uint32_t offset; /* of the word in the argument, in bytes */
};

/* Frames, innermost first. */
struct called_from {
    struct stack_frame *frames; /* the finding's own */
    size_t count;
};

enum measured_from { FROM_START, PAST_END, BEFORE_START, FROM_NOWHERE };

/* A buffer, and its part in this. */
struct buffer_fact {
    const cufence_buffer *buffer; /* NULL: there is none */
    enum certainty certainty;
    const char *reason; /* why this one, NULL if there is nothing to argue */
    enum measured_from from;
    uint64_t distance; /* bytes, of the access from the buffer */
    struct argument_name argument;
    struct called_from allocated, freed;
};

struct access_fact {
    int is_known;
    enum access_kind kind;
    uint64_t bytes;              /* per thread; 0 if unknown */
    uint64_t bytes_past_end;     /* of an access that begins inside the buffer */
    struct argument_name source; /* by the kernel's code, what the address was computed from */
    int is_loaded;               /* by the kernel's code, the address was loaded from memory */
};

/* Where an access or a call on the host went. */
struct address_fact {
    enum certainty certainty; /* CERTAIN_NOT: unknown, and the rest is not valid */
    uint64_t value;
    uint64_t last;     /* of the threads that may have faulted, where nobody knows which did */
    size_t lanes;      /* how many such threads; 0: it is `value` */
    char where[224];   /* "0 bytes past the end of buffer #7"; "" of a call on the host, whose reason says it */
    int is_in_arena;   /* in cufence's address space */
    int is_completed;  /* the high half is what the buffers allow */
    int is_misaligned; /* no multiple of the access's width */
};

/* One argument of the launch, or a pointer in one that is a struct. */
struct value_fact {
    uint32_t number, size; /* of the argument, from 0 and in bytes */
    int is_kept;           /* 0: its bytes are not known */
    int is_member;         /* a pointer `at` bytes into the argument before it */
    uint32_t at;
    uint64_t bits;                /* its value, where size <= 8 or is_member */
    const cufence_buffer *target; /* what it points to, NULL: nothing that is known */
};

/* A sentence that explains. */
struct note_fact {
    char text[192];
    enum certainty certainty; /* CERTAIN_NOT: it claims nothing of its own */
};

#define FINDING_NOTES 6
#define FINDING_CANDIDATES 8

/* What the memory line draws. */
enum strip { STRIP_NONE, STRIP_PAST_END, STRIP_BEFORE_START, STRIP_FREED, STRIP_NOWHERE };

struct finding {
    struct finding_origin origin;
    const char *architecture;            /* "sm_90"; NULL if unknown */
    uint32_t driver_major, driver_minor; /* of the core dump's writer, 0 if unknown */
    const char *kind;                    /* as in docs/report.md */
    char what[192];                      /* "out-of-bounds WRITE of 4 bytes", "double free by cuMemFree" */
    char headline[512];                  /* the answer in a line: what, and where that lies */
    const char *reason;                  /* of a fault that nothing explains, or what a call on the host did; else NULL */
    uint64_t identity;                   /* equal for the same finding again; 0: not to be compared */

    const char *call;                 /* of a call on the host the driver's function, else NULL */
    uint64_t caller_tid;              /* of that call */
    const struct stack_frame *caller; /* innermost first */
    size_t caller_count;

    int has_site; /* a kernel has faulted, and the core dump says where: `site` is valid, without what is another launch's */
    struct evidence_site site;
    int is_exception;                               /* it is not about an access to memory */
    const struct evidence_lane *lane;               /* the first thread that faulted, NULL if unknown */
    size_t faulting_threads;                        /* at this instruction, as far as the dump shows; 0 if unknown */
    size_t other_sites;                             /* warps, or SMs where the warp had exited, that faulted here too */
    const struct evidence_site *also[FAULT_PLACES]; /* what faulted at once in other places */
    size_t also_count;

    struct source_line source[SOURCE_LINES]; /* around the fault: whoever can read files fills them in */
    size_t source_count;

    struct access_fact access;
    struct address_fact address;
    struct buffer_fact buffer; /* that the access was meant for */
    struct buffer_fact rival;  /* on the other side of the guard, where nothing rules it out */
    int is_disputed;           /* the reason for `buffer` has to be told */
    enum strip strip;
    struct buffer_fact previous, next; /* the neighbours of the place */

    struct buffer_fact candidates[FINDING_CANDIDATES]; /* where no buffer can be blamed */
    size_t candidate_count, candidate_total;
    const char *candidates_from; /* as in docs/report.md */
    int is_narrowed, is_const_excluded, is_traced;

    struct fault_origin launch;
    enum certainty values_certainty; /* CERTAIN_NOT: it is not known what the kernel was given */
    struct value_fact *values;       /* its arguments in order, each before the pointers in it */
    size_t value_count;

    struct note_fact meaning[FINDING_NOTES]; /* what happened, where no buffer is involved */
    size_t meaning_count;
    struct note_fact notes[FINDING_NOTES]; /* what stood in the way, and what the candidates are */
    size_t note_count;
    uint64_t now_ns;
};

/* All fill in *finding and never fail. The strings must outlive it. */
void finding_of_fault(struct finding *finding, const struct diagnosis *diagnosis, const struct finding_origin *origin);
void finding_of_misuse(struct finding *finding, const struct misuse *misuse, const struct finding_origin *origin);
void finding_unexplained(struct finding *finding, const char *reason, const struct finding_origin *origin);
void finding_free(struct finding *finding);

/* The kernel's name as people say it, "k_oob" for "k_oob(float const*, int)", in *out; "" if it is not known. */
void finding_kernel(const struct evidence_site *site, char *out, size_t size);

#endif
