/*
 * A finding as JSON, for programs. docs/report.md describes the schema. What is not known is absent. Addresses, streams and
 * other 64-bit numbers that are no amounts are strings "0x...". Pure; any thread.
 */
#ifndef CUFENCE_FINDING_JSON_H
#define CUFENCE_FINDING_JSON_H

#include "finding.h"

/* Rises when a field changes its meaning or goes; new fields do not raise it. */
#define JSON_SCHEMA 1

/* Returns malloc'ed text, one line that ends with a newline (the caller frees it), NULL when the host is out of memory. */
char *finding_json(const struct finding *finding);

#endif
