/*
 * A warp in a core dump with its surroundings, and which of its lanes performed the faulting access at which address.
 * Pure: reads only the dump. Thread safety: none needed.
 */
#pragma once

#include "analysis/sass/emulate.h"
#include "locate.h"

/* Every GPU has 32 lanes per warp; a longer table is damaged. */
#define WARP_LANES 32

struct warp_view {
    struct coredump_ref warp_ref, device_ref;
    struct coredump_warp warp;
    struct coredump_cta cta;
    struct coredump_sm sm;
    uint32_t lane_table;
    uint32_t lane_count;
    struct coredump_lane lanes[WARP_LANES];
};

/* Calls `add` for the warps in the dump, at most 262144, until it returns 0. Returns what the last call has, 1 without one. */
int warp_each(const struct coredump *dump, int (*add)(void *user, const struct warp_view *view), void *user);

/* Returns the exception of the warp's lanes, otherwise of its SM, otherwise EXCEPTION_TRAP if it has trapped; 0 if there is
 * none. */
uint32_t warp_exception(const struct warp_view *view);

/* Returns the PC of the first lane with the exception. Of a warp that has trapped or asserted, it is behind the instruction
 * (driver 580.159, H100). */
uint64_t warp_stopped_at(const struct warp_view *view);

/*
 * Fills in the lanes that performed the access at `location`, at most WARP_LANES, and returns their number: at least one if the
 * warp has lanes. A driver marks every active lane of a faulting warp, so lanes whose predicate is off, or whose path bypassed
 * the access, are omitted; lanes that have exited since are added if emulation shows that they performed it. Addresses come
 * from the registers if nothing has overwritten them since, otherwise from emulation.
 * launch: of the warp's grid, for emulation; NULL if unknown, then nothing is emulated
 * budget: instructions that may be emulated; counted down
 */
size_t warp_lanes(const struct coredump *dump, const struct warp_view *view, const struct location *location,
                  const struct emulate_launch *launch, uint64_t *budget, struct evidence_lane *lanes);

/*
 * What a warp was to copy by the unit for bulk copies (TMA). The copy is asynchronous: the warp goes on, and uses the registers
 * that named it for something else. So they are found by emulating its lanes. Finds the lane that began the copy at `location`,
 * and what it copies: lane->address and *bytes, or of a tensor map *box, with the lane's address unknown. Returns 0 if that
 * cannot be told. budget: as in warp_lanes()
 */
int warp_bulk(const struct coredump *dump, const struct warp_view *view, const struct location *location,
              const struct emulate_launch *launch, uint64_t *budget, struct evidence_lane *lane, struct evidence_box *box,
              uint32_t *bytes);
