/*
 * Renders a finding as text: each fact is marked exact, derived or candidate, and unknown facts are omitted. Every line starts
 * with "==pid==". docs/report.md describes the lines. Pure; any thread.
 */
#pragma once

#include "finding.h"

#include "analysis/dump/standing.h"
#include "json/json_table.h"

/* Returns malloc'ed text that ends with a newline, or NULL if out of host memory. The caller frees it. */
char *finding_text(const struct finding *finding);

/* The same with escape sequences for a terminal: highlights the answer, the source line and the certainties, and dims the
 * prefix. Ownership as above. */
char *colour_text(const char *text);

/* Returns a workflow command of GitHub Actions, which the host shows at the source line:
 * "::error file=oob.py,line=9,title=cufence%3A overrun::out-of-bounds WRITE ...\n". `folder`: the checkout, which is removed
 * from paths; may be NULL. Ownership as above. */
char *finding_annotation(const struct finding *finding, const char *folder);

/* ---- where each thread of a core dump was ---- */

/* stop: whose lanes are listed with their addresses; NULL for none. places: how many to list; the text says how many it omits.
 * Returns malloc'ed text, or NULL if out of host memory. The caller frees it. */
char *standing_text(const struct standing *standing, const struct evidence_stop *stop, size_t places);

/* Appends what the threads do: "in a loop until the 4 bytes at 0x7f0000 change". */
void standing_add_wait(const struct standing_place *place, char *text, size_t size);

/* The same as standing_json(), as a table. */
extern const struct json_table standing_facts;

/* Returns an object with "threads", "warps", "places", "launches" and, if there are any, "lanes"; NULL if out of
 * host memory. */
json_t *standing_json(const struct standing *standing, const struct evidence_stop *stop, size_t places);
