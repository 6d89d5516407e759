#include "record.h"

#include "base/output.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST_KEPT 1000000u
#define AT_ONCE (1u << 24) /* bytes per call of zlib */

static char folder[1024]; /* "" if none */

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

cufence_status record_open(const struct options *options)
{
    return options_expand_path(options->record, folder, sizeof folder);
}

int record_is_wanted(void)
{
    return folder[0] != '\0';
}

/* Returns 0 on failure and sets errno. */
static int write_plain(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return 0;
        bytes += written;
        size -= (size_t)written;
    }
    return 1;
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

/* Makes the folder and its parents. Returns 0 on failure and sets errno. */
static int make_folder(void)
{
    char path[sizeof folder];
    snprintf(path, sizeof path, "%s", folder);
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return 0;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static int create(const char *name)
{
    return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

/* Closes the descriptor. Returns 0 on failure. */
static int keep_text(int fd, const char *text)
{
    int is_well = write_plain(fd, text, strlen(text));
    return close(fd) == 0 && is_well;
}

static int keep_dump(char *name, size_t room, const char *stem, const void *dump, size_t size)
{
    struct gzip gzip;
    int is_packed = find_gzip(&gzip), is_well;
    snprintf(name, room, "%s.core%s", stem, is_packed ? ".gz" : "");
    int fd = create(name);
    if (fd < 0)
        return 0;
    if (is_packed)
        return write_packed(&gzip, fd, dump, size);
    is_well = write_plain(fd, dump, size);
    return close(fd) == 0 && is_well;
}

static void complete(struct snapshot_origin *origin)
{
    struct timespec now;
    const char *options = getenv("CUFENCE_OPTIONS");
    ssize_t length = readlink("/proc/self/exe", origin->program, sizeof origin->program - 1);
    origin->program[length > 0 ? length : 0] = '\0';
    snprintf(origin->options, sizeof origin->options, "%s", options ? options : "");
    clock_gettime(CLOCK_REALTIME, &now);
    origin->time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void complain(const char *name)
{
    output_say("==%d== cufence: record: cannot write %s: %s\n", (int)getpid(), name, errno ? strerror(errno) : "unknown error");
}

void record_keep(const void *dump, size_t size, const struct fault_memory *memory, struct snapshot_origin *origin)
{
    static unsigned kept;
    char stem[1100], name[1200];
    complete(origin);
    char *snapshot = snapshot_write(memory, origin, NULL);
    errno = 0;
    if (!make_folder()) {
        complain(folder);
        free(snapshot);
        return;
    }
    int fd;
    do { /* process ids repeat, in containers at every start */
        snprintf(stem, sizeof stem, "%s/fault-%d-%u", folder, (int)getpid(), ++kept);
        snprintf(name, sizeof name, "%s.snapshot.json", stem);
        errno = 0;
        fd = create(name);
    } while (fd < 0 && errno == EEXIST && kept < MOST_KEPT);
    int is_well = fd >= 0 && keep_text(fd, snapshot ? snapshot : "") && snapshot;
    if (is_well)
        is_well = keep_dump(name, sizeof name, stem, dump, size);
    if (is_well)
        output_say("==%d== cufence: kept for `cufence explain`: %s\n", (int)getpid(), name);
    else
        complain(name);
    free(snapshot);
}
