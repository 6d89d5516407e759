#include "loaded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

void loaded_forget(struct loaded *bytes)
{
    if (bytes->is_mapped)
        munmap(bytes->at, bytes->size);
    else
        free(bytes->at);
}

static int is_gzip(int fd)
{
    unsigned char magic[2];
    return pread(fd, magic, sizeof magic, 0) == sizeof magic && magic[0] == 0x1f && magic[1] == 0x8b;
}

/* Takes ownership of the descriptor. */
static int unpack(int fd, size_t most, struct loaded *bytes, struct problem *problem)
{
    gzFile file = gzdopen(fd, "rb");
    size_t room = (size_t)1 << 20;
    int got = 0, code = Z_OK;
    if (!file) {
        close(fd);
        problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to unpack it");
        return 0;
    }
    bytes->at = malloc(room);
    while (bytes->at && (got = gzread(file, (char *)bytes->at + bytes->size,
                                      (unsigned)(room - bytes->size < 1u << 30 ? room - bytes->size : 1u << 30))) > 0) {
        bytes->size += (size_t)got;
        if (bytes->size < room)
            continue;
        if (room > most / 2)
            break;
        void *grown = realloc(bytes->at, room *= 2);
        if (!grown)
            free(bytes->at);
        bytes->at = grown;
    }
    const char *why = got < 0 ? gzerror(file, &code) : "the host has no memory for it";
    if (got > 0 && bytes->at)
        why = "it is too large";
    if (!bytes->at || got != 0)
        problem_set(problem, CUFENCE_ERROR_CORRUPT, "cannot be unpacked: %s", why);
    gzclose(file);
    return bytes->at && got == 0;
}

int loaded_open(int fd, size_t most, struct loaded *bytes, struct problem *problem)
{
    struct stat status;
    *bytes = (struct loaded){0};
    if (fd < 0 || fstat(fd, &status) != 0) {
        problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return 0;
    }
    if (S_ISREG(status.st_mode) && (uint64_t)status.st_size > most) {
        problem_set(problem, CUFENCE_ERROR_OVERFLOW, "it is too large");
        close(fd);
        return 0;
    }
    if (is_gzip(fd))
        return unpack(fd, most, bytes, problem);
    bytes->size = S_ISREG(status.st_mode) ? (size_t)status.st_size : 0;
    bytes->at = bytes->size ? mmap(NULL, bytes->size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    bytes->is_mapped = bytes->at != MAP_FAILED;
    if (!bytes->is_mapped) {
        const char *why = bytes->size ? strerror(errno) : S_ISREG(status.st_mode) ? "it is empty" : "it is not a regular file";
        problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s", why);
        bytes->at = NULL;
    }
    close(fd);
    return bytes->is_mapped;
}
