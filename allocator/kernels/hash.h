/*
 * The hash of bytes in device memory: 64 bits, the same for the same bytes, wherever they lie and on whichever device. It tells
 * whether two runs, or memory before and after a launch, hold the same; it is no protection against somebody who wants equal
 * hashes.
 *
 * Definition: w(i) is the i-th group of 8 bytes, little-endian, the last one filled up with zeros; g = 0x9e3779b97f4a7c15.
 *   sum  = w(0) keyed by 0 + w(1) keyed by 1 + ...   where w keyed by i = mix(w + (i + 1) * g)
 *   hash = mix(sum ^ (number of bytes * g))
 *   mix(x): x ^= x >> 32; x *= 0xbf58476d1ce4e5b9; x ^= x >> 29; x *= 0x94d049bb133111eb; x ^= x >> 32
 * all modulo 2^64. A sum does not depend on the order of its parts, so neither does the hash depend on the number of threads.
 *
 * Thread safety: from any thread. The context is current.
 */
#ifndef CUFENCE_KERNELS_HASH_H
#define CUFENCE_KERNELS_HASH_H

#include "driver/driver.h"

#include <stddef.h>
#include <stdint.h>

#define HASH_KERNEL "cufence_hash"
#define HASH_RANGES 32       /* most ranges of one launch */
#define HASH_SCRATCH_BYTES 16 /* of device memory for each range */

struct hash_range {
    uint64_t address, bytes; /* any alignment; 0 bytes have a hash too */
};

/* Loads the kernel into the current context. Returns 0 if the driver refuses it. Slow: once a context. */
int hash_load(CUfunction *function);

/*
 * Launches the hash of `count` ranges (1 to HASH_RANGES) on the stream, in its order.
 *   scratch  device memory, HASH_SCRATCH_BYTES for each range, zeros; zeros again once the launch is done, so it can serve
 *            later launches of the same stream, but not two at once
 *   results  device memory, or the device's address of pinned host memory: 8 bytes for each range
 */
CUresult hash_launch(CUfunction function, CUstream stream, const struct hash_range *ranges, size_t count, CUdeviceptr scratch,
                     CUdeviceptr results);

#endif
