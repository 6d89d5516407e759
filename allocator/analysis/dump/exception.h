/*
 * The exceptions that a GPU core dump carries (CUDBGException_t of the debugger's public headers). Static, pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_EXCEPTION_H
#define CUFENCE_ANALYSIS_DUMP_EXCEPTION_H

#include <stdint.h>

/* What an exception says about the address of an access. */
enum exception_class {
    CLASS_OTHER,      /* nothing: what it is about is not known */
    CLASS_ADDRESS,    /* it is not mapped */
    CLASS_GIVEN_ONLY, /* the same, but raised for shared and local memory too: without an address nothing is known */
    CLASS_MISALIGNED, /* it is no multiple of the access */
    CLASS_NO_BUFFER   /* there is none: no access to global memory is involved */
};

/* One in words. Static strings. */
struct exception {
    uint32_t number;  /* the dump's, to be told and not to be looked at */
    const char *name; /* "illegal address", "misaligned address", ...; "unknown exception" for others, never NULL */
    enum exception_class class;
    const char *meaning; /* of one that is not about a global address: what happened, and ... */
    const char *cause;   /* ... what often causes it. NULL where there is no more to say than the name does */
    int error;           /* the CUresult that CUDA answers to every call in the context from then on; where nothing better is
                            documented CUDA_ERROR_LAUNCH_FAILED */
};

/* instruction: the one that raised it ("BPT"), NULL if unknown. */
struct exception exception_of(uint32_t number, const char *instruction);

#endif
