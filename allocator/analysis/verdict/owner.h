/*
 * The verdict on one access: the kind of fault, the buffer that it was meant for, and how certain that is.
 * Pure functions on the plain structs of evidence.h and diagnosis.h; any thread.
 */
#pragma once

#include "diagnosis.h"

/* The driver maps nothing below this address on any platform; fields of a null struct pointer are here. */
#define NULL_PAGE UINT64_C(0x10000)

/* Returns the verdict on the access of `lane`, or on the stop alone if lane is NULL or its address is unknown. An address at
 * which nothing can have faulted also gives the stop's verdict, with rank INNOCENT if it is certain, otherwise SITE. */
struct verdict owner_judge(const struct fault_memory *memory, const struct evidence_stop *stop,
                           const struct evidence_lane *lane);

/* The same if the access is known to be meant for `owner`, one of the kernel's arguments. `reason` says why. */
struct verdict owner_settle(const struct fault_memory *memory, const struct evidence_stop *stop,
                            const struct evidence_lane *lane, const cufence_buffer *owner, const char *reason);

/* Finds the first unmapped byte of [address, address + bytes), in *at. Returns 0 if all of them are mapped. */
int first_unmapped(const struct fault_memory *memory, uint64_t address, uint64_t bytes, uint64_t *at);

/* Returns 1 if the lane's address tells whether it faulted: of an earlier access, one outside of cufence's memory does not. */
int is_told(const struct fault_memory *memory, const struct evidence_lane *lane);

/* Returns the bytes of one lane's access; 1 if unknown. */
uint64_t access_bytes(const struct evidence_stop *stop);

/* Returns 1 if the lane's address is not a multiple of the access width. */
int is_misaligned(const struct evidence_stop *stop, const struct evidence_lane *lane);

/* diagnosis.c: the steps of a diagnosis, for the files of this folder. */

/* Like fault_diagnose(), but looks only at alive warps of the place. place: NULL for all stops. with_copies: see
 * diagnosis_is_copy(). */
void diagnosis_of_place(const struct evidence *evidence, const struct fault_memory *memory, const struct evidence_stop *place,
                        int with_copies, struct diagnosis *diagnosis);

/* Returns 1 if both stops are at the same instruction of the same kernel, wherever its code was loaded, or at equal accesses of
 * one source line, as an unrolled loop has them. 0 if either is at no known function. */
int diagnosis_is_copy(const struct evidence_stop *other, const struct evidence_stop *place);

/* Finds the parameter that points to the owner in the arguments, if it is unknown and their layout is known. Requires an
 * owner. */
void diagnosis_find_parameter(struct diagnosis *diagnosis);
