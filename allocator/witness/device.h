/*
 * Which GPU a dump is of. Thread safety: as the sources'.
 */
#ifndef CUFENCE_WITNESS_DEVICE_H
#define CUFENCE_WITNESS_DEVICE_H

#include "surroundings.h"

/*
 * The driver's ordinal for the device that the dump names, -1 if nothing tells. The driver and the dump may number devices
 * differently (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER), so the place on the PCI bus decides. A dump has no PCI domain (drivers
 * up to 580): of several devices with the same bus and device number, as in virtual machines that give each GPU a domain of its
 * own, it is the only one that the kernel was launched on, else the one whose buffers the kernel accessed or was given.
 */
int faulted_device(const struct fault_sources *sources, const struct evidence *evidence);

#endif
