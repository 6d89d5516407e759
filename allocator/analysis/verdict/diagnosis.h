/*
 * Diagnosis: combines evidence and the known buffers into one plain struct that says what happened.
 * Pure functions on plain data, so that every case is tested without a GPU.
 */
#pragma once

#include "analysis/dump/evidence.h"
#include "analysis/bundle/snapshot.h"

enum fault_kind {
    FAULT_OVERRUN,        /* past the end of a live buffer */
    FAULT_UNDERRUN,       /* before the start of a live buffer */
    FAULT_USE_AFTER_FREE, /* in a freed buffer */
    FAULT_WILD,           /* in our address space with nothing nearby, or a device address outside any known memory */
    FAULT_NULL,           /* the first 64 KiB of the address space: a null pointer plus an offset */
    FAULT_HOST_POINTER,   /* an address that the host has mapped: host memory passed to a kernel */
    FAULT_MISALIGNED,     /* exception 6 */
    FAULT_ILLEGAL_ACCESS, /* an illegal address with unknown value (the warp had exited, or the instruction can't be decoded),
                             or one in a mapped buffer that this device has no access to */
    FAULT_OTHER           /* an exception that is not about memory: assert, trap, illegal instruction, stack overflow */
};

struct origin;

/* The launch that faulted. */
struct launch_match {
    const struct fault_launch *launch; /* borrowed; NULL if none fits */
    enum certainty certainty;
    size_t fits; /* number of recorded kernel launches that fit; 0 with a launch: it is a graph launch */
};

struct fault_arguments {
    const struct launch_function *layout; /* NULL if the boundaries of the arguments are unknown */
    const uint8_t *bytes;                 /* the parameter bytes, NULL if unknown */
    size_t count;                         /* number of bytes; less than in the layout if they were truncated */
    enum certainty certainty;             /* EXACT if from the dump, RERUN if from that of the second launch, otherwise that
                                             of the launch */
    uint64_t time_ns;                     /* of the launch that they come from, 0 if from the dump */
};

/* Where candidates for an unknown address come from. */
enum candidate_source {
    CANDIDATES_LIVE,      /* the newest live buffers of the device */
    CANDIDATES_ARGUMENTS, /* the kernel's parameters in the dump */
    CANDIDATES_LAUNCHES,  /* the arguments of those recorded launches that fit */
    CANDIDATES_RUNNING    /* the parameters of the kernel's only running launch, which need not be the faulting one */
};

/* How much a lane, or a stop without lanes, explains. The highest rank is reported. */
enum rank {
    RANK_INNOCENT,   /* the access cannot have faulted: in mapped memory that the device has access to, or aligned */
    RANK_SITE,       /* an exception without a meaningful address */
    RANK_INSIDE,     /* an address in a buffer of another device, which is not known to have granted access */
    RANK_MISALIGNED, /* an address that is not a multiple of the access width */
    RANK_NOWHERE,    /* an unmapped address that belongs to no buffer */
    RANK_OWNED       /* an unmapped address that belongs to a buffer */
};

/* What is wrong with an access, and which buffer it was meant for. Without an owner, all below `owner` is zero. */
struct verdict {
    enum rank rank;
    enum fault_kind kind;
    uint64_t at;                 /* the first byte out of bounds */
    int parameter;               /* index of the 8-byte word in the parameter bytes that points to the owner, -1 if none */
    const cufence_buffer *owner; /* borrowed from fault_memory, NULL if unknown */
    enum certainty certainty;
    const char *reason;          /* static: why this buffer and not its neighbour */
    uint64_t distance;           /* of the first byte out of bounds from owner, like cufence_description.offset */
    const cufence_buffer *rival; /* the buffer on the other side of the guard, if it can't be ruled out; else NULL */
    uint64_t rival_distance;
};

struct fault_access {
    const struct evidence_lane *lane; /* the lane with the first byte out of bounds; if no address is known, the first lane that
                                         the dump marks; NULL if the warp had exited */
    uint64_t address;                 /* its start, which may be inside the buffer */
    enum certainty certainty;         /* CERTAIN_NOT if unknown */
    size_t threads;                   /* lanes of all alive stops with this kernel and PC whose access is out of bounds */
    size_t other_stops;               /* further warps with the same kernel and PC, or SMs where the warp had exited */
};

