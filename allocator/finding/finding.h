/*
 * A finding: one thing that cufence reports, as plain facts, each with its certainty. It is built once, from the diagnosis of a
 * kernel fault, from a misuse by the host, or from the reason why nothing is known. Text and JSON only render it (report.h,
 * json.h), so another output format is one more file.
 *
 * It (1) puts a verdict into facts and sentences, (2) gives it a name by which it is known again, and (3) is rendered. It never
 * decides what happened (analysis/verdict), and no renderer adds a fact.
 *
 * Ownership: a finding borrows buffers, names, frames and the results of a second launch from what it was built from, which
 * must outlive it. finding_free() releases what the finding allocated itself. If the host is out of memory, frames or arguments
 * are omitted. Pure. Thread safety: any thread, but only one at a time per finding.
 */
#pragma once

#include "analysis/bundle/snapshot.h"
#include "analysis/dump/standing.h"
#include "analysis/verdict/rerun_result.h"
#include "base/files.h"
#include "launch_finding.h"
#include "misuse.h"
#include "json/json_table.h"
#include "slack_finding.h"

/* The kind of a fault whose core dump could not be read. */
#define FINDING_UNEXPLAINED "unexplained"

#define PROCESS_JOB 8 /* job variables */

struct job_variable {
    const char *name, *value; /* "SLURM_PROCID", "3" */
};

/* The process in which something was found. Unknown fields are NULL or 0. */
struct finding_process {
    const char *time; /* of the finding, "2026-11-22T05:46:49Z" */
    const char *host;
    const char *const *command; /* its words */
    size_t word_count;
    struct job_variable job[PROCESS_JOB]; /* those that launchers of distributed jobs set */
    size_t job_count;
};

/* What a process has guarded, and found, by its end. */
struct guarded {
    uint64_t allocations, peak_bytes, launches, findings, known;
    uint64_t left, left_bytes; /* allocations that were left to the driver */
};

/* Where a finding comes from. */
struct finding_source {
    int pid;
    int rank;                              /* in a distributed job, -1 if none */
    int device;                            /* the driver's ordinal, -1 if unknown */
    const char *device_name;               /* as the driver names it, NULL to take it from the core dump */
    const struct finding_process *process; /* NULL if nothing more is known about the process */
};

/* Identifies one of the kernel's arguments. */
struct argument_name {
    int word;        /* index of the 8-byte word in the parameter bytes, -1 if none */
    int number;      /* from 0, -1 if the argument layout is unknown */
    uint32_t offset; /* of the word within the argument, in bytes */
};

static const struct argument_name unnamed_argument = {-1, -1, 0};

/* Frames, innermost first. */
struct called_from {
    struct stack_frame *frames; /* owned by the finding */
    size_t count;
};

enum measured_from { FROM_NOWHERE, FROM_START, PAST_END, BEFORE_START };

/* A buffer, and its part in the finding. */
struct buffer_fact {
    const cufence_buffer *buffer; /* NULL if none */
    enum certainty certainty;
    const char *reason; /* why this buffer, NULL if it needs no reason */
    enum measured_from from;
    uint64_t distance; /* from the buffer to the access, in bytes */
    struct argument_name argument;
    int is_allocated, is_freed; /* it is known when */
    int has_redzone;
    struct called_from allocated, freed;
};

struct access_fact {
    int is_known;
    enum access_kind kind;
    uint64_t bytes;              /* per thread; 0 if unknown */
    uint64_t bytes_past_end;     /* bytes beyond the end, for an access that begins inside the buffer */
    struct argument_name source; /* the argument that the address was computed from, according to the kernel's code */
    int is_loaded;               /* according to the kernel's code, the address was loaded from memory */
};

/* The address of an access, or of a call on the host. */
struct address_fact {
    enum certainty certainty; /* CERTAIN_NOT: unknown, the other fields are not valid */
    int is_one;               /* it is known, and no range */
    uint64_t value;
    uint64_t last;     /* highest address among threads that may have faulted, if the faulting one is unknown */
    size_t lanes;      /* number of such threads; 0: the address is `value` */
    char where[224];   /* "0 bytes past the end of buffer #7"; "" for a call on the host, whose reason says it */
    int is_in_arena;   /* within cufence's address space */
    int is_misaligned; /* not a multiple of the access width */
};

