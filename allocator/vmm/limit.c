#include "arena.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

uint64_t arena_limit(void)
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
