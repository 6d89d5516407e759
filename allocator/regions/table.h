/* The divisions, between table.c and who changes them. */
#ifndef CUFENCE_REGIONS_TABLE_H
#define CUFENCE_REGIONS_TABLE_H

#include "regions.h"

#include "base/lock.h"

struct division {
    uint64_t number, buffer;     /* its own, and the id of its buffer */
    uint64_t start, bytes, rows; /* as in region_at */
    struct context *context;
    CUdeviceptr states;
    char name[REGION_TEXT];
    uint64_t poisoned; /* rows that are or were free, and may hold the pattern */
    struct division *prev, *next;
    struct region regions[];
};

/* Guards the divisions and their rows. No other lock is taken under it. */
extern struct lock regions_table_lock;

/* The functions below: caller holds it. */
struct division *division_first(void);
void division_add(struct division *division);
void division_remove(struct division *division);
/* The division that has the address in it. NULL: none. */
struct division *division_at(uint64_t address);
void division_context_gone(const struct context *context); /* frees those of the context. Without the lock */
void division_describe(const struct division *division, uint64_t address, struct region_at *out);

#endif