/* What the memory held from a pointer to the end of its buffer, as the fault left it: RERUN. */
struct figures_fact {
    enum value_type type; /* of the elements */
    int is_float, has_finite;
    uint64_t count, seen; /* elements; bytes that were looked at */
    struct scalar min, max;
    double mean;
    uint64_t zeros, nans, infinities;
    struct scalar first[4];
    size_t first_count;
};

/* One argument of the launch, or one pointer inside an argument that is a struct. */
struct value_fact {
    uint32_t number, size; /* of the argument: number from 0, size in bytes */
    int is_kept;           /* 0: its bytes are unknown */
    int is_member;         /* a pointer at byte `at` of the argument that has it among its members */
    uint32_t at;
    int has_bits;                  /* its value is known, and a number: is_kept, and size <= 8 */
    uint64_t bits;                 /* its value, also of a member */
    const cufence_buffer *target;  /* the buffer it points to, NULL if none is known */
    uint64_t offset;               /* into it */
    const struct figures *figures; /* NULL if unknown */
    struct figures_fact summary;   /* of them */
    struct value_fact *members;    /* the pointers in a struct whose bytes are known; else NULL */
    size_t member_count;
};

/* What may still use the buffer of a stream race. */
struct used_fact {
    const struct earlier_use *use; /* NULL: it is none */
    char kernel[256];              /* its short name; "" if unknown, or if it was no launch */
    char order[192];               /* why the use and the call are unordered */
};

/* An explanatory sentence. */
struct note_fact {
    char text[320];
    enum certainty certainty; /* CERTAIN_NOT: the sentence carries no certainty */
};

#define FINDING_NOTES 18 /* 3, with 4 maps 9, and behind them 6, at most */
#define FINDING_CANDIDATES 8

/* What the memory line draws. */
enum strip { STRIP_NONE, STRIP_PAST_END, STRIP_BEFORE_START, STRIP_FREED, STRIP_NOWHERE };

/* The device, and the driver that wrote the core dump; "" and NULL: unknown. */
struct device_fact {
    int is_known;             /* something of it */
    const char *architecture; /* "sm_90" */
    char driver[24];          /* "580.159" */
};

/* A call on the host. */
struct call_fact {
    const char *call;                 /* the driver function; NULL: it is none */
    uint64_t tid;                     /* of the thread that made it */
    const struct stack_frame *frames; /* of the caller, innermost first */
    size_t count;
};

/* Where a kernel faulted, and which threads. */
struct where_fact {
    int is_known;             /* the dump says where: `stop` is valid, without data that belongs to another launch */
    int has_exception;        /* of the program's own, stop.exception */
    enum certainty certainty; /* of the place in the code */
    struct evidence_stop stop;
    int has_kernel;                          /* something is known of the code */
    int has_no_buffer;                       /* the exception is about none */
    int has_cluster;                         /* of more than one block */
    int has_exited;                          /* the warp had exited when the driver wrote its dump: so it is in the JSON */
    int is_warp_of_rerun;                    /* block, threads and lanes are those of the second launch, ... */
    int is_grid_of_rerun;                    /* ... and so are grid, block and cluster */
    const struct evidence_lane *lane;        /* the first thread that faulted, NULL if unknown */
    size_t threads;                          /* at this instruction, as far as the dump shows; 0 if unknown */
    size_t warps, sms;                       /* warps, or SMs where the warp had exited, that faulted at this instruction */
    struct evidence_stop also[FAULT_PLACES]; /* faults at other places at the same time */
    size_t also_count;
    struct source_line source[SOURCE_LINES]; /* lines around the fault; filled in by a caller that can read files */
    size_t source_count;
};

/* One input of the address, and what it adds. */
struct term_fact {
    char input[32];             /* "block.x", "loaded", "argument 3" */
    int64_t value, adds;        /* adds: bytes */
    struct argument_name times; /* it is multiplied with that argument */
    const struct origin_term *term;
};

