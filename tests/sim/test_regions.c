/* Regions on the simulated device: rows of a buffer that are taken and released, and what is written into free ones. */
#include "pokes.h"

#define ROWS 8u
#define ROW 1000u

static const char *described(const void *address)
{
    static cufence_description description;
    CHECK(cufence_describe(address, &description) == CUFENCE_OK);
    return description.region;
}

static char *divided(CUstream stream, const char *name)
{
    char *buffer = allocate(ROWS * ROW, stream);
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffer, 0, ROWS * ROW, stream));
    CHECK(cufence_region(buffer, ROW, ROWS, name) == CUFENCE_OK);
    return buffer;
}

CLEAN(have_states)
{
    start("");
    char *buffer = divided(NULL, "kv");
    CHECK(strcmp(described(buffer + 3 * ROW + 7), "row 3 of kv (live)") == 0);
    CHECK(cufence_region_take(buffer + 3 * ROW, "request 4", NULL) == CUFENCE_OK);
    CHECK(strcmp(described(buffer + 3 * ROW), "row 3 of kv (live, owner request 4)") == 0);
    CHECK(cufence_region_release(buffer + 3 * ROW, NULL) == CUFENCE_OK);
    CHECK(strstr(described(buffer + 3 * ROW), "row 3 of kv (free, released "));
    CHECK(strstr(described(buffer + 3 * ROW), " ms ago by request 4)"));
    CHECK(strcmp(described(buffer + 4 * ROW), "row 4 of kv (live)") == 0);
    CHECK(cufence_region_gone(buffer) == CUFENCE_OK);
    CHECK(described(buffer)[0] == '\0');
}

TEST_CONCURRENTLY
