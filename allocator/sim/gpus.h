/*
 * The configuration of the simulated machine, and the CUFENCE_SIM environment variable.
 *
 * Thread safety: written until cuInit() has returned, read-only from then on.
 */
#pragma once

#include "sim.h"

#define SIM_MAX_DEVICES 8
#define SIM_GRANULARITY ((size_t)2 << 20) /* measured: minimum = recommended = 2 MiB on an H100 */

struct sim_config {
    size_t devices;
    size_t memory;         /* bytes per device */
    size_t reserve;        /* bytes of address space per process */
    size_t space;          /* bytes of address space that the first context of a device takes */
    size_t reuses_handles; /* of destroyed objects */
    size_t is_shareable;   /* memory can be exported as file descriptors */
    struct {
        unsigned domain, bus, device;
    } pci[SIM_MAX_DEVICES];
    size_t is_strict; /* abort on a stale handle */
    size_t newer;     /* newer_version() */
    size_t depth;     /* pieces of work that a stream's queue has room for */
    size_t slow;      /* microseconds by which cufence's kernels may be late */
    size_t swallow;   /* milliseconds from a fault to its dump, in which the device stands and all work is said to be done */
    size_t late_dump; /* milliseconds from a fault's error to its dump; 0: the dump comes first, and there is no error */
};

const struct sim_config *config_get(void);
int config_has_device(int device);
/* gpus.c: errors: INVALID_VALUE (`out` is NULL), INVALID_DEVICE. */
CUresult device_check(CUdevice device, const void *out);

/* Reads CUFENCE_SIM, and makes the configuration final. Errors: INVALID_VALUE, with a message on stderr. */
CUresult config_load(void);

/* entry_points.c: the driver version that newer= says, as cuDriverGetVersion counts; 0: not newer. Reads the environment,
 * because programs look functions up before cuInit(). */
int newer_version(void);
