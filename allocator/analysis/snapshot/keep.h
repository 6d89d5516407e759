/*
 * A snapshot as bytes: JSON, by jansson, in the form that docs/explain.md describes. What was known in the program that faulted
 * can so be told elsewhere, in the same words.
 *
 * Ownership: as each function says. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_KEEP_H
#define CUFENCE_ANALYSIS_SNAPSHOT_KEEP_H

#include "base/problem.h"
#include "snapshot.h"

/* Rises when a field changes its meaning or goes; new fields do not raise it. */
#define SNAPSHOT_VERSION 1

/* Where it comes from. */
struct snapshot_origin {
    int pid;
    int rank;              /* of a distributed job, -1 if there is none */
    int device;            /* the driver's ordinal, -1 if unknown */
    char device_name[128]; /* "" if unknown */
    char program[256];     /* its file; "" if unknown */
    char options[1024];    /* CUFENCE_OPTIONS; "" without any */
    uint64_t time_ns;      /* of CLOCK_REALTIME */
};

struct snapshot {
    struct snapshot_origin origin;
    struct fault_memory memory; /* points into the rest */
};

/* malloc'ed text that ends with a newline, which the caller frees; NULL when the host is out of memory. */
char *snapshot_write(const struct fault_memory *memory, const struct snapshot_origin *origin);

/* Reads what snapshot_write() has made, of this version, distrusting every number in it. *out is for snapshot_free().
 * Errors: CORRUPT, UNSUPPORTED (another version), OUT_OF_MEMORY; *out is NULL then. */
cufence_status snapshot_read(const char *text, size_t size, struct snapshot **out, struct problem *problem);
void snapshot_free(struct snapshot *snapshot); /* NULL is fine */

#endif
