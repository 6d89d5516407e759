/*
 * Names of the exceptions that a GPU core dump carries (CUDBGException_t of the debugger's public headers). Static, pure.
 */
#ifndef CUFENCE_FAULT_EXCEPTION_H
#define CUFENCE_FAULT_EXCEPTION_H

#include <stdint.h>

/* "illegal address", "misaligned address", ...; "unknown exception" for others, never NULL. */
const char *exception_name(uint32_t exception);

#endif
