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
 * A folded hash is that of the same bytes with each HASH_FOLDED as 0. So memory that one run has filled with 0 and another with
 * HASH_FOLDED has the same, and so has every copy of it.
 *
 * The kernel leaves a sum for each of its blocks, and hash_result() adds them up on the host: no atomics, no memory to clear.
 * Thread safety: from any thread.
 */
#pragma once

#include "driver/driver.h"

#include <stddef.h>
#include <stdint.h>

#define HASH_KERNEL "cufence_hash"
#define HASH_RANGES 32 /* most ranges of one launch */

/* Not 0, and odd, so that it is true in every sense. As a number it is large and positive, but far from what its type can hold:
 * 1262225483 as int32, 1.3e7 as float32 and bfloat16, 5e55 as float64, 14.6 as float16, 5.5 and 14 as float8. */
#define HASH_FOLDED 0x4b

extern const char *const hash_kernel_ptx; /* for kernels_load() */

struct hash_range {
    uint64_t address, bytes; /* of device memory, at any alignment; 0 bytes have a hash too */
    uint32_t first, blocks;  /* set by hash_plan() */
};

/* Plans a launch over `count` ranges, 1 to HASH_RANGES. Returns the number of its sums, of 8 bytes each. */
size_t hash_plan(struct hash_range *ranges, size_t count);

/* Launches the kernel over planned ranges, in the order of the stream. The context is current. sums: device memory, or pinned
 * host memory at the device's address. is_folded: for folded hashes. */
CUresult hash_launch(CUfunction function, CUstream stream, const struct hash_range *ranges, size_t count, CUdeviceptr sums,
                     int is_folded);

/* The hash of a range, from the sums of its launch. */
uint64_t hash_result(const struct hash_range *range, const uint64_t *sums);
