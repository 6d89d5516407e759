/*
 * What the hash kernel must answer: the definition of lens/kernels/hash.h written down plainly, some values worked out once,
 * and ranges of every size and alignment. For the simulated device and a real one; cuda.h calls go through `driver`.
 */
#pragma once

#include "lens/kernels/hash.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 29;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 32);
}

static uint64_t hash_by_definition(const uint8_t *bytes, uint64_t count)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t sum = 0;
    for (uint64_t i = 0; i * 8 < count; i++) {
        uint64_t word = 0;
        for (uint64_t k = 0; k < 8 && i * 8 + k < count; k++)
            word |= (uint64_t)bytes[i * 8 + k] << (8 * k);
        sum += hash_mix(word + (i + 1) * golden);
    }
    return hash_mix(sum ^ (count * golden));
}

static const struct {
    const char *text;
    uint64_t hash;
} hash_known[] = {
    {"", UINT64_C(0)},
    {"a", UINT64_C(0xd7437a2e5b76825e)},
    {"cufence", UINT64_C(0xc672b72377a7a9a4)},
    {"the quick brown fox jumps over the lazy dog", UINT64_C(0xfa9b4841c4ba6499)},
};

#define HASH_BYTES ((size_t)3 << 20)
#define HASH_SUMS (HASH_RANGES * 1024)

struct hash_bench {
    CUdeviceptr memory; /* HASH_BYTES, from the caller */
    CUdeviceptr sums;   /* HASH_SUMS * 8, from the caller */
    CUfunction function;
    uint8_t *host;     /* what is in `memory` */
    char problem[200]; /* "" if all is well */
};

/* For the current context. Returns 0 with bench->problem set. */
static int hash_set_up(struct hash_bench *bench)
{
    uint32_t state = 12345;
    bench->host = malloc(HASH_BYTES);
    for (size_t i = 0; bench->host && i < HASH_BYTES; i++) {
        state = state * 1664525u + 1013904223u;
        bench->host[i] = state >> 29 ? (uint8_t)(state >> 16) : HASH_FOLDED; /* one byte in eight */
    }
    static const char *const names[] = {HASH_KERNEL};
    if (bench->host && kernels_load(hash_kernel_ptx, names, &bench->function, 1) &&
        driver->cuMemcpyHtoD(bench->memory, bench->host, HASH_BYTES) == CUDA_SUCCESS)
        return 1;
    snprintf(bench->problem, sizeof bench->problem, "cannot set up");
    return 0;
}

/* What is hashed, folded: with each HASH_FOLDED as 0. */
static uint64_t hash_folded_by_definition(const uint8_t *bytes, uint64_t count)
{
    uint8_t *copy = malloc(count + 1);
    for (uint64_t i = 0; i < count; i++)
        copy[i] = bytes[i] == HASH_FOLDED ? 0 : bytes[i];
    uint64_t hash = hash_by_definition(copy, count);
    free(copy);
    return hash;
}

/* Compares `count` ranges of bench->memory in one launch. */
static int hash_agrees_as(struct hash_bench *bench, const struct hash_range *offsets, size_t count, int is_folded)
{
    static uint64_t sums[HASH_SUMS];
    struct hash_range ranges[HASH_RANGES];
    for (size_t i = 0; i < count; i++)
        ranges[i] = (struct hash_range){.address = bench->memory + offsets[i].address, .bytes = offsets[i].bytes};
    size_t planned = hash_plan(ranges, count) * sizeof *sums;
    driver->cuMemsetD8Async(bench->sums, 0xff, planned, NULL);
    CUresult result = hash_launch(bench->function, NULL, ranges, count, bench->sums, is_folded);
    if (result == CUDA_SUCCESS)
        result = driver->cuMemcpyDtoH(sums, bench->sums, planned);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        uint64_t wanted =
            (is_folded ? hash_folded_by_definition : hash_by_definition)(bench->host + offsets[i].address, offsets[i].bytes);
        uint64_t hash = hash_result(&ranges[i], sums);
        if (hash != wanted) {
            snprintf(bench->problem, sizeof bench->problem,
                     "range %zu of %zu, +%llu, %llu bytes: %016llx, but %016llx is right", i, count,
                     (unsigned long long)offsets[i].address, (unsigned long long)offsets[i].bytes, (unsigned long long)hash,
                     (unsigned long long)wanted);
            return 0;
        }
    }
    if (result != CUDA_SUCCESS)
        snprintf(bench->problem, sizeof bench->problem, "error %d", (int)result);
    return result == CUDA_SUCCESS;
}

static int hash_agrees(struct hash_bench *bench, const struct hash_range *offsets, size_t count)
{
    return hash_agrees_as(bench, offsets, count, 0) && hash_agrees_as(bench, offsets, count, 1);
}

/* Every alignment with every small size, then larger ones, many ranges at once, and twice in a row. */
static int hash_agrees_everywhere(struct hash_bench *bench)
{
    struct hash_range offsets[HASH_RANGES];
    for (uint64_t at = 0; at < 17; at++) {
        for (uint64_t bytes = 0; bytes < 96; bytes += HASH_RANGES) {
            for (uint64_t i = 0; i < HASH_RANGES; i++)
                offsets[i] = (struct hash_range){.address = at, .bytes = bytes + i};
            if (!hash_agrees(bench, offsets, HASH_RANGES))
                return 0;
        }
    }
    for (uint64_t i = 0; i < HASH_RANGES; i++)
        offsets[i] = (struct hash_range){.address = i * 5003, .bytes = (i % 7) * 300001 + i};
    offsets[HASH_RANGES - 1] = (struct hash_range){.bytes = HASH_BYTES};
    return hash_agrees(bench, offsets, HASH_RANGES) && hash_agrees(bench, offsets, HASH_RANGES) &&
           hash_agrees(bench, offsets + HASH_RANGES - 1, 1);
}
