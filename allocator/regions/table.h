/* The divisions, between table.c and who changes them. */
#pragma once

#include "regions.h"

#include "base/lock.h"

struct division {
    uint64_t number, buffer;     /* its own, and the id of its buffer */
    uint64_t start, bytes, rows; /* as in region_at */
    struct context *context;
    CUdeviceptr states;
    const void *divider;
    char name[REGION_TEXT];
    uint64_t poisoned; /* rows that are or were free, and may hold the pattern */
    struct region regions[];
};

/* Guards the divisions and their rows. No other lock is taken under it. */
extern struct lock regions_table_lock;

/* The functions below: caller holds it. */
int division_add(struct division *division); /* it overlaps no other one. 0: the host has no memory */
void division_remove(const struct division *division);
uint64_t division_end(const struct division *division);
/* The first by address that ends behind this one. NULL: none. To go on: division_next(division_end()). */
struct division *division_next(uint64_t address);
/* The division that has the address in it. NULL: none. */
struct division *division_at(uint64_t address);
struct region *division_row(const struct region_at *at);   /* the row that was copied there. NULL: its division is gone */
void division_context_gone(const struct context *context); /* frees those of the context. Without the lock */
void division_describe(const struct division *division, uint64_t address, struct region_at *out);
