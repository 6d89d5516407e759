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
struct fault_origin {
    const struct fault_launch *launch; /* borrowed; NULL if none fits */
    enum certainty certainty;
    size_t fits; /* number of recorded kernel launches that fit; 0 with a launch: it is a graph launch */
};

/* The arguments of the launch. */
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

struct diagnosis {
    enum fault_kind kind;
    const struct evidence *evidence;  /* borrowed */
    const struct evidence_site *site; /* that the report is about; NULL if there is none. See fault_site() for its valid part */
    int is_bystander; /* every lane of the site's warp is known to be in bounds: another warp had faulted here and exited */
    int has_view;     /* `view` is the valid part of the site, or the site with the warp of the second launch */
    struct evidence_site view;
    size_t other_sites;               /* further warps with the same kernel and PC, or SMs where the warp had exited */
    size_t faulting_threads;          /* lanes of all alive sites with this kernel and PC whose access is out of bounds */
    const struct evidence_lane *lane; /* the lane with the first byte out of bounds; if no address is known, the first lane that
                                         the dump marks; NULL if the warp had exited */
    uint64_t address;                 /* start of its access, which may be inside the buffer */
    enum certainty address_certainty; /* CERTAIN_NOT if unknown */
    const cufence_buffer *owner;      /* borrowed from fault_memory, NULL if unknown */
    enum certainty owner_certainty;
    const char *owner_reason;    /* static: why this buffer and not its neighbour; NULL if owner is NULL */
    uint64_t distance;           /* of the first byte out of bounds from owner, like cufence_description.offset */
    int owner_parameter;         /* index of the 8-byte word in the parameter bytes that points to owner, -1 if none */
    const cufence_buffer *rival; /* the buffer on the other side of the guard, if it can't be ruled out; else NULL */
    uint64_t rival_distance;
    const cufence_buffer *previous; /* nearest live buffers on the same device, for the memory line */
    const cufence_buffer *next;
    const cufence_buffer *candidates[8]; /* from candidate_source, unless is_traced or is_const_excluded excluded it */
    int candidate_parameter[8];          /* index of the 8-byte word in the parameter bytes that points to it, -1 if none */
    size_t candidate_count;
    size_t candidate_total; /* total number of candidates */
    enum candidate_source candidate_source;
    enum certainty candidate_certainty; /* DERIVED for a single buffer if the code shows that the address comes from the
                                           argument, and no other launch is possible */
    int is_traced;                      /* the kernel's code excluded words that the address does not come from */
    int is_const_excluded;              /* arguments that are pointers to const were excluded, as the access writes */
    struct fault_origin origin;
    struct fault_arguments arguments;
    const struct fault_memory *memory; /* borrowed */
    const struct origin *cause;        /* what the address is made of (cause.h); borrowed; NULL if unknown */
    /* The second launch of the kernel: see rerun.h. */
    int is_rerun;         /* address and owner are what it did */
    int is_warp_of_rerun; /* the lanes, block and threads are those of its warps */
    int is_grid_of_rerun; /* grid, block and cluster are its own, because the dump has none */
    int has_first_exited; /* if is_warp_of_rerun: the warp of the first launch had exited */
};

/* Diagnoses a fault. Cannot fail; unknown facts stay unknown. `evidence` and `memory` must outlive *diagnosis. */
void fault_diagnose(const struct evidence *evidence, const struct fault_memory *memory, struct diagnosis *diagnosis);

/* Returns 1 if the address is known, and is not that of registers which may have changed since. */
int fault_is_address_sure(const struct diagnosis *diagnosis);

/* Returns the part of the site that belongs to the faulting warp: without threads, grid and parameters of another launch, and
 * with those of the second launch where it tells more. NULL if there is no site. Valid as long as the diagnosis. */
const struct evidence_site *fault_site(const struct diagnosis *diagnosis);

/* According to the kernel's code: the 8-byte word of the parameters that the address comes from, -1 if unknown; and whether
 * the pointer was loaded from memory. */
int fault_source_word(const struct diagnosis *diagnosis);
int fault_is_loaded(const struct diagnosis *diagnosis);

/* Fills in other places that faulted at the same time, one site for each, at most FAULT_PLACES. Returns their number. */
#define FAULT_PLACES 4
size_t fault_other_places(const struct diagnosis *diagnosis, const struct evidence_site *places[FAULT_PLACES]);

extern const char *const fault_kind_names[];
