/*
 * cufence's own kernels. Each runs as one thread on a stream of its own in every context:
 *
 *   fence   does nothing. If a kernel's last instruction is a store or atomic that faults, the warp is already over, and so is
 *           the kernel as the host sees it: a synchronisation returns success 50 to 100 ms before the driver begins to
 *           write the dump. But the device is already stopped, so a kernel launched now waits until the dump is written
 *           (H100, driver 580.159.04: in 12 of 12 runs; 9 us if nothing has faulted).
 *   poison  touches a guard, so that the context gets a real, sticky error in cases where the driver sets none.
 *
 * Thread safety: from any thread.
 */
#pragma once

#include "contexts/contexts.h"

#include <stddef.h>

#define FENCE_KERNEL "cufence_fence"
#define POISON_KERNEL "cufence_poison"

/* Loads the kernels and creates the stream. The context is current. Called before any fault. */
void kernels_prepare(struct context *context);

/*
 * Launches a fence in `context` (NULL: every prepared one), except on devices for which is_left_out() is true, and waits for
 * it. `give_up(user)` is called every 20 us to 1 ms; waiting ends when it returns nonzero.
 */
void kernels_fence(const struct context *context, int (*is_left_out)(int device), int (*give_up)(void *user), void *user);

/* Launches the poison kernel in every prepared context of the device (-1: all). Does not wait. Returns the number of
 * launches. */
unsigned kernels_poison(int device, uint64_t unmapped_address);

#define KERNELS_PIECES 256

/* Bytes to be read from the device. */
struct kernels_piece {
    uint64_t address;
    uint8_t *to;
    size_t bytes;
    int is_read; /* out */
};

/* Reads memory of the device, such as variables of modules, after a kernel has faulted there: with armed dumps, the driver lets
 * a context go on for some 20 ms after its dump. Takes `ms` at most. Returns the number of pieces that were read. */
size_t kernels_read(int device, struct kernels_piece *pieces, size_t count, unsigned ms);

/* Returns the device of the current context, -1 if there is none or it is not prepared. Works for a context with an error
 * too. */
int kernels_current_device(void);

/* Returns the only device with prepared contexts, -1 if there are several devices or none. */
int kernels_only_device(void);

/*
 * Loads kernels from PTX into the current context, which keeps them until it ends. Their launches are not hooked. functions
 * receives one for each name. Returns 0 if the driver refuses any of them. Slow (the driver compiles): call it once a context.
 */
int kernels_load(const char *ptx, const char *const *names, CUfunction *functions, size_t count);

/* cuLaunchKernel() in one dimension, without shared memory. The first one of a kernel makes the driver load its code. */
CUresult kernels_launch(CUfunction function, unsigned blocks, unsigned threads, CUstream stream, void **arguments);

/* Called when the context no longer exists. */
void kernels_forget(const struct context *context);

/* Whether every prepared context of the device (-1: all) has a sticky error; yes if there is no context at all. */
int kernels_have_failed(int device);
