/*
 * Evidence: what a witness (today: a GPU core dump) shows about a fault, as plain data, without knowledge of buffers.
 * Ownership: evidence_free() releases it all.
 */
#pragma once

#include "base/error.h"
#include "base/shape.h"
#include "json/json_memory.h"

#include <cufence.h>

/* ---- exception.c: the exceptions in a GPU core dump (CUDBGException_t in the debugger's public headers). Static, pure ---- */

/* What an exception tells about the address of an access. */
enum exception_class {
    CLASS_OTHER,      /* nothing: its cause is unknown */
    CLASS_ADDRESS,    /* the address is not mapped */
    CLASS_GIVEN_ONLY, /* the same, but also raised for shared and local memory: means nothing without an address */
    CLASS_MISALIGNED, /* the address is not a multiple of the access width */
    CLASS_NO_BUFFER   /* no access to global memory is involved */
};

/* Of a warp that __trap() has stopped, for which a dump names no exception. */
#define EXCEPTION_TRAP 0x100u
#define EXCEPTION_ASSERT 12u

/* An exception in words. Static strings. */
struct exception {
    uint32_t number;  /* as in the dump, or EXCEPTION_TRAP; for printing only */
    const char *name; /* "illegal address", "misaligned address", ...; "unknown exception" for others, never NULL */
    enum exception_class class;
    const char *meaning; /* what happened, for exceptions that are not about a global address, and ... */
    const char *cause;   /* ... a frequent cause. NULL if the name says it all */
    int error;           /* the CUresult that CUDA returns from every later call in the context; CUDA_ERROR_LAUNCH_FAILED if not
                            documented otherwise */
};

/* Returns the words for an exception. instruction: the mnemonic that raised it ("BPT"), NULL if unknown. */
struct exception exception_of(uint32_t number, const char *instruction);

/* ---- evidence.c ---- */

struct coredump;

enum access_kind { ACCESS_UNKNOWN, ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC };

/* How certain a fact is. RESTAGED: true of a second launch of the kernel, on the memory as the fault left it; evidence itself
 * never has it. */
enum certainty { CERTAIN_NOT, CERTAIN_CANDIDATE, CERTAIN_DERIVED, CERTAIN_RERUN, CERTAIN_EXACT };

/* Where the address of an access comes from, according to the kernel's code: see slice.h. */
struct address_source {
    int is_known;
    uint32_t words; /* bit n: the address includes 8-byte word n of the parameter bytes; valid if is_known */
    int is_loaded;  /* the address includes a value loaded from memory; valid if is_known */
};

/* A part of a tensor that is copied at once: the coordinates of its corner, innermost first. */
struct evidence_box {
    unsigned dimensions; /* 0: unknown, or nothing was copied by a tensor map */
    int32_t corner[5];
};

struct evidence_lane {
    uint32_t lane;
    uint32_t thread[3];
    uint64_t address;         /* of the access; valid if certainty is not CERTAIN_NOT */
    enum certainty certainty; /* EXACT: the registers cannot have changed since the access; DERIVED: they may have */
    int is_replayed;          /* the address comes from emulating the lane's path: certainty is DERIVED */
    int is_earlier;           /* likewise, but the lane may have been at the access again since, elsewhere: certainty is NOT */
    int may_be_apart;         /* it may not have made the access: by its predicate, or another way to its PC */
    int has_exception;        /* the dump marks this lane */
};

/* One faulting warp or, if the warp had exited, the error PC of its SM. */
struct evidence_stop {
    struct exception exception;
    uint64_t error_pc;  /* 0 if unknown */
    int is_warp_alive;  /* registers, block, threads and grid below are valid */
    const char *kernel; /* demangled, NULL if the PC is in no known function */
    const char *symbol; /* as in the cubin */
    uint64_t kernel_start;
    uint64_t
        kernel_offset; /* of the instruction in the compiler's code: error_pc - kernel_start, unless it was moved (fence.h) */
    int is_in_driver;  /* error_pc is in code that is not in the dump and that the kernel called: the driver's own, as for a
                          failed assert(). Then kernel_offset, file, line and instruction are unknown */
    const char *file;  /* NULL without line information */
    int line;
    const char *instruction; /* e.g. "STG.E.128 [R2.64+0x10], R4"; NULL if not decoded */
    enum access_kind access;
    uint32_t access_bytes;        /* per lane; 0 if unknown */
    struct evidence_box box;      /* of a copy by a tensor map; then there is one lane, which began it */
    struct address_source source; /* of the access's address */
    int has_grid;                 /* grid fields are valid */
    int is_grid_borrowed; /* for an exited warp: the grid and the parameters are those of the kernel's only running grid, which
                             need not be the warp's */
    uint64_t grid_id;
    SHAPE;
    const uint8_t *parameters; /* the kernel's parameter bytes, NULL if the dump has none */
    size_t parameter_bytes;
    uint32_t block_index[3]; /* valid if is_warp_alive */
    uint32_t sm, warp;
    struct evidence_lane *lanes; /* the faulting lanes, in lane order; at least one if is_warp_alive */
    size_t lane_count;
};

struct evidence {
    char device_name[128]; /* as in the dump, "" if missing */
    uint32_t device;       /* the dump's device index */
    uint32_t pci_bus, pci_device;
    char sm_type[16];                    /* "sm_90" */
    uint64_t context;                    /* the dump's context id */
    uint32_t host_tid;                   /* of the thread that launched the grid, 0 if unknown */
    uint32_t driver_major, driver_minor; /* of the driver that wrote the dump, 0 if unknown */
    struct evidence_stop *stops; /* alive warps first; stops with equal symbol and PC on other SMs are kept, in SM order */
    size_t stop_count;           /* 0: the dump has no exception */
    size_t warps, grids;         /* that ran when the dump was made: on all devices, on this one */
    struct json_memory memory;   /* of what the stops have */
};

/*
 * Reads a GPU core dump (ELF64, machine 0xBE) of `size` bytes. Checks every offset, count and size in it: a damaged dump
 * results in CORRUPT or less evidence, never in a crash, a hang, or memory proportional to a claimed size.
 * Errors: CORRUPT, UNSUPPORTED (rows smaller than in the oldest known version), OUT_OF_MEMORY (host); *out is then NULL. Pure:
 * no globals; any thread.
 */
cufence_status evidence_from_coredump(const void *bytes, size_t size, struct evidence **out, struct problem *problem);
/* The same for an open dump; the result does not point into the dump. Errors: OUT_OF_MEMORY. */
cufence_status evidence_read(const struct coredump *dump, struct evidence **out, struct problem *problem);

void evidence_free(struct evidence *evidence); /* NULL is allowed */
