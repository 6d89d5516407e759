/* Thread safety: any thread. */
#pragma once

#include <stdint.h>

static inline void raise_to(uint64_t *peak, uint64_t value)
{
    uint64_t most = __atomic_load_n(peak, __ATOMIC_RELAXED);
    while (value > most && !__atomic_compare_exchange_n(peak, &most, value, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}
