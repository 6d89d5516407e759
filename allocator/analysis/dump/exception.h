/*
 * The exceptions that a GPU core dump carries (CUDBGException_t of the debugger's public headers). Static, pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_EXCEPTION_H
#define CUFENCE_ANALYSIS_DUMP_EXCEPTION_H

#include <cuda.h>
#include <stdint.h>

/* What an exception says about the address of an access. */
enum exception_class {
    CLASS_OTHER,      /* nothing: what it is about is not known */
    CLASS_ADDRESS,    /* it is not mapped */
    CLASS_GIVEN_ONLY, /* the same, but raised for shared and local memory too: without an address nothing is known */
    CLASS_MISALIGNED, /* it is no multiple of the access */
    CLASS_NO_BUFFER   /* there is none: no access to global memory is involved */
};

/* "illegal address", "misaligned address", ...; "unknown exception" for others, never NULL. */
const char *exception_name(uint32_t exception);

enum exception_class exception_class_of(uint32_t exception);

/* One that is not about a global address in words: what happened, and what often causes it. NULL where there is no more to say
 * than the name does. instruction  the one that raised it ("BPT"), NULL if unknown */
const char *exception_meaning(uint32_t exception, const char *instruction);
const char *exception_cause(uint32_t exception, const char *instruction);

/* What CUDA answers to every call in the context from then on; where nothing better is documented CUDA_ERROR_LAUNCH_FAILED. */
CUresult exception_error(uint32_t exception);

#endif