/* An index that was loaded, and the element of a buffer that it was loaded from. */
struct element_fact {
    int is_known;
    int64_t value;
    uint64_t address;
    uint32_t bytes;
    const struct origin_place *place;  /* of the load */
    const cufence_buffer *buffer;      /* NULL if unknown */
    struct argument_name argument;     /* that points to it */
    int64_t number;                    /* of the element, which may be outside */
    uint64_t count;                    /* of the buffer's elements */
    enum measured_from from;           /* FROM_NOWHERE: it is inside, else: */
    uint64_t distance;                 /* in bytes */
    const struct launch_entry *writer; /* the last launch on record that may have written the buffer, NULL if none is known */
};

struct note_facts {
    struct note_fact list[FINDING_NOTES];
    size_t count;
};

/* A 32-bit number without room for its value; without that the access would be inside the buffer. */
struct wrap_fact {
    int is_known;
    char what[96]; /* "1073741824 * 4" */
    int64_t wrapped, exact;
    uint64_t address; /* if it were exact */
    const struct origin_place *place;
};

/* What the faulting address is made of. */
struct cause_fact {
    enum certainty certainty;      /* CERTAIN_NOT: it is not known */
    const cufence_buffer *base;    /* that its pointer leads to, NULL if unknown */
    struct argument_name argument; /* that pointer, or it was loaded from: */
    uint64_t base_from;
    struct term_fact terms[ORIGIN_TERMS]; /* which add up to the address, with the pointer and the constant; none: unknown */
    size_t term_count;
    int64_t index, constant; /* in elements of `unit` bytes; in bytes */
    uint64_t unit;
    struct element_fact loaded;
    struct wrap_fact wrap;
    struct note_facts said; /* the same in sentences */
};

/* Possible buffers, if none can be blamed. */
struct candidate_facts {
    struct buffer_fact list[FINDING_CANDIDATES];
    size_t count, total;
    const char *from; /* one of the sources in docs/json.md */
    int is_const_excluded, is_traced;
};

/* The arguments of the launch, in order. */
struct argument_facts {
    enum certainty certainty; /* CERTAIN_NOT: they are unknown */
    struct value_fact *list;
    size_t count;
};

/* A header, and the facts that are known. */
struct finding {
    struct finding_source origin;
    const char *kind;   /* one of those in docs/json.md */
    char what[192];     /* "out-of-bounds WRITE of 4 bytes", "double free by cuMemFree" */
    char headline[512]; /* the answer in one line: what, and at which address or buffer */
    const char *reason; /* why a fault is unexplained, or what a call on the host did; else NULL */
    char name[512];     /* finding_name() */
    const char *known;  /* how it is known already (base/known_findings.h), NULL: it is not */
    char hint[192];     /* what the reader may try first; "" if no rule knows */
    uint64_t now_ns;
    int is_verbose; /* the text has names of C++ in full, with the types of parameters: the caller's to set, 0 at first */

    struct device_fact device;
    struct call_fact called;
    struct used_fact used; /* of a stream race */
    struct where_fact where;
    struct access_fact access;
    struct address_fact address;
    struct buffer_fact buffer; /* the buffer that the access was meant for */
    struct buffer_fact rival;  /* the buffer on the other side of the guard, if it can't be ruled out */
    int is_disputed;           /* the report must give the reason for `buffer` */
    enum strip strip;
    struct buffer_fact previous, next; /* neighbours of the address */
    struct candidate_facts candidates;
    struct cause_fact cause;
    struct launch_match launch;
    struct argument_facts arguments;
    const struct rerun_result *rerun; /* the second launch of the kernel, NULL if there was none */
    const struct slack_write *slack;  /* what was found in the slack of the buffer, NULL if it is not about that */
    const struct stuck_fact *stuck;   /* kernels that hang; else NULL */
    const struct nan_fact *nan;       /* a launch has made a NaN; else NULL */
    const struct launched_fact *by;   /* of these two: the launch */
    const struct guarded *guarded;    /* of a line about what a process has guarded (json.h); else NULL */
    struct note_facts meaning;        /* what happened, if no buffer is involved */
    struct note_facts notes;          /* why facts are missing, and where the candidates come from */
};

