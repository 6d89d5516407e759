#include "blocks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Calls the system directly: ThreadSanitizer treats an mmap or munmap as a write to the whole range, and would report a data
 * race with a kernel that still uses the memory. Such a late access must fault instead, as on the device.
 */
static uint64_t map(uint64_t address, size_t size, int protection, int flags, int file, uint64_t offset)
{
    long result = syscall(SYS_mmap, address, size, protection, flags, file, offset);
    return result == -1 ? 0 : (uint64_t)result;
}

int pages_open(const char *name)
{
    int file = memfd_create(name, MFD_CLOEXEC);
    return file >= 0 && ftruncate(file, PAGES_FILE_BYTES + PAGES_NOTES_BYTES) == 0 ? file : -1;
}

void pages_unreserve(uint64_t address, size_t size)
{
    syscall(SYS_munmap, address, size);
}

uint64_t pages_reserve(size_t size, size_t alignment, uint64_t hint)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (hint != 0) {
        uint64_t at_hint = map(hint, size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (at_hint == hint && hint % alignment == 0)
            return hint;
        if (at_hint != 0)
            pages_unreserve(at_hint, size);
    }
    size_t padded;
    if (__builtin_add_overflow(size, alignment, &padded))
        return 0;
    uint64_t start = map(0, padded, PROT_NONE, flags, -1, 0);
    if (start == 0)
        return 0;
    uint64_t aligned = (start + alignment - 1) / alignment * alignment;
    if (aligned != start)
        pages_unreserve(start, aligned - start);
    if (start + padded != aligned + size)
        pages_unreserve(aligned + size, start + padded - (aligned + size));
    return aligned;
}

int pages_map(uint64_t address, size_t size, int file, uint64_t offset)
{
    return map(address, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, offset) == address ? 0 : -1;
}

int pages_unmap(uint64_t address, size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return map(address, size, PROT_NONE, flags, -1, 0) == address ? 0 : -1;
}

int pages_protect(uint64_t address, size_t size, int protection)
{
    return (int)syscall(SYS_mprotect, address, size, protection);
}

void pages_discard(int file, uint64_t offset, size_t size)
{
    /* The function of the C library is a cancellation point. */
    syscall(SYS_fallocate, file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
}
