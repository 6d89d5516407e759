/*
 * Makes a context's error real: a kernel of ours touches a guard, so that CUDA itself returns CUDA_ERROR_ILLEGAL_ADDRESS from
 * then on. Thread safety: poison_prepare() and poison_inject() from any thread.
 */
#ifndef CUFENCE_FAULT_POISON_H
#define CUFENCE_FAULT_POISON_H

#include "driver/driver.h"

#define POISON_KERNEL "cufence_poison"

/* Loads the kernel and makes a stream; the context is current. Must be done before the fault. */
void poison_prepare(CUcontext context, int device);

/* Launches it on every prepared context of the device (-1: all). Does not wait. */
void poison_inject(int device, uint64_t unmapped_address);

/* Whether an error is sticky in every prepared context of the device (-1: all); no context at all counts as yes. */
int poison_has_taken(int device);

#endif
