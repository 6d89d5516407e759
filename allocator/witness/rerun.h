/*
 * Serves the second process (rerun/rerun.h), the process that launches a kernel again: starts it, answers what it asks for,
 * receives the core dump of the fault there, and keeps to a time limit. It also chooses how the warp is found that faults:
 * barriers are put in front of the kernel's exits, so that the dump has it; where that does not go, or the driver refuses the
 * code with them, its threads are emulated. The process that faulted and `cufence replay` differ only in where the memory comes
 * from.
 *
 * Thread safety: one thread at a time for each rerun.
 */
#ifndef CUFENCE_WITNESS_RERUN_H
#define CUFENCE_WITNESS_RERUN_H

#include "analysis/verdict/rerun_result.h"
#include "base/reader.h"
#include "intake.h"
#include "rerun/input.h"
#include "spawn.h"

struct rerun {
    /* For the caller to fill in; `input` without its dump, and with the image as the program had it. All must outlive the
     * rerun. */
    struct rerun_input input;
    const char *program; /* the file of `cufence`; NULL: the one beside libcufence.so */
    int is_verbose;      /* that process's standard error is the caller's */
    uint64_t limit_ms;   /* for all of it, from begin_ns on */
    uint64_t saving_ms;  /* that it may take besides to save memory */
    const char *limit;   /* the limit's name, for messages */
    uint64_t begin_ns;   /* by monotonic_ns() */
    /* Answers a MESSAGE_NEED, MESSAGE_SAVE or MESSAGE_RESULT. *answer is a MESSAGE_NONE before. Returns the descriptor that
     * belongs to the answer, which is then closed, or -1; sets errno if that cannot be had. */
    int (*answer)(void *user, const struct rerun_message *question, struct rerun_message *answer);
    void *user;

    /* Results. result.evidence and `evidence` are the same, and belong to the rerun; result.launch is not filled in. */
    struct rerun_result result;
    struct evidence *evidence;
    struct dump second; /* that it was read from */
    uint32_t number;    /* of the launch that ran last: the one that faulted, if one did */

    /* Private. */
    struct rerun_process process;
    int is_running;
    int dump_pipe;
    struct dump dump;
    int has_patterns;  /* the launch runs with patterns in the guards */
    int is_done;       /* no launch has faulted */
    int is_refused;    /* the driver does not load the image */
    struct span plain; /* the image without barriers */
    uint8_t *fenced;   /* with them; NULL if there are none */
    uint8_t *dumped;   /* the image in the dump, if `input` had none of a single cubin */
    int is_open;       /* a warp can leave without passing a barrier */
    int has_access;    /* input.access_at is known */
    int has_followed;  /* the threads were emulated, with or without success */
    uint64_t saving_since_ns, saved_ns;
};

/* Ends the attempt with a reason, unless it has ended already. Returns UNSUPPORTED. */
cufence_status rerun_fail(struct rerun *rerun, const char *why);

/* Says what faulted, as far as a dump has told before rerun_begin(): if its address is not known, it can be emulated. */
void rerun_aim(struct rerun *rerun, const struct diagnosis *diagnosis);

/* Starts the second process, which may need a while. The error is also in the result. */
cufence_status rerun_begin(struct rerun *rerun);

/* Serves the second process until it is done or the limit is over, and completes the result. */
void rerun_finish(struct rerun *rerun);

/* After rerun_finish(), for those who learn only from the second launch what faults, and whose code is not always a cubin:
 * finds the warp if that launch's dump does not have it. `evidence` may be another one then. */
void rerun_follow(struct rerun *rerun, const struct diagnosis *diagnosis);

/* Drops the result after rerun_finish(), for a reason. */
void rerun_void(struct rerun *rerun, const char *why);

/* Frees what the rerun owns. It must have been zeroed at first; rerun_begin() need not have been called. */
void rerun_end(struct rerun *rerun);

#endif
