/*
 * Renders a finding as JSON. docs/json.md describes the schema. Unknown facts are absent. Addresses, streams and other 64-bit
 * numbers that are not amounts are strings "0x...". Pure; any thread.
 */
#ifndef CUFENCE_FINDING_JSON_H
#define CUFENCE_FINDING_JSON_H

#include "finding.h"

/* Incremented when a field changes its meaning or is removed, not when a field is added. */
#define JSON_SCHEMA 2

/* Returns one line of malloc'ed text that ends with a newline, or NULL if out of host memory. The caller frees it. */
char *finding_json(const struct finding *finding);

#endif
