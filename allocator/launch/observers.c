#include "observers.h"

#include "inspect_table.h"

#include <assert.h>

const struct launch_observer *launch_observers[LAUNCH_OBSERVERS];
unsigned launch_observers_added;
const struct inspector *inspector_registered;

void launch_observe(const struct launch_observer *observer)
{
    unsigned count = launch_observer_count();
    assert(count < LAUNCH_OBSERVERS);
    launch_observers[count] = observer;
    __atomic_store_n(&launch_observers_added, count + 1, __ATOMIC_RELEASE);
}
