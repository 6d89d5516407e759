#include "host.h"

#include "base/error.h"
#include "driver/driver.h"
#include "keep.h"
#include "memory.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    struct kept pieces[SCENE_PINNED]; /* by address; kept.data is also where the piece lies */
    size_t count;
} host;

/* Maps the pages of a piece. The first one may be there: two pieces may share it. */
static cufence_status reserve(uint64_t from, uint64_t end, const struct scene_range *range)
{
    void *wanted = (void *)(uintptr_t)from; /* NOLINT(performance-no-int-to-ptr): an address of another process */
    if (from >= end)
        return CUFENCE_OK;
    void *got = mmap(wanted, end - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == wanted)
        return CUFENCE_OK;
    if (got != MAP_FAILED) /* a kernel before Linux 4.17 */
        munmap(got, end - from);
    return error_set(CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE, "the address of pinned host memory (0x%llx) is taken in the new process",
                     (unsigned long long)range->address);
}

cufence_status host_reserve(const struct scene *scene)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), mapped = 0;
    cufence_status status = CUFENCE_OK;
    for (size_t i = 0; i < scene->pinned_count && status == CUFENCE_OK; i++) {
        const struct scene_range *range = &scene->pinned[i];
        uint64_t from = range->address / page * page, end = (range->address + range->bytes + page - 1) / page * page;
        status = reserve(from < mapped ? mapped : from, end, range);
        mapped = end;
    }
    return status;
}

static cufence_status ask(int socket, const struct scene_range *range, struct kept *kept)
{
    struct stage_message message = {.type = STAGE_NEED, .address = range->address};
    int fd = -1;
    if (stage_send(socket, &message, -1) != 0 || !stage_receive(socket, &message, &fd))
        return error_set(CUFENCE_ERROR_SYSTEM, "the process that faulted is gone");
    cufence_status status =
        message.type == STAGE_FILE && message.data == range->address && message.data_bytes == range->bytes
            ? keep_open(fd, &message, kept)
            : error_set(CUFENCE_ERROR_CORRUPT, "the bytes of pinned host memory were not handed over");
    if (fd >= 0)
        close(fd);
    return status;
}

static cufence_status pin(const struct kept *kept)
{
    if (!driver->cuMemHostRegister)
        return error_set(CUFENCE_ERROR_UNSUPPORTED, "the driver is too old");
    return driver_check(driver->cuMemHostRegister((void *)(uintptr_t)kept->data, kept->bytes, /* NOLINT */
                                                  CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
                        "cuMemHostRegister");
}

cufence_status host_open(int socket, const struct scene *scene)
{
    cufence_status status = CUFENCE_OK;
    for (size_t i = 0; i < scene->pinned_count && status == CUFENCE_OK; i++) {
        struct kept *kept = &host.pieces[i];
        status = ask(socket, &scene->pinned[i], kept);
        if (status == CUFENCE_OK)
            status = pin(kept);
        if (status == CUFENCE_OK)
            status = memory_reach(kept->content, kept->bytes);
        host.count = i + 1;
    }
    if (status == CUFENCE_OK)
        host_refresh();
    return status;
}

void host_refresh(void)
{
    for (size_t i = 0; i < host.count; i++)
        memcpy((void *)(uintptr_t)host.pieces[i].data, host.pieces[i].content, host.pieces[i].bytes); /* NOLINT */
}
