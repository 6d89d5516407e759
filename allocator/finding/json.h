/*
 * The lines of JSON that cufence writes: findings, that a run has begun, and what a process has guarded (docs/json.md). A file
 * with the latter says that nothing was found where there is no finding in it. Pure; any thread.
 */
#pragma once

#include "finding.h"

/* Incremented when a member changes its meaning or is removed, not when one is added. */
#define JSON_SCHEMA 2

/* The facts as records: what is in the JSON, in which order and under which names. A reader of the JSON fills in a struct
 * finding with them. */
extern const struct json_table finding_facts; /* struct finding */
extern const struct json_table process_facts; /* struct finding_source */

#define KIND_RUN "run"
#define KIND_GUARDED "guarded"

/* Return one line of malloc'ed text that ends with a newline, or NULL if out of host memory. guarded: NULL: that a run has
 * begun.
 */
char *finding_json(const struct finding *finding);
char *json_of_guarded(const struct finding_source *origin, const struct guarded *guarded);
