/*
 * What the demangled name of a kernel says about its arguments. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VERDICT_SIGNATURE_H
#define CUFENCE_ANALYSIS_VERDICT_SIGNATURE_H

#include <stddef.h>

/* Whether argument `index` of `count` is a pointer to const in a name such as "void k<float>(float const*, float*, int)": a
 * store is not meant for what it points to. 0 where the name has no list of arguments, or one of another length. */
int signature_is_const(const char *name, size_t count, size_t index);

#endif
