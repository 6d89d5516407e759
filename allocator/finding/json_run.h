/*
 * Lines of JSON besides those of findings: that a run has begun, and what a process has guarded (docs/json.md). A file with
 * them says that nothing was found where there is no finding in it. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_JSON_RUN_H
#define CUFENCE_FINDING_JSON_RUN_H

#include "finding.h"

#define KIND_RUN "run"
#define KIND_GUARDED "guarded"

/* What a process has guarded, and found, by its end. */
struct guarded {
    uint64_t allocations, peak_bytes, launches, findings, known;
    uint64_t left, left_bytes; /* allocations that were left to the driver */
};

/* Return one line of malloc'ed text that ends with a newline, or NULL if out of host memory. */
char *json_of_run(const struct finding_origin *origin);
char *json_of_guarded(const struct finding_origin *origin, const struct guarded *guarded);

struct members;
/* Adds "time" and "process". */
void json_put_process(struct members report, const struct finding_origin *origin);

#endif