/* Which words of the parameters lead to no candidate. */
enum exclusion {
    EXCLUDED_NONE,
    EXCLUDED_BY_CODE, /* by the kernel's code, the address does not come from them */
    EXCLUDED_CONST    /* they are pointers to const, and the access writes */
};

/* Buffers that an access without a known owner may have been meant for. */
struct fault_candidates {
    const cufence_buffer *list[8];
    int parameter[8]; /* index of the 8-byte word in the parameter bytes that points to it, -1 if none */
    size_t count;
    size_t total;
    enum candidate_source source;
    enum exclusion excluded;
    enum certainty certainty; /* DERIVED for a single buffer if the code shows that the address comes from the argument, and no
                                 other launch is possible */
};

/* What of a diagnosis the second launch of the kernel tells: see rerun.h. */
enum fault_again {
    AGAIN_NOTHING,
    AGAIN_WRITES, /* address and owner: it wrote there */
    AGAIN_WARP,   /* the lanes, block and threads are those of its warp; and address and owner, if the exception has one */
    AGAIN_GRID    /* the same, and grid, block and cluster are its own, because the dump has none */
};

/*
 * What happened. These go together:
 *   no stop:           the dump names no exception. `verdict` is FAULT_OTHER without an owner, the rest is zero
 *   address unknown:   no owner. Candidates only for FAULT_ILLEGAL_ACCESS. No lane if the warp had exited
 *   address known:     an owner for an overrun, an underrun and use after free; one is possible for FAULT_MISALIGNED and
 *                      FAULT_ILLEGAL_ACCESS; none for a null, host or wild address, of which the last has candidates
 *   bystander:         no lane and no address; `again` may add both
 *   again:             from AGAIN_WARP on there is a lane, and `view` has an alive warp. AGAIN_WRITES has no lane that matters
 *   cause:             the address is known, and its lane
 */
struct diagnosis {
    const struct evidence *evidence;   /* borrowed */
    const struct fault_memory *memory; /* borrowed */
    const struct evidence_stop *stop;  /* that the report is about; NULL if there is none */
    struct evidence_stop view;         /* its valid part, with the warp of the second launch if that tells more: fault_stop() */
    int is_bystander; /* every lane of the stop's warp is known to be in bounds: another warp had faulted here and exited */
    struct verdict verdict;
    struct fault_access access;
    struct fault_candidates candidates;
    struct launch_match origin;
    struct fault_arguments arguments;
    enum fault_again again;
    const struct origin *cause; /* what the address is made of (cause.h); borrowed; NULL if unknown */
};

/* Diagnoses a fault. Cannot fail; unknown facts stay unknown. `evidence` and `memory` must outlive *diagnosis. */
void fault_diagnose(const struct evidence *evidence, const struct fault_memory *memory, struct diagnosis *diagnosis);

/* Returns 1 if the address is known, and is not that of registers which may have changed since. */
int fault_is_address_sure(const struct diagnosis *diagnosis);

/* Returns the part of the stop that belongs to the faulting warp: without threads, grid and parameters of another launch, and
 * with those of the second launch where it tells more. NULL if there is no stop. Valid as long as the diagnosis. */
const struct evidence_stop *fault_stop(const struct diagnosis *diagnosis);

/* According to the kernel's code: the 8-byte word of the parameters that the address comes from, -1 if unknown; and whether
 * the pointer was loaded from memory. */
int fault_source_word(const struct diagnosis *diagnosis);
int fault_is_loaded(const struct diagnosis *diagnosis);

/* Returns 1 if the warp of the first launch had exited. Requires a stop. */
int fault_has_exited(const struct diagnosis *diagnosis);

/* Finds the nearest live buffers on both sides of a known address, on the owner's device if there is an owner; else NULL. */
struct fault_neighbours {
    const cufence_buffer *previous, *next;
};
struct fault_neighbours fault_neighbours(const struct diagnosis *diagnosis);

/* Fills in other places that faulted at the same time, one stop for each, at most FAULT_PLACES. Returns their number. */
#define FAULT_PLACES 4
size_t fault_other_places(const struct diagnosis *diagnosis, const struct evidence_stop *places[FAULT_PLACES]);

extern const char *const fault_kind_names[];
