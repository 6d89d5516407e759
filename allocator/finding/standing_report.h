/*
 * Renders where each thread of a core dump was, as text and as JSON. Pure; any thread.
 */
#pragma once

#include "analysis/dump/evidence.h"
#include "analysis/dump/standing.h"
#include "json/json_table.h"

struct standing_wishes {
    const struct evidence_site *site; /* the site whose lanes are listed with their addresses, NULL for none */
    size_t places;                    /* number of places to list; the text says how many it omits */
};

/* Returns malloc'ed text, or NULL if out of host memory. The caller frees it. */
char *standing_text(const struct standing *standing, const struct standing_wishes *wishes);

/* Returns an object with "threads", "warps", "places", "launches" and, if there are any, "lanes"; NULL if out of
 * host memory. */
json_t *standing_json(const struct standing *standing, const struct standing_wishes *wishes);
