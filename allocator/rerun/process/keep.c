#include "process_memory.h"

#include "base/error.h"
#include "base/files.h"
#include "driver/driver.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_ONCE ((uint64_t)8 << 20)

static void write_device(int fd, uint64_t address, uint64_t bytes)
{
    uint8_t *part = malloc(AT_ONCE);
    for (uint64_t at = 0, size; part && at < bytes; at += size) {
        size = bytes - at < AT_ONCE ? bytes - at : AT_ONCE;
        if (driver->cuMemcpyDtoH(part, address + at, size) != CUDA_SUCCESS || !files_write(fd, part, size))
            break;
    }
    free(part);
}

cufence_status keep_hand_over(int socket, enum rerun_message_type type, uint64_t base, uint64_t bytes, int is_host)
{
    struct rerun_message message = {.type = type, .address = base, .bytes = bytes};
    int fd;
    cufence_status status = rerun_ask(socket, &message, &fd);
    int is_part = status == CUFENCE_OK && message.type == MESSAGE_FILE && message.data >= base && message.data_bytes <= bytes &&
                  message.data - base <= bytes - message.data_bytes;
    if (is_part && lseek(fd, (off_t)message.number, SEEK_SET) == (off_t)message.number) {
        if (is_host)
            files_write(fd, (const void *)(uintptr_t)message.data, message.data_bytes);
        else
            write_device(fd, message.data, message.data_bytes);
    }
    if (fd >= 0)
        close(fd);
    return status;
}

cufence_status keep_open(int fd, const struct rerun_message *message, struct kept *kept)
{
    struct stat file;
    *kept = (struct kept){1, message->data, message->type == MESSAGE_FILE ? message->data_bytes : 0, NULL};
    if (!kept->bytes)
        return CUFENCE_OK;
    if (message->data < message->address || kept->bytes > message->bytes ||
        message->data - message->address > message->bytes - kept->bytes)
        return error_set(CUFENCE_ERROR_CORRUPT, "a buffer lies outside of its mapping");
    uint64_t size = message->number + kept->bytes; /* a sum of 32 bits and a mapping's size */
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || (uint64_t)file.st_size < size)
        return error_set(CUFENCE_ERROR_CORRUPT, "the file of a buffer is too short");
    const uint8_t *content = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (content == MAP_FAILED)
        return error_set(CUFENCE_ERROR_SYSTEM, "the file of a buffer cannot be mapped");
    kept->content = content + message->number;
    return CUFENCE_OK;
}

static cufence_status put_zeros(uint64_t from, uint64_t end)
{
    return from < end ? driver_check(driver->cuMemsetD8Async(from, 0, end - from, NULL), "cuMemsetD8Async") : CUFENCE_OK;
}

cufence_status keep_read(const struct kept *kept, uint64_t base, uint64_t bytes)
{
    if (!kept->bytes)
        return put_zeros(base, base + bytes);
    cufence_status status = put_zeros(base, kept->data);
    status = status ?: driver_check(driver->cuMemcpyHtoD(kept->data, kept->content, kept->bytes), "cuMemcpyHtoD");
    return status == CUFENCE_OK ? put_zeros(kept->data + kept->bytes, base + bytes) : status;
}
