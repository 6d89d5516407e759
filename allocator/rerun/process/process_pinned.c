#include "process_memory.h"

#include "base/error.h"
#include "driver/driver.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct piece {
    uint8_t *at;
    uint64_t bytes;
    const uint8_t *content; /* NULL: zeros */
};

static struct {
    struct piece pieces[RERUN_PINNED];
    size_t count;
} host;

/* Maps the pages of a piece. The first one may be there: two pieces may share it. */
static cufence_status reserve(uint64_t from, uint64_t end, const struct bundle_buffer *block)
{
    void *wanted = (void *)(uintptr_t)from; /* NOLINT(performance-no-int-to-ptr): an address of another process */
    if (from >= end)
        return CUFENCE_OK;
    void *got = mmap(wanted, end - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == wanted)
        return CUFENCE_OK;
    const char *why = got != MAP_FAILED || errno == EEXIST ? "its address is taken" : strerror(errno);
    if (got != MAP_FAILED) /* a kernel before Linux 4.17 */
        munmap(got, end - from);
    return error_set(CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE, "pinned host memory at 0x%llx cannot be mapped in the new process: %s",
                     (unsigned long long)block->address, why);
}

cufence_status host_reserve(const struct rerun_input *input)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), mapped = 0;
    cufence_status status = CUFENCE_OK;
    for (size_t i = 0; i < input->bundle.pinned_count && status == CUFENCE_OK; i++) {
        const struct bundle_buffer *block = &input->bundle.pinned[i];
        uint64_t from = block->address / page * page, end = (block->address + block->size + page - 1) / page * page;
        status = reserve(from < mapped ? mapped : from, end, block);
        mapped = end;
    }
    return status;
}

static cufence_status ask(int socket, struct piece *piece)
{
    struct kept kept;
    struct rerun_message message = {.type = MESSAGE_NEED, .address = (uint64_t)(uintptr_t)piece->at};
    int fd;
    cufence_status status = rerun_ask(socket, &message, &fd);
    if (status != CUFENCE_OK)
        return status;
    int is_whole =
        message.type == MESSAGE_ZEROS ||
        (message.type == MESSAGE_FILE && message.data == (uint64_t)(uintptr_t)piece->at && message.data_bytes == piece->bytes);
    status = is_whole ? keep_open(fd, &message, &kept)
                      : error_set(CUFENCE_ERROR_CORRUPT, "the bytes of pinned host memory were not handed over");
    if (status == CUFENCE_OK)
        piece->content = kept.content;
    if (fd >= 0)
        close(fd);
    return status;
}

static cufence_status pin(const struct piece *piece)
{
    const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    return driver_check(driver->cuMemHostRegister(piece->at, piece->bytes, flags), "cuMemHostRegister");
}

cufence_status host_open(int socket, const struct rerun_input *input)
{
    cufence_status status = CUFENCE_OK;
    for (size_t i = 0; i < input->bundle.pinned_count && status == CUFENCE_OK; i++) {
        struct piece *piece = &host.pieces[i];
        *piece = (struct piece){(uint8_t *)(uintptr_t)input->bundle.pinned[i].address, input->bundle.pinned[i].size,
                                NULL}; /* NOLINT */
        status = ask(socket, piece) ?: pin(piece);
        if (status == CUFENCE_OK && piece->content)
            status = memory_reach(piece->content, piece->bytes);
        host.count = i + 1;
    }
    if (status == CUFENCE_OK)
        host_refresh();
    return status;
}

void host_refresh(void)
{
    for (size_t i = 0; i < host.count; i++) {
        const struct piece *piece = &host.pieces[i];
        if (piece->content)
            memcpy(piece->at, piece->content, piece->bytes);
        else
            memset(piece->at, 0, piece->bytes);
    }
}

cufence_status host_tell_results(int socket)
{
    cufence_status status = CUFENCE_OK;
    for (size_t i = 0; i < host.count && status == CUFENCE_OK; i++)
        status = keep_hand_over(socket, MESSAGE_RESULT, (uint64_t)(uintptr_t)host.pieces[i].at, host.pieces[i].bytes, 1);
    return status;
}
