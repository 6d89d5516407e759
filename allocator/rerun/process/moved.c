#include "memory.h"

#include "base/error.h"
#include "driver/driver.h"

#define PAGE PATTERN_PAGE

static struct {
    uint64_t from, to, bytes; /* bytes 0: there is none */
} moved;

cufence_status moved_refresh(void)
{
    return moved.bytes ? driver_check(driver->cuMemcpyDtoD(moved.to, moved.from, moved.bytes), "cuMemcpyDtoD") : CUFENCE_OK;
}

cufence_status moved_open(const struct rerun_input *input)
{
    uint64_t start = input->moved_to / PAGE * PAGE;
    uint64_t bytes = (input->moved_to + input->moved_bytes - start + PAGE - 1) / PAGE * PAGE;
    if (!input->moved_bytes)
        return CUFENCE_OK;
    int found = memory_find(input->moved_from, input->moved_bytes);
    if (found <= 0)
        return found ? CUFENCE_ERROR_SYSTEM : error_set(CUFENCE_ERROR_UNSUPPORTED, "the buffer's memory is not there");
    cufence_status status = memory_add(start, bytes);
    if (status != CUFENCE_OK)
        return status;
    moved.from = input->moved_from;
    moved.to = input->moved_to;
    moved.bytes = input->moved_bytes;
    return moved_refresh();
}