/* Fill in *finding; cannot fail. The strings must outlive *finding. rerun: what the second launch of the kernel did, NULL if
 * there was none. */
void finding_of_fault(struct finding *finding, const struct diagnosis *diagnosis, const struct rerun_result *rerun,
                      const struct finding_source *origin);
void finding_of_misuse(struct finding *finding, const struct misuse *misuse, const struct finding_source *origin);
void finding_of_slack(struct finding *finding, struct slack_write *write,
                      const struct finding_source *origin); /* sets write->certainty */
void finding_of_stuck(struct finding *finding, struct stuck_fact *stuck, const struct finding_source *origin);
void finding_of_nan(struct finding *finding, const struct nan_fact *nan, const struct finding_source *origin);
void finding_unexplained(struct finding *finding, const char *reason, const struct finding_source *origin);
void finding_free(struct finding *finding);

/* ---- of_stuck.c: kernels that do not end ---- */

#define FINDING_STUCK "stuck"

/* A thread of the host that waits in a call of CUDA. */
struct waiting_fact {
    const char *call;
    uint64_t tid, since_ns;
    struct stack_frame frames[STACK_READ]; /* of who called, innermost first */
    size_t frame_count;
};

#define WAITING_SHOWN 8

struct waiting_facts {
    struct waiting_fact list[WAITING_SHOWN]; /* the longest first */
    size_t count, total;
};

/* What is known when kernels hang. All is borrowed. */
struct stuck_fact {
    const struct standing *standing;
    const struct fault_memory *memory; /* what is at the address that is polled, and the launches on record */
    uint64_t silent_ns;                /* nothing was launched or has ended for so long; 0: that is not known */
    uint64_t host, host_bytes;         /* the pinned memory that has the address; 0 bytes: none */
    uint64_t value;                    /* that is polled, if has_value */
    int has_value;
    struct waiting_facts waiting;
    const struct standing_place *place; /* the one that tells most. Filled in by stuck_evidence(), like: */
    struct evidence evidence;           /* that place as its only stop */
    struct evidence_stop stop;
    struct evidence_lane lane;
    char reason[256]; /* filled in by finding_of_stuck() */
};

/* Fills in stuck->evidence, for those who look for buffers and launches. Requires `standing`. */
void stuck_evidence(struct stuck_fact *stuck, const struct evidence *of_dump);

/* Writes the kernel's short name to `out`: "k_oob" for "k_oob(float const*, int)", "" if unknown. */
void finding_kernel(const struct evidence_stop *stop, char *out, size_t size);
void finding_kernel_of(const char *mangled, char *out, size_t size);

/* ---- buffers that are still allocated when the process ends (leaks=on). ---- */

struct leak {
    const cufence_buffer *largest; /* of one place of allocation */
    uint64_t buffers, bytes;
    char reason[160]; /* filled in by finding_of_leak() */
    struct buffer_frames frames;
    uint64_t now_ns;
};

/* Fills in *finding; cannot fail. `leak` must outlive it. */
void finding_of_leak(struct finding *finding, struct leak *leak, const struct finding_source *origin);

/* ---- identity.c: recognises a finding: a repetition of it, by a key, and the same one in another run, by a name. Pure; any
 * thread. ---- */

/* Returns text that is equal for the same finding, also in other processes: the kind, the place (of a kernel, a call or a
 * launch), and where the buffer was allocated, or what one place allocates again and again. The caller frees it; NULL: the host
 * has no memory. */
char *finding_key(const struct finding *finding);

/* Whether bytes found beside a buffer may be what that fault's access left there in another run, where nothing was in its way.
 */
int finding_is_left_by(const struct finding *found, const struct finding *fault);
uint64_t finding_hash(const char *key); /* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */

/*
 * Writes the name that a finding has in each run of a program, until its code is moved to another function or file: kind, file
 * without its folders, kernel or function; "overrun at oob.py in k_oob". Without a line, which changes with each edit above it.
 * What has no place of its own has that of the buffer's allocation: "slack write next to a buffer from model.py in forward".
 */
void finding_name(const struct finding *finding, char *out, size_t size);
