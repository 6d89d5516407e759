#include "lost_reports.h"

#include "aside.h"
#include "clock.h"

#define PAUSE_US 100u

static unsigned untold; /* atomic: reports in progress */
static HOT_TLS unsigned own;

void untold_begin(void)
{
    own++;
    __atomic_add_fetch(&untold, 1, __ATOMIC_RELAXED);
}

void untold_end(void)
{
    own--;
    __atomic_sub_fetch(&untold, 1, __ATOMIC_RELEASE);
}

static unsigned lost; /* atomic */

void untold_for_ever(void)
{
    __atomic_add_fetch(&lost, 1, __ATOMIC_RELAXED);
}

unsigned untold_lost(void)
{
    return __atomic_load_n(&lost, __ATOMIC_RELAXED);
}

int untold_elsewhere(void)
{
    return !own && __atomic_load_n(&untold, __ATOMIC_ACQUIRE);
}

int untold_await(uint64_t until_ms)
{
    int is_due;
    while ((is_due = untold_elsewhere()) && monotonic_ms() < until_ms)
        aside_sleep(PAUSE_US);
    return !is_due;
}
