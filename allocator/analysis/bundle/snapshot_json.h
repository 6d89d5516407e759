/*
 * Writes a snapshot as JSON, in the format that docs/explain.md describes, and reads it. So a fault can be explained on another
 * machine, in the same words.
 *
 * Ownership: as each function says. Pure; any thread.
 */
#pragma once

#include "base/error.h"
#include "analysis/verdict/rerun_result.h"
#include "snapshot.h"

/* Incremented when a field changes its meaning or is removed, not when a field is added. */
#define SNAPSHOT_VERSION 2

/* Where a snapshot comes from. */
struct snapshot_origin {
    int pid;
    int rank;              /* in a distributed job, -1 if none */
    int device;            /* the driver's ordinal, -1 if unknown */
    char device_name[128]; /* "" if unknown */
    char program[256];     /* its file name; "" if unknown */
    char options[1024];    /* CUFENCE_OPTIONS; "" if not set */
    uint64_t time_ns;      /* of CLOCK_REALTIME */
};

struct snapshot {
    struct snapshot_origin origin;
    struct fault_memory memory; /* points into the other fields */
    struct rerun_result rerun;  /* without its evidence; NOT_TRIED: there was no second launch */
};

/* rerun: what the second launch showed, NULL if there was none. Returns malloc'ed text that ends with a newline, or NULL if
 * out of host memory. The caller frees it. */
char *snapshot_write(const struct fault_memory *memory, const struct snapshot_origin *origin, const struct rerun_result *rerun);

/* Reads the output of snapshot_write() of this version, and checks every number in it. Release *out with snapshot_free().
 * Errors: CORRUPT, UNSUPPORTED (another version), OUT_OF_MEMORY; *out is then NULL. */
cufence_status snapshot_read(const char *text, size_t size, struct snapshot **out, struct problem *problem);
void snapshot_free(struct snapshot *snapshot); /* NULL is allowed */
