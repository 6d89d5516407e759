/*
 * What a second launch adds to a diagnosis: after the fault another process launches the kernel again, on copies of the memory
 * as the fault left it. First the guards hold a pattern, which shows every byte written out of bounds; then they are unmapped,
 * and the core dump of that launch also has warps that had exited in the first one. Pure functions on plain data; any thread.
 */
#pragma once

#include "analysis/sass/origin.h"
#include "analysis/values/figures.h"
#include "diagnosis.h"

enum rerun_outcome {
    RERUN_NOT_TRIED, /* not wanted, or nothing to rerun: nothing is said */
    RERUN_FAULTED,   /* the second launch faulted */
    RERUN_WROTE,     /* it wrote out of bounds into the patterned guards, but did not fault without them */
    RERUN_NO_FAULT,  /* it did neither */
    RERUN_FAILED     /* could not be launched again: `reason` says why */
};

#define RERUN_PLACES 8 /* of writes that are listed */

/* Bytes next to each other that the second launch wrote out of bounds. */
struct rerun_write {
    const cufence_buffer *buffer; /* whose guard this is; borrowed; NULL if unknown */
    int is_before;                /* in front of its start, not behind its end */
    int is_slack;                 /* in the buffer's mapping, where no access faults */
    uint64_t distance;            /* of the first byte from the end; in front: of the last byte's end from the start */
    uint64_t address, bytes;
    uint8_t values[64]; /* the first of them */
    size_t value_bytes; /* in values[] */
};

#define RERUN_LACKS "the second launch cannot have %s, so its facts are not used"

struct rerun_result {
    enum rerun_outcome outcome;
    char reason[256];
    char note[256];                          /* what limits the result, "" if nothing does */
    const struct evidence *evidence;         /* from the second launch's dump; borrowed; NULL if none */
    const struct fault_launch *launch;       /* the recorded launch that was launched again; borrowed; NULL if unknown */
    struct rerun_write writes[RERUN_PLACES]; /* those in guards before those in slack */
    size_t write_count;                      /* in writes[] */
    uint64_t written_bytes;                  /* in all, into slack too */
    uint64_t rest_start, rest_end; /* those in guards that are not in writes[] lie in between; equal: there are none */
    struct figures figures[16];    /* of what arguments point to, as the fault left it, up to the end of each buffer */
    size_t figure_count;
    struct origin cause; /* what the address that faulted is made of */
    char unset[160];     /* variables of the module that the kernel uses and whose values are not known, so that they began with
                            their first ones: "a, b"; "" if there are none */
    char lacks[96]; /* other state that the second launch cannot have, "" if it had all. What it shows of an address beside no
                       buffer, and of its thread, counts for nothing then */
    unsigned launches_tried; /* recorded launches that were launched again until one faulted */
    uint64_t took_ms;
};

/*
 * Diagnoses a fault with the help of the second launch, which may be NULL. Cannot fail. What the first dump tells stays as it
 * is. Where it leaves the address unknown, has only one half of it, or has it from registers that may have changed, and the
 * second launch faulted at the same instruction in a warp whose address is known (that is sure), then address, owner, lanes and
 * missing parameters are those of that warp. If there is no such warp, the access writes, and all bytes written out of bounds
 * lie beside one buffer, that is the owner. What rests on the second launch is at most RERUN. `evidence`, `rerun`, what they
 * point to, and `memory` must outlive *diagnosis.
 */
void fault_diagnose_rerun(const struct evidence *evidence, const struct rerun_result *rerun, const struct fault_memory *memory,
                          struct diagnosis *diagnosis);

/* The same for a diagnosis of the first dump, but for the cause: cause_take(). */
void diagnosis_take_rerun(struct diagnosis *diagnosis, const struct rerun_result *rerun);

/* Adds a variable to those whose values are not known, unless it is there. */
void rerun_result_add_unset(struct rerun_result *rerun, const char *name);

/* Forgets what it has shown. Those variables, the number of launches and the time stay. */
void rerun_result_clear(struct rerun_result *rerun);

/* It has failed for that reason, unless there is one already. Returns UNSUPPORTED. */
cufence_status rerun_result_fail(struct rerun_result *rerun, const char *why);

/* Finds the buffer that each of the bytes were written next to: the nearer of the two that share the guard. */
void rerun_result_name_buffers(struct rerun_result *rerun, const struct fault_memory *memory);

/* Returns a place at which the second launch faulted, if it did so, but not where the diagnosed fault was; else NULL. NULL also
 * if it can't be told, because either fault is in no known function. */
const struct evidence_stop *rerun_result_elsewhere(const struct diagnosis *diagnosis, const struct rerun_result *rerun);

extern const char *const rerun_outcome_words[]; /* of enum rerun_outcome; "" for RERUN_NOT_TRIED */
