#include "observers.h"

#include "lens.h"

#include <assert.h>

const struct launch_observer *launch_observers[LAUNCH_OBSERVERS];
unsigned launch_observer_count;
const struct lens *lens;

void launch_observe(const struct launch_observer *observer)
{
    assert(launch_observer_count < LAUNCH_OBSERVERS);
    launch_observers[launch_observer_count++] = observer;
}
