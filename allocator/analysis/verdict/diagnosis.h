/*
 * Diagnosis: evidence + what is known of the buffers -> one plain struct that says what happened.
 * Pure functions over plain data, so that every case is tested without a GPU.
 */
#ifndef CUFENCE_ANALYSIS_VERDICT_DIAGNOSIS_H
#define CUFENCE_ANALYSIS_VERDICT_DIAGNOSIS_H

#include "analysis/dump/evidence.h"
#include "analysis/snapshot/snapshot.h"

enum fault_kind {
    FAULT_OVERRUN,        /* past the end of a live buffer */
    FAULT_UNDERRUN,       /* before the start of a live buffer */
    FAULT_USE_AFTER_FREE, /* in a freed buffer */
    FAULT_WILD,           /* in our address space where nothing is near, or a device address that is nobody's */
    FAULT_NULL,           /* the first 64 KiB of the address space: a null pointer with an offset */
    FAULT_HOST_POINTER,   /* an address that the host has mapped: host memory given to a kernel */
    FAULT_MISALIGNED,     /* exception 6 */
    FAULT_ILLEGAL_ACCESS, /* an illegal address whose value is not known (the warp had exited, or no decoder for it), or one
                             in a mapped buffer that this device has no access to */
    FAULT_OTHER           /* an exception that is not about memory: assert, trap, illegal instruction, stack overflow */
};

/* The launch that faulted. */
struct fault_origin {
    const struct fault_launch *launch; /* borrowed; NULL if none fits */
    enum certainty certainty;
    size_t fits; /* how many kernel launches on record may have been it; 0 with a launch: that is of a graph */
};

/* What the kernel was given. */
struct fault_arguments {
    const struct launch_function *layout; /* NULL: where one argument ends and the next begins is not known */
    const uint8_t *bytes;                 /* the parameter bytes, NULL if they are not known */
    size_t count;                         /* of them, less than the layout says where they were cut */
    enum certainty certainty;             /* EXACT from the dump; else that of the launch */
    uint64_t time_ns;                     /* of the launch that they are from, 0 where the dump has them */
};

/* Where candidates for an unknown address come from. */
enum candidate_source {
    CANDIDATES_LIVE,      /* the newest live buffers of the device */
    CANDIDATES_ARGUMENTS, /* the kernel's parameters in the dump */
    CANDIDATES_LAUNCHES,  /* the arguments of those launches on record that fit */
    CANDIDATES_RUNNING    /* the parameters of the only launch of the kernel that still ran, which need not be the one */
};

struct diagnosis {
    enum fault_kind kind;
    const struct evidence *evidence;  /* borrowed */
    const struct evidence_site *site; /* the site the report is about; NULL if the dump held none. fault_site() tells what
                                         of it counts */
    int is_bystander;                 /* every lane of the site's warp is known to be in bounds: another warp had faulted here,
                                         and exited */
    int has_view;                     /* `view` is what of the site counts */
    struct evidence_site view;
    size_t other_sites;               /* further warps of the same kernel and PC, or SMs where the warp had exited */
    size_t faulting_threads;          /* lanes of all alive sites of this kernel and PC whose access lies out of bounds */
    const struct evidence_lane *lane; /* the one with the first byte out of bounds; where no address is known, the first one
                                         that the dump marks; NULL if the warp had exited */
    uint64_t address;                 /* where its access begins, which may be inside the buffer; lane->address may lack
                                         a half of it */
    enum certainty address_certainty; /* CERTAIN_NOT if unknown */
    int is_completed;                 /* the evidence has the low half of the address, and near the buffers that the
                                         kernel's parameters point to only this address explains it: DERIVED */
    const cufence_buffer *owner;      /* borrowed from fault_memory, NULL if unknown */
    enum certainty owner_certainty;
    const char *owner_reason;    /* static: why this buffer and not its neighbour; NULL if owner is NULL */
    uint64_t distance;           /* of the first byte out of bounds, as cufence_description.offset, for owner */
    int owner_parameter;         /* index of the 8-byte word in the parameter bytes that points to owner, -1 if none */
    const cufence_buffer *rival; /* the buffer on the other side of the guard, where nothing rules it out; else NULL */
    uint64_t rival_distance;
    const cufence_buffer *previous; /* nearest live buffers of the same device, for the memory line */
    const cufence_buffer *next;
    const cufence_buffer *candidates[8]; /* of candidate_source, as far as is_narrowed and is_const_excluded leave them */
    int candidate_parameter[8];          /* index of the 8-byte word in the parameter bytes that points to it, -1 if none */
    size_t candidate_count;
    size_t candidate_total; /* how many there are in all */
    enum candidate_source candidate_source;
    enum certainty candidate_certainty; /* DERIVED for the only buffer, if the code shows that the address comes from the
                                           argument, and the launch can have been no other */
    int is_narrowed;                    /* by the high half of the address */
    int is_traced;                      /* by the kernel's code: to what the words point to that the address comes from */
    int is_const_excluded;              /* arguments that are pointers to const were left out, as the access writes */
    struct fault_origin origin;
    struct fault_arguments arguments;
    const struct fault_memory *memory; /* borrowed */
};

/* Decides. Never fails; what cannot be known stays unknown. `evidence` and `memory` must outlive *diagnosis. */
void fault_diagnose(const struct evidence *evidence, const struct fault_memory *memory, struct diagnosis *diagnosis);

/* The site as far as it is about the warp that faulted: without threads, grid and parameters that are another launch's. NULL
 * if there is none; lives as long as the diagnosis. */
const struct evidence_site *fault_site(const struct diagnosis *diagnosis);

/* By the kernel's code: the 8-byte word of the parameters that the address comes from, -1 if that is not known; and whether the
 * pointer was loaded from memory. */
int fault_source_word(const struct diagnosis *diagnosis);
int fault_is_loaded(const struct diagnosis *diagnosis);

/* Other places where something faulted at once, one site of each, at most so many. Returns how many. */
#define FAULT_PLACES 4
size_t fault_other_places(const struct diagnosis *diagnosis, const struct evidence_site *places[FAULT_PLACES]);

/* "overrun", "underrun", "use-after-free", "wild address", "null pointer", "host pointer", "misaligned access",
 * "illegal access", "exception". Static. */
const char *fault_kind_name(enum fault_kind kind);

#endif
