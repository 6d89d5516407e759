/*
 * The steps of a diagnosis, for the files of this folder. Pure functions on plain structs; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VERDICT_DIAGNOSIS_PARTS_H
#define CUFENCE_ANALYSIS_VERDICT_DIAGNOSIS_PARTS_H

#include "diagnosis.h"
#include "owner.h"

/* Like fault_diagnose(), but looks only at alive warps of the place. place: NULL for all sites. */
void diagnosis_of_place(const struct evidence *evidence, const struct fault_memory *memory, const struct evidence_site *place,
                        struct diagnosis *diagnosis);

/* Returns 1 if both sites are at the same instruction of the same kernel, wherever its code was loaded. 0 if either is at no
 * known function. */
int diagnosis_is_place(const struct evidence_site *other, const struct evidence_site *place);

/* Enter the verdict, and the address with the live buffers around `at`, its first byte out of bounds. */
void diagnosis_take(struct diagnosis *diagnosis, const struct verdict *verdict);
void diagnosis_take_address(struct diagnosis *diagnosis, uint64_t address, enum certainty certainty, uint64_t at);

/* Finds the parameter that points to the owner in the arguments, if it is unknown and their layout is known. Requires an
 * owner. */
void diagnosis_find_parameter(struct diagnosis *diagnosis);

#endif
