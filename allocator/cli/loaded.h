/*
 * The bytes of a file, unpacked if it is compressed with gzip. Thread safety: no global state.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define LOADED_MOST SIZE_MAX

struct loaded {
    void *at;
    size_t size;
    int is_mapped;
};

/* Closes the descriptor, which may be -1 with errno set. Takes at most `most` bytes, unpacked ones too. Returns 0 on failure,
 * with the reason in *problem; loaded_forget() is allowed then too. */
int loaded_open(int fd, size_t most, struct loaded *bytes, struct problem *problem);

void loaded_forget(struct loaded *bytes);
