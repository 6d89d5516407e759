/*
 * The second launch of a kernel that has faulted: by another process, the rerun process, on copies of the memory as the
 * fault left it. rerun.c serves that process: it starts it, answers what it asks for, receives the core dump of the fault
 * there, and keeps to a time limit. play.c is the process itself. The program that faulted and `cufence replay` differ only in
 * where the memory comes from.
 *
 * Thread safety: one thread at a time for each rerun.
 */
#pragma once

#include "analysis/dump/coredump.h"
#include "analysis/verdict/rerun_result.h"
#include "base/reader.h"
#include "dump_stream.h"
#include "input.h"

#include <sys/types.h>

/* ---- spawn.c: starts the rerun process ---- */

struct rerun_process {
    pid_t pid;
    int socket;    /* to its standard input */
    pid_t between; /* its parent */
    char *stack;   /* of that one */
};

#define MESSAGE_DUMP "/proc/self/fd/3" /* in the rerun process: the pipe that it was given */

/* program: the file of `cufence`, NULL to find it. is_verbose: its standard error is the program's. pipe: for its core dump.
 * Errors: NOT_FOUND (no `cufence` program), SYSTEM. */
cufence_status rerun_process_start(const char *program, int is_verbose, int pipe, struct rerun_process *process);

/* Kills the process if it still runs. The second also waits for its end, and frees what belongs to it. */
void rerun_process_kill(const struct rerun_process *process);
void rerun_process_end(struct rerun_process *process);

/* ---- the side that serves ---- */

/* How a process ends. */
enum rerun_event {
    RERUN_FAULT,               /* the launch faulted, and the dump of that could be read */
    RERUN_FAULT_AMID_PATTERNS, /* the same, with patterns in the guards */
    RERUN_WRITES,              /* it did not fault, but wrote into the patterns */
    RERUN_SILENCE,             /* it did neither */
    RERUN_BARRIERS_REFUSED,    /* the driver does not load the code with barriers */
    RERUN_CODE_REFUSED,        /* the same, without barriers */
    RERUN_FAILURE,             /* something else went wrong, or took too long */
    RERUN_EVENTS
};

/* One process: what it is given, and what it says. */
struct rerun_run {
    struct rerun_input input;
    size_t first;                 /* the number of its first launch, of those of the rerun */
    struct rerun_result *result;  /* gets what it says */
    struct rerun_process process; /* its pid is 0 while it does not run */
    int is_amid_patterns;         /* it launches with patterns in the guards */
    enum rerun_event said;        /* what it has said of its end; RERUN_FAILURE before */
    int dump_pipe;
    struct dump dump;
};

/*
 * What it is: a kernel, the launches that may have faulted, and what their second launch has shown.
 *
 * What it does:
 *   1. rerun_begin() puts memory barriers in front of the kernel's exits, so that the warp that faults cannot have left when
 *      the driver looks, and starts the process. Without them, where the code or the driver refuses them, it may not be found.
 *   2. rerun_finish() serves the process. Of several launches that may have been it, each is tried, in their order, until one
 *      faults at the place; then that one is looked at like one that is known. A launch that faults amid the patterns in the
 *      guards is launched once more without them: its first accesses out of bounds went into them.
 *   3. rerun_follow() and rerun_trace() look again at the launch that did it, each with a process of its own.
 *
 * What it never does: diagnose. It hands over facts: `result`, and the evidence of the second dump, which is opened once.
 */
struct rerun {
    /* For the caller to fill in; `input` without its dump, and with the image as the program had it. All must outlive the
     * rerun. */
    struct rerun_input input;
    const char *program; /* the file of `cufence`; NULL: the one beside libcufence.so */
    int holds_stores;    /* what writes has a barrier behind it, because any of it may fault */
    int is_verbose;      /* that process's standard error is the caller's */
    uint64_t limit_ms;   /* for all of it, from begin_ns on */
    uint64_t saving_ms;  /* more, that it may take to save memory */
    const char *limit;   /* the limit's name, for messages */
    uint64_t begin_ns;   /* by monotonic_ns() */
    /* Answers a MESSAGE_NEED, MESSAGE_SAVE or MESSAGE_RESULT. *answer is a MESSAGE_NONE before. Returns the descriptor that
     * belongs to the answer, which is then closed, or -1; sets errno if that cannot be had. */
    int (*answer)(void *user, const struct rerun_message *question, struct rerun_message *answer);
    void *user;
    const struct fault_memory *memory; /* of several launches, what the one that faults points to is described; NULL: only what
                                          `input` names */

    /* Results. result.evidence and `evidence` are the same, and belong to the rerun; result.launch is not filled in. */
    struct rerun_result result;
    struct evidence *evidence;
    struct dump second; /* that it was read from */
    uint32_t number;    /* of the launch that ran last: the one that faulted, if one did */

    /* Private. */
    struct rerun_run run;   /* of rerun_begin() and rerun_finish() */
    struct coredump opened; /* over the bytes of `second` */
    struct span plain;      /* the image without barriers */
    uint8_t *fenced;        /* with them; NULL if there are none */
    uint8_t *dumped;        /* the image in the dump, if `input` had none of a single cubin */
    int is_choosing;        /* several launches may have been it, and are tried until one faults */
    int is_held;            /* there is one behind the access that faulted */
    uint64_t blocks;        /* that the launch which ran last was cut to; 0: it had all */
    int has_access;         /* access_at is known */
    uint64_t access_at;     /* offset of the access that faulted in the kernel's code */
    uint64_t saving_since_ns, saved_ns;
    struct rerun_process late; /* killed when the time was over; its end is waited for behind the report. pid 0: none */
};

/* Says what faulted, as far as a dump has told before rerun_begin(): if its address is not known, the access is held. */
void rerun_aim(struct rerun *rerun, const struct diagnosis *diagnosis);

/* Starts the process, which may need a while. The error is also in the result. */
cufence_status rerun_begin(struct rerun *rerun);

/* Serves the process until it is done or the limit is over, and completes the result. */
void rerun_finish(struct rerun *rerun);

/* After rerun_finish(), for those who learn only from the second launch what faults, and whose code is not always a cubin:
 * finds the warp if that launch's dump does not have it. Returns 1 if it has launched again: `evidence` may be another one. */
int rerun_follow(struct rerun *rerun, const struct diagnosis *diagnosis);

/* After rerun_finish(), or without any launch: finds what the diagnosed address is made of, with the memory if need be. */
void rerun_trace(struct rerun *rerun, const struct diagnosis *diagnosis);

/* Drops the result after rerun_finish(), for a reason. */
void rerun_void(struct rerun *rerun, const char *why);

/* Frees what the rerun owns. It must have been zeroed at first; rerun_begin() need not have been called. */
void rerun_end(struct rerun *rerun);

/* ---- converse.c: what the rerun process says, and what it is answered; for rerun.c ---- */

/* Handles one message. Returns 0 at the end of the conversation. */
int rerun_converse(struct rerun *rerun, struct rerun_run *run);

/* Adds something that the report should say. */
void rerun_take_note(struct rerun_result *result, const char *text);

/* Whether anything was written where an access faults. */
int rerun_has_left(const struct rerun_result *result);

/* ---- the process ---- */

/* Launches the input that comes over the socket, which is standard input. Returns the exit status. A fault ends the process. */
int rerun_play(void);
