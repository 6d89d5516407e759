#include "record.h"

#include "base/clock.h"
#include "base/env.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AT_ONCE (1u << 24) /* bytes per call of zlib */

/* Functions of zlib, loaded on demand: a program without a fault does not load it. */
struct gzip {
    void *(*gzdopen)(int fd, const char *mode);
    int (*gzwrite)(void *file, const void *bytes, unsigned size);
    int (*gzclose)(void *file);
};

static int find_gzip(struct gzip *gzip)
{
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 0;
    *(void **)&gzip->gzdopen = dlsym(library, "gzdopen");
    *(void **)&gzip->gzwrite = dlsym(library, "gzwrite");
    *(void **)&gzip->gzclose = dlsym(library, "gzclose");
    return gzip->gzdopen && gzip->gzwrite && gzip->gzclose;
}

/* Closes the descriptor. Returns 0 on failure. */
static int write_packed(const struct gzip *gzip, int fd, const char *bytes, size_t size)
{
    void *file = gzip->gzdopen(fd, "wb1"); /* the fastest level already shrinks dumps to a tenth */
    int is_well = file != NULL;
    if (!file)
        close(fd);
    for (size_t at = 0; is_well && at < size; at += AT_ONCE)
        is_well = gzip->gzwrite(file, bytes + at, size - at < AT_ONCE ? (unsigned)(size - at) : AT_ONCE) > 0;
    return file && gzip->gzclose(file) == 0 && is_well;
}

int files_put_dump(char *name, size_t room, const char *stem, const void *dump, size_t size)
{
    struct gzip gzip;
    int is_packed = find_gzip(&gzip), is_well;
    snprintf(name, room, "%s.core%s", stem, is_packed ? ".gz" : "");
    int fd = files_create(name);
    if (fd < 0)
        return 0;
    if (is_packed)
        return write_packed(&gzip, fd, dump, size);
    is_well = files_write(fd, dump, size);
    return close(fd) == 0 && is_well;
}

void files_complete_origin(struct snapshot_origin *origin)
{
    const char *options = env_get("CUFENCE_OPTIONS");
    ssize_t length = readlink("/proc/self/exe", origin->program, sizeof origin->program - 1);
    origin->program[length > 0 ? length : 0] = '\0';
    snprintf(origin->options, sizeof origin->options, "%s", options ? options : "");
    origin->time_ns = clock_ns(CLOCK_REALTIME);
}
