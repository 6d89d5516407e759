/*
 * The configuration of the simulated machine, and the CUFENCE_SIM environment variable.
 *
 * Thread safety: written until cuInit() has returned, read-only from then on.
 */
#ifndef CUFENCE_SIM_CONFIG_H
#define CUFENCE_SIM_CONFIG_H

#include "sim.h"

#define SIM_MAX_DEVICES 8
#define SIM_GRANULARITY ((size_t)2 << 20) /* measured: minimum = recommended = 2 MiB on an H100 */

struct sim_config {
    unsigned devices;
    size_t memory;      /* bytes per device */
    size_t reserve;     /* bytes of address space per process */
    size_t space;       /* bytes of address space that the first context of a device takes */
    int reuses_handles; /* of destroyed objects */
    int is_shareable;   /* memory can be exported as file descriptors */
    int has_padding;    /* kernels end with NOPs */
    struct {
        unsigned domain, bus, device;
    } pci[SIM_MAX_DEVICES];
    int is_strict;      /* abort on a stale handle */
    unsigned slow;      /* microseconds by which cufence's kernels may be late */
    unsigned late_dump; /* milliseconds from a fault's error to its dump; 0: the dump comes first, and there is no error */
};

const struct sim_config *config_get(void);
int config_has_device(int device);

/* Reads CUFENCE_SIM, and makes the configuration final. Errors: INVALID_VALUE, with a message on stderr. */
CUresult config_load(void);

#endif
