/*
 * Reads numbers, blocks and pointers of call frame information, never outside of the bytes that it is given. Pure.
 */
#ifndef CUFENCE_STACKS_CFI_READER_H
#define CUFENCE_STACKS_CFI_READER_H

#include "cfi.h"

/* at: NULL once the end was passed, or something made no sense; every read gives 0 from then on. */
struct reader {
    const uint8_t *at, *end;
    uint64_t address; /* of `at` */
};

/* From an address to the end of the bytes; broken if it does not lie in them. */
struct reader reader_at(const struct cfi_bytes *bytes, uint64_t address);

size_t reader_left(const struct reader *reader);
uint64_t reader_break(struct reader *reader); /* returns 0 */
void reader_skip(struct reader *reader, uint64_t size);

/* The next `size` bytes by themselves; *reader then stands behind them. */
struct reader reader_cut(struct reader *reader, uint64_t size);

/* Little-endian numbers of `size` bytes, at most 8, and LEB128 ones. */
uint64_t reader_unsigned(struct reader *reader, unsigned size);
int64_t reader_signed(struct reader *reader, unsigned size);
uint64_t reader_uleb(struct reader *reader);
int64_t reader_sleb(struct reader *reader);

/* A pointer as DW_EH_PE_* encodes it; `data` is what a data-relative one is relative to, 0: there is nothing. */
uint64_t reader_pointer(struct reader *reader, unsigned encoding, uint64_t data);

#endif
