/*
 * The report as JSON: the same facts as fault_report_text(), for programs. docs/report.md describes the schema.
 * What is not known is absent. Addresses, streams and other 64-bit numbers that are no amounts are strings "0x...".
 * Pure functions; any thread.
 */
#ifndef CUFENCE_FINDING_JSON_H
#define CUFENCE_FINDING_JSON_H

#include "analysis/verdict/diagnosis.h"
#include "misuse.h"

/* Rises when a field changes its meaning or goes; new fields do not raise it. */
#define JSON_SCHEMA 1

/* All return malloc'ed text, one line that ends with a newline (the caller frees it), NULL when the host is out of memory. */
char *fault_report_json(const struct diagnosis *diagnosis, const struct report_origin *origin);

/* A fault of which nothing is known but why: kind FAULT_UNEXPLAINED. */
char *fault_unexplained_json(const char *reason, const struct report_origin *origin);

/* A call on the host that did something wrong with a buffer. */
char *fault_misuse_json(const struct misuse *misuse, const struct report_origin *origin);

#endif
