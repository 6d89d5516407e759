/*
 * Copies and sets: checks of source and destination, and the operations made of them.
 *
 * Units: bytes. Thread safety: any thread.
 */
#ifndef CUFENCE_SIM_TRANSFER_H
#define CUFENCE_SIM_TRANSFER_H

#include "stream.h"

/* Errors: INVALID_VALUE (source or destination is not entirely mapped), and those of stream_submit(). */
CUresult transfer_copy(const struct transfer *transfer, CUstream stream, enum submit_mode mode);

/* `rows` rows of `count` values of `width` bytes. Errors: as transfer_copy(). */
CUresult transfer_set(CUdeviceptr destination, size_t pitch, uint32_t value, unsigned width, size_t count, size_t rows,
                      CUstream stream);
/* Creates the operation only, for a graph; count and rows are not 0. */
CUresult transfer_create_set(struct operation **out, CUdeviceptr destination, size_t pitch, uint32_t value, unsigned width,
                             size_t count, size_t rows);

#endif
