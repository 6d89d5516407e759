/* The arena and the index of its pages are opened with the heap; with a limit on the process's address space, when memory is
 * first mapped: by then the driver has taken what its context needs, and what is left can be shared. */
#include "index.h"
#include "books.h"

#include "base/error.h"
#include "base/options.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define ARENA_MOST (UINT64_C(64) << 40) /* bytes of address space to reserve, halved until the driver accepts it */
#define SHARE 4 /* of what is left within a limit; the rest is for the program, and for the driver's own allocations */

enum { CLOSED, OPEN, REFUSED };

static struct lock opening = LOCK(RANK_SPACE);
static int state; /* atomic */

/* How much more address space the process may take (`ulimit -v`); UINT64_MAX: as much as there is. Of a limit, the driver's
 * contexts take most: 13 GB each (H100, driver 580.159). */
static uint64_t address_limit(void)
{
    struct rlimit limit;
    unsigned long pages = 0;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    FILE *file = fopen("/proc/self/statm", "re");
    int is_known = file && fscanf(file, "%lu", &pages) == 1;
    if (file)
        fclose(file);
    uint64_t taken = is_known ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    return taken < limit.rlim_cur ? limit.rlim_cur - taken : 0;
}

static cufence_status open_with(uint64_t bytes)
{
    cufence_status status = arena_open(bytes, heap_options->history, block_forget);
    if (status != CUFENCE_OK)
        return status;
    status = index_open(heap_options->uaf != UAF_OFF);
    if (status != CUFENCE_OK)
        arena_close();
    else
        __atomic_store_n(&state, OPEN, __ATOMIC_RELEASE);
    return status;
}

cufence_status space_open(void)
{
    __atomic_store_n(&state, CLOSED, __ATOMIC_RELAXED);
    return address_limit() == UINT64_MAX ? open_with(ARENA_MOST) : CUFENCE_OK;
}

void space_close(void)
{
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != OPEN)
        return;
    index_close();
    arena_close();
}

cufence_status space_need(void)
{
    cufence_status status = CUFENCE_OK;
    if (__builtin_expect(__atomic_load_n(&state, __ATOMIC_ACQUIRE) == OPEN, 1))
        return CUFENCE_OK;
    HOLD(&opening);
    if (state == REFUSED) {
        status = error_set(CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE, "`ulimit -v` has left no address space to guard buffers in");
    } else if (state == CLOSED) {
        uint64_t most = address_limit() / SHARE;
        status = open_with(most < ARENA_MOST ? most : ARENA_MOST);
        if (status != CUFENCE_OK)
            __atomic_store_n(&state, REFUSED, __ATOMIC_RELAXED);
    }
    return status;
}
