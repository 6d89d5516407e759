/*
 * Serves the stage (restage/stage.h), the process that launches a kernel again: starts it, answers what it asks for, receives
 * the core dump of the fault there, and keeps to a time limit. It also chooses how the warp is found that faults: barriers are
 * put in front of the kernel's exits, so that the dump has it; where that does not go, or the driver refuses the code with
 * them, its threads are emulated. The process that faulted and `cufence replay` differ only in where the memory comes from.
 *
 * Thread safety: one thread at a time for each staging.
 */
#ifndef CUFENCE_WITNESS_STAGING_H
#define CUFENCE_WITNESS_STAGING_H

#include "analysis/verdict/restaged.h"
#include "base/reader.h"
#include "intake.h"
#include "restage/scene.h"
#include "spawn.h"

struct staging {
    /* For the caller to fill in; `scene` without its dump, and with the image as the program had it. All must outlive the
     * staging. */
    struct scene scene;
    const char *program; /* the file of `cufence`; NULL: the one beside libcufence.so */
    int is_verbose;      /* the stage's standard error is the caller's */
    uint64_t limit_ms;   /* for all of it, from begin_ns on */
    uint64_t saving_ms;  /* that it may take besides to save memory */
    const char *limit;   /* the limit's name, for messages */
    uint64_t begin_ns;   /* by monotonic_ns() */
    /* Answers a STAGE_NEED, STAGE_SAVE or STAGE_RESULT. *answer is a STAGE_NONE before. Returns the descriptor that belongs to
     * the answer, which is then closed, or -1; sets errno if that cannot be had. */
    int (*answer)(void *user, const struct stage_message *question, struct stage_message *answer);
    void *user;

    /* Results. result.evidence and `evidence` are the same, and belong to the staging; result.launch is not filled in. */
    struct restaged result;
    struct evidence *evidence;
    struct dump second; /* that it was read from */
    uint32_t number;    /* of the launch that ran last: the one that faulted, if one did */

    /* Private. */
    struct stage_process process;
    int is_running;
    int input; /* the pipe with the dump */
    struct dump dump;
    int has_patterns;  /* the launch runs with patterns in the guards */
    int is_done;       /* no launch has faulted */
    int is_refused;    /* the driver does not load the image */
    struct span plain; /* the image without barriers */
    uint8_t *fenced;   /* with them; NULL if there are none */
    uint8_t *dumped;   /* the image in the dump, if `scene` had none of a single cubin */
    int is_open;       /* a warp can leave without passing a barrier */
    int has_access;    /* scene.access_at is known */
    int has_followed;  /* the threads were emulated, with or without success */
    uint64_t saving_since_ns, saved_ns;
};

/* Ends the attempt with a reason, unless it has ended already. Returns UNSUPPORTED. */
cufence_status staging_fail(struct staging *staging, const char *why);

/* Says what faulted, as far as a dump has told before staging_begin(): if its address is not known, it can be emulated. */
void staging_aim(struct staging *staging, const struct diagnosis *diagnosis);

/* Starts the stage, which may need a while. The error is also in the result. */
cufence_status staging_begin(struct staging *staging);

/* Serves the stage until it is done or the limit is over, and completes the result. */
void staging_finish(struct staging *staging);

/* After staging_finish(), for those who learn only from the second launch what faults, and whose code is not always a cubin:
 * finds the warp if that launch's dump does not have it. `evidence` may be another one then. */
void staging_follow(struct staging *staging, const struct diagnosis *diagnosis);

/* Drops the result after staging_finish(), for a reason. */
void staging_void(struct staging *staging, const char *why);

/* Frees what the staging owns. It must have been zeroed at first; staging_begin() need not have been called. */
void staging_end(struct staging *staging);

#endif
