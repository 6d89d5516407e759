#include "loaded.h"

#include <errno.h>
#include <stdio.h>
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
    char *text = NULL, block[1 << 16];
    FILE *out = file ? open_memstream(&text, &bytes->size) : NULL;
    const char *why = out ? NULL : "the host has no memory for it";
    int got = 0, code;
    while (!why && (got = gzread(file, block, sizeof block)) > 0)
        if ((size_t)ftello(out) + (size_t)got > most || fwrite(block, 1, (size_t)got, out) != (size_t)got)
            why = ferror(out) ? "the host has no memory for it" : "it is too large";
    if (got < 0)
        why = gzerror(file, &code);
    if (out && fclose(out) != 0 && !why)
        why = "the host has no memory for it";
    if (why)
        problem_set(problem, CUFENCE_ERROR_CORRUPT, "cannot be unpacked: %s", why);
    (void)(file ? gzclose(file) : close(fd));
    bytes->at = text;
    return !why;
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
