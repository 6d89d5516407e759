/*
 * The exceptions in a GPU core dump (CUDBGException_t in the debugger's public headers). Static, pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_EXCEPTION_H
#define CUFENCE_ANALYSIS_DUMP_EXCEPTION_H

#include <stdint.h>

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

#endif
