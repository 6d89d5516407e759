#include "record.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/output.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
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
    int is_ok = file != NULL;
    if (!file)
        close(fd);
    for (size_t at = 0; is_ok && at < size; at += AT_ONCE)
        is_ok = gzip->gzwrite(file, bytes + at, size - at < AT_ONCE ? (unsigned)(size - at) : AT_ONCE) > 0;
    return file && gzip->gzclose(file) == 0 && is_ok;
}

int files_put_dump(char *name, size_t room, const char *stem, const void *dump, size_t size)
{
    struct gzip gzip;
    int is_packed = find_gzip(&gzip);
    snprintf(name, room, "%s.core%s", stem, is_packed ? ".gz" : "");
    if (!is_packed)
        return files_put(name, NULL, 0, dump, size);
    int fd = files_create(name);
    return fd >= 0 && write_packed(&gzip, fd, dump, size);
}

char *files_snapshot(const struct fault_memory *memory, const char *device_name, const struct rerun_result *rerun)
{
    struct snapshot_origin origin = {
        .pid = (int)getpid(), .rank = options_rank(), .device = memory->device, .time_ns = clock_ns(CLOCK_REALTIME)};
    const char *options = env_get("CUFENCE_OPTIONS");
    snprintf(origin.device_name, sizeof origin.device_name, "%s", device_name);
    snprintf(origin.options, sizeof origin.options, "%s", options ? options : "");
    if (readlink("/proc/self/exe", origin.program, sizeof origin.program - 1) < 0)
        origin.program[0] = '\0';
    return snapshot_write(memory, &origin, rerun);
}
void files_complain(const char *name)
{
    output_note("keep: cannot write %s: %s", name, errno ? strerror(errno) : "unknown error");
}
