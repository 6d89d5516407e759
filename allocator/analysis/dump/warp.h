/*
 * A warp of a core dump with what surrounds it, and which of its lanes made the faulting access at which address.
 * Pure: everything is read from the dump. Thread safety: none needed.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_WARP_H
#define CUFENCE_ANALYSIS_DUMP_WARP_H

#include "analysis/sass/emulate.h"
#include "locate.h"

/* A warp is 32 lanes on every GPU; a longer table is damaged. */
#define WARP_LANES 32

struct warp_scene {
    struct coredump_place warp_place, sm_place, device_place;
    struct coredump_warp warp;
    struct coredump_cta cta;
    struct coredump_sm sm;
    uint32_t lane_table;
    uint32_t lane_count;
    struct coredump_lane lanes[WARP_LANES];
};

/* 1 if the warp and its CTA, SM and device are in the dump. */
int warp_read(const struct coredump *dump, struct coredump_place warp, struct warp_scene *scene);

/* The exception of the warp's lanes, else of its SM; 0 if it has none. */
uint32_t warp_exception(const struct warp_scene *scene);

/*
 * Fills in the lanes that made the access at `location`, at most WARP_LANES, and returns how many: at least one if the warp
 * has lanes. A driver marks every active lane of a faulting warp, so those are left out whose predicate is off or whose way
 * led around the access; and lanes that have exited since are added where emulation leads them by it. Addresses come from the
 * registers where nothing has written to them since, else from emulation; where neither knows, a half of one that is left in a
 * register is kept. launch  of the warp's grid; NULL if it is not known: then nothing is emulated budget  instructions that may
 * be emulated; counted down
 */
size_t warp_lanes(const struct coredump *dump, const struct warp_scene *scene, const struct location *location,
                  const struct emulate_launch *launch, uint64_t *budget, struct evidence_lane *lanes);

#endif
