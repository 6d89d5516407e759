/*
 * What a warp was to copy by the unit for bulk copies (TMA). The copy is asynchronous: the warp goes on, and uses the registers
 * that named it for something else. So they are found by emulating its lanes.
 *
 * Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_BULK_H
#define CUFENCE_ANALYSIS_DUMP_BULK_H

#include "warp.h"

/*
 * Finds the lane that began the copy at `location`, and what it copies: lane->address and *bytes, or of a tensor map *box, with
 * the lane's address unknown. Returns 0 if that cannot be told. budget: as in warp_lanes()
 */
int bulk_find(const struct coredump *dump, const struct warp_view *view, const struct location *location,
              const struct emulate_launch *launch, uint64_t *budget, struct evidence_lane *lane, struct evidence_box *box,
              uint32_t *bytes);

#endif
