/*
 * Figures that cufence chooses by itself, and that tests must vary. A build with tests (CUFENCE_TESTS) reads others from
 * CUFENCE_TUNABLES="slack_every=1,idle_age=50" when cufence starts; in any other build they are constants.
 * Thread safety: written at the start alone.
 */
#pragma once

#include <stdint.h>

/* clang-format off */
#define TUNABLES(FIGURE)                                                                                                       \
    FIGURE(uaf_share, 20)   /* most per cent of the time that a background thread spends in driver calls for uaf=adaptive      \
                               while places of allocation are new; a twentieth of that later */                               \
    FIGURE(idle_age, 30000) /* ms after which an idle mapping is released; 0: never */                                         \
    FIGURE(idle_max, 0)     /* bytes of idle mappings to keep, the oldest are released first; 0: as many as the program has    \
                               used at most, and 256 MiB at least */                                                          \
    FIGURE(idle_beyond, 10000) /* ms after which an idle mapping beyond that is released: not within a training step, of which \
                                  the first ones show little of what is used at most */                                       \
    FIGURE(cache_max, UINT64_C(1) << 30) /* bytes of physical memory to keep without a mapping, per device */                 \
    FIGURE(slack_every, 128)             /* frees on a stream after which its freed buffers are checked in one launch, to 128 */ \
    FIGURE(swallowed, 30000)             /* ms to wait for the dump of a fault that the driver has told nobody: of 20 processes \
                                            that fault on one device at a time, the last has its own after 12 s (H100) */      \
    FIGURE(reports, 100)                 /* findings that a process reports, each once; the rest are counted */
/* clang-format on */

#define TUNABLE_MEMBER(name, value) uint64_t name;
#define TUNABLE_VALUE(name, value) .name = (value),

struct tunables {
    TUNABLES(TUNABLE_MEMBER)
};

#ifdef CUFENCE_TUNABLES
extern struct tunables tunables;
void tunables_read(void);
#else
static const struct tunables tunables = {TUNABLES(TUNABLE_VALUE)};
static inline void tunables_read(void)
{
}
#endif
