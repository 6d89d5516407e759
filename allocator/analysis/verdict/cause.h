/*
 * Why an access is out of bounds: what its address is made of (analysis/sass/origin.h), as a part of the diagnosis.
 * Pure functions on plain data; any thread.
 */
#pragma once

#include "analysis/dump/coredump.h"
#include "analysis/sass/origin.h"
#include "base/reader.h"
#include "diagnosis.h"

struct emulate_memory;

/* Returns 1 if the diagnosed access can be followed: a thread of which the address is known. */
int cause_access(const struct diagnosis *diagnosis, struct origin_access *access);

/* Follows the kernel `symbol` of a cubin. memory: NULL if none is at hand; an address that depends on it is then unknown.
 * Returns out->is_known. */
int cause_find(struct span cubin, const char *symbol, const struct rerun_launch *launch, const struct origin_access *access,
               const struct emulate_memory *memory, struct origin *out);

/* The same with the code and the arguments in a core dump, and without memory. Sets diagnosis->cause to `out` if it is known.
 */
void cause_in_dump(const struct coredump *dump, struct diagnosis *diagnosis, struct origin *out);

/* Enters what the address is made of, if it is that of the diagnosis: the buffer that its pointer leads to is the owner. */
void cause_take(struct diagnosis *diagnosis, const struct origin *cause);

/* Returns the wrap that explains the fault: without it, the access would be in the buffer that the pointer leads to. NULL if
 * there is none. */
const struct origin_wrap *cause_wrap(const struct diagnosis *diagnosis);
