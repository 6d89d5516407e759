/*
 * Our own kernels, one thread each, on a stream of their own in every context:
 *
 *   fence   does nothing. A store or atomic that is its kernel's last instruction faults when its warp, and for the host the
 *           whole kernel, is over: a synchronisation returns success, 50 to 100 ms before the driver begins to write the
 *           dump. But the device is stopped already, so a kernel that is launched now waits until the dump is written
 *           (H100, driver 580.159.04: in 12 of 12 runs; 9 us where nothing has faulted).
 *   poison  touches a guard, so that the context's error becomes real where the driver does not see to that itself.
 *
 * Thread safety: from any thread.
 */
#ifndef CUFENCE_KERNELS_KERNELS_H
#define CUFENCE_KERNELS_KERNELS_H

#include "contexts/contexts.h"

#define FENCE_KERNEL "cufence_fence"
#define POISON_KERNEL "cufence_poison"

/* Loads the kernels and makes the stream; the context is current. Before any fault. */
void kernels_prepare(struct context *context);

/*
 * Puts a fence behind what `context` (NULL: every prepared one) has done, but for devices that are to be left out, and waits
 * for it until `give_up(user)` says so, which is asked every 20 us to 1 ms. Returns 1 if every fence was passed (or the
 * context's error is real), 0 if given up.
 */
int kernels_fence(const struct context *context, int (*is_left_out)(int device), int (*give_up)(void *user), void *user);

/* Launches the poison on every prepared context of the device (-1: all). Does not wait. Returns how many it launched. */
unsigned kernels_poison(int device, uint64_t unmapped_address);

/* The device of the current context, -1 if there is none or it is not prepared. A context with an error tells it too. */
int kernels_current_device(void);

/* The only device that prepared contexts are on, -1 if they are on several or on none. */
int kernels_only_device(void);

/* The context is gone. */
void kernels_forget(const struct context *context);

/* Whether an error is sticky in every prepared context of the device (-1: all); no context at all counts as yes. */
int kernels_have_failed(int device);

#endif
