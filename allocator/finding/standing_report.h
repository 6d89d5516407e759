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
    int has_registers;                /* lists the registers of the first thread of each place */
    int has_memory;                   /* shows the bytes at `memory` */
    uint64_t memory;                  /* a device address */
};

/* Returns malloc'ed text, or NULL if out of host memory. The caller frees it. */
char *standing_text(const struct coredump *dump, const struct standing *standing, const struct standing_wishes *wishes);

/* Returns an object with "threads", "warps", "places", "launches" and, if there are any, "memory" and "lanes"; NULL if out of
 * host memory. */
json_t *standing_json(const struct coredump *dump, const struct standing *standing, const struct standing_wishes *wishes);
