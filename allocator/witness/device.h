/*
 * Determines which GPU a dump comes from. Thread safety: any thread.
 */
#ifndef CUFENCE_WITNESS_DEVICE_H
#define CUFENCE_WITNESS_DEVICE_H

#include "surroundings.h"

/*
 * Returns the driver's ordinal of the device that the dump names, -1 if it can't be determined. Driver and dump may number
 * devices differently (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER), so the PCI bus and device number decide. A dump has no PCI
 * domain (drivers up to 580), and virtual machines may give each GPU a domain of its own. Among devices with equal numbers,
 * returns the only one that the kernel was launched on, else the one that has the buffers that the kernel accessed or was
 * given.
 */
int faulted_device(const struct evidence *evidence);

#endif
