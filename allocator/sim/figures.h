/*
 * Host twins of cufence's kernels that look at the elements of buffers. The structs are those of the kernels' own header, which
 * this room cannot include.
 */
#ifndef CUFENCE_SIM_FIGURES_H
#define CUFENCE_SIM_FIGURES_H

#include "sim.h"

#define TWIN_ITEMS 64
#define TWIN_ENDS 32

struct twin_item {
    uint64_t address, bytes, out;
    uint32_t format, first_block, blocks, unused;
};

struct twin_items {
    struct twin_item items[TWIN_ITEMS];
    uint32_t count, unused;
};

void figures_twin(const cusim_thread *thread, void *const *arguments);
void nans_twin(const cusim_thread *thread, void *const *arguments);

#endif
