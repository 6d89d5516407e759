/*
 * The images in a fat binary, as nvcc makes it: cubins for one architecture each, and PTX. Each may be compressed, with zstd or
 * as a block of LZ4: PTX and cubins with debug information by default, all of them with -compress-all (PyTorch) or
 * --compress-mode=size. Source of the layout: files of nvcc 13.0 in all its modes, compared to what cuobjdump 13.5 takes out of
 * them, and fatbinary_section.h of the toolkit for the wrapper.
 *
 * Pure. Images are part of the file.
 */
#pragma once

#include "base/reader.h"

#define FATBIN_MAGIC 0xba55ed50u
#define FATBIN_WRAPPER 0x466243b1u /* what a program registers: magic, version, pointer to the fat binary, another pointer */
#define FATBIN_HEADER 16
#define FATBIN_MOST (UINT64_C(1) << 30) /* bytes of an image that is unpacked */

/* Returns the bytes of the fat binary that begins there; 0 if none does. Reads FATBIN_HEADER bytes. */
uint64_t fatbin_size(const void *start);

struct fatbin_image {
    struct span packed; /* as it lies in the file */
    uint64_t size;      /* unpacked: that of `packed` unless it is compressed */
    uint32_t sm;        /* 90 for sm_90, sm_90a and compute_90 */
    enum { FATBIN_PTX = 1, FATBIN_CUBIN = 2 } kind;
    enum { FATBIN_PLAIN, FATBIN_LZ4, FATBIN_ZSTD } packing;
};

/* Finds the next cubin or PTX of a fat binary, beginning with *at = 0. Returns 1, 0 after the last one, or -1 if the rest is
 * damaged. */
int fatbin_next(struct span file, uint64_t *at, struct fatbin_image *image);

/* Writes the image's `size` bytes to `to`. Returns 0 if it is damaged; then they are undefined. */
int fatbin_unpack(const struct fatbin_image *image, uint8_t *to);

/* Unpacks a block of LZ4 (source: lz4_Block_format.md of the LZ4 project). Writes the `size` bytes that it holds to
 * `to`. Returns 0 if it is damaged, or holds another number of bytes. */
int lz4_unpack(struct span block, uint8_t *to, uint64_t size);
