/*
 * The verdict on one access: what kind of fault it is, which buffer it was meant for, and how sure that is.
 * Pure functions over the plain structs of evidence.h and diagnosis.h; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VERDICT_OWNER_H
#define CUFENCE_ANALYSIS_VERDICT_OWNER_H

#include "diagnosis.h"

/* The driver maps nothing below this on any platform, and a field of a null pointer's struct lies there. */
#define NULL_PAGE UINT64_C(0x10000)

/* How much one lane, or a site without lanes, explains. The best of all is reported. */
enum rank {
    RANK_INNOCENT,   /* an access that cannot have faulted: in mapped memory that the device has access to, or aligned */
    RANK_SITE,       /* an exception, no address that says anything */
    RANK_INSIDE,     /* an address in a buffer of another device, which has not given access to it as far as is known */
    RANK_MISALIGNED, /* an address that is no multiple of the access */
    RANK_NOWHERE,    /* an unmapped address that belongs to no buffer */
    RANK_OWNED       /* an unmapped address that belongs to a buffer */
};

struct verdict {
    enum rank rank;
    enum fault_kind kind;
    const cufence_buffer *owner;
    enum certainty certainty;
    const char *reason;
    uint64_t distance;
    int parameter;
    const cufence_buffer *rival;
    uint64_t rival_distance;
    uint64_t at; /* the first byte that is not mapped */
};

/* The verdict on the access of `lane`, or, with lane = NULL or an unknown address, on the site alone. An address at which
 * nothing can have faulted gives the site's verdict too: as INNOCENT if it is sure, else as SITE. */
struct verdict owner_judge(const struct fault_memory *memory, const struct evidence_site *site,
                           const struct evidence_lane *lane);

/* The same where the access was meant for `owner`, one of the kernel's arguments, for a `reason` of the caller's. */
struct verdict owner_settle(const struct fault_memory *memory, const struct evidence_site *site,
                            const struct evidence_lane *lane, const cufence_buffer *owner, const char *reason);

/* The first byte of [address, address + bytes) that no mapping holds, in *at. Returns 0 if they hold all of it. */
int first_unmapped(const struct fault_memory *memory, uint64_t address, uint64_t bytes, uint64_t *at);

/* Bytes of one lane's access; 1 where the dump does not say. */
uint64_t access_bytes(const struct evidence_site *site);

/* Whether the lane's address is no multiple of its access. */
int is_misaligned(const struct evidence_site *site, const struct evidence_lane *lane);

#endif
