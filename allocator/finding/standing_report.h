/*
 * Who stood where in a core dump, as text and as JSON. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_STANDING_REPORT_H
#define CUFENCE_FINDING_STANDING_REPORT_H

#include "analysis/dump/evidence.h"
#include "analysis/dump/standing.h"

struct standing_wishes {
    const struct evidence_site *site; /* whose lanes have lines, with their addresses; NULL: nobody's */
    const struct evidence *remains; /* of a truncated dump: its exceptions are listed, and counts are lower bounds; NULL if the
                                       dump is complete */
    size_t places;                  /* how many places have lines; the text says how many it leaves out */
    int has_registers;              /* those of the first thread of each place */
    int has_memory;                 /* `memory` is to be shown */
    uint64_t memory;                /* an address of the device */
};

/* Both return malloc'ed text (the caller frees it), NULL when the host is out of memory. */
char *standing_text(const struct coredump *dump, const struct standing *standing, const struct standing_wishes *wishes);

/* An object with "threads", "warps", "places", "launches" and, where there are, "memory" and "exceptions"; no newline behind
 * it. */
char *standing_json(const struct coredump *dump, const struct standing *standing, const struct standing_wishes *wishes);

#endif
