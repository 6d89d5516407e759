#include "bundle_writer.h"

#include "analysis/bundle/snapshot_json.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/files.h"
#include "base/options.h"
#include "base/output.h"
#include "driver/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_OF_A_NAME 1000000u
#define AT_ONCE (1u << 24) /* bytes per call of zlib */
#define PATH_ROOM 1200

static const char *path_of(const struct bundle_writer *writer, const char *name, char path[PATH_ROOM])
{
    snprintf(path, PATH_ROOM, "%s/%s", writer->folder, name);
    return path;
}

/* errno: why. */
static void complain(struct bundle_writer *writer, const char *path)
{
    output_note("%s: cannot write %s: %s", writer->option, path, errno ? strerror(errno) : "unknown error");
    writer->has_failed = 1;
}

int writer_begin(struct bundle_writer *writer, const char *option, const char *parent, const char *name)
{
    unsigned number = 1;
    *writer = (struct bundle_writer){.option = option, .buffers = calloc(BUNDLE_BUFFERS, sizeof *writer->buffers)};
    errno = ENOMEM;
    int is_ok = writer->buffers && files_make_folder(parent);
    if (!is_ok) {
        complain(writer, parent);
        return 0;
    }
    snprintf(writer->folder, sizeof writer->folder, "%s/%s", parent, name);
    while ((is_ok = mkdir(writer->folder, 0700) == 0) == 0 && errno == EEXIST && number < MOST_OF_A_NAME)
        snprintf(writer->folder, sizeof writer->folder, "%s/%s.%u", parent, name, ++number); /* process ids repeat */
    if (!is_ok)
        complain(writer, writer->folder);
    return is_ok;
}

void writer_end(struct bundle_writer *writer)
{
    free(writer->buffers);
}

/* ---- files ---- */

void writer_put(struct bundle_writer *writer, const char *name, const void *head, size_t head_size, const void *bytes,
                uint64_t size)
{
    char path[PATH_ROOM];
    if (!writer->has_failed && !files_put(path_of(writer, name, path), head, head_size, bytes, size))
        complain(writer, path);
}

void writer_put_array(struct bundle_writer *writer, const char *name, enum value_type type, const void *bytes, uint64_t size)
{
    char header[NPY_HEADER];
    enum value_type written = type == VALUE_TYPES ? VALUE_UINT8 : type;
    npy_write(written, size / value_width(written), header);
    writer_put(writer, name, header, sizeof header, bytes, size);
    writer->bytes += size;
}

void writer_put_text(struct bundle_writer *writer, const char *name, char *text)
{
    writer_put(writer, name, NULL, 0, text, text ? strlen(text) : 0);
    free(text);
}

void writer_put_facts(struct bundle_writer *writer, const struct fault_memory *memory, const struct rerun_result *rerun)
{
    struct snapshot_source origin = {
        .pid = (int)getpid(), .rank = options_rank(), .device = memory->device, .time_ns = clock_ns(CLOCK_REALTIME)};
    const char *options = env_get("CUFENCE_OPTIONS");
    driver_describe(memory->device, origin.device_name, sizeof origin.device_name);
    snprintf(origin.options, sizeof origin.options, "%s", options ? options : "");
    if (readlink("/proc/self/exe", origin.program, sizeof origin.program - 1) < 0)
        origin.program[0] = '\0';
    writer_put_text(writer, BUNDLE_FACTS, snapshot_write(memory, &origin, rerun));
}

/* ---- dumps ---- */

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

/* Returns 0 on failure. */
static int write_packed(const struct gzip *gzip, const char *path, const char *bytes, size_t size)
{
    int fd = files_create(path), is_ok;
    void *file = fd >= 0 ? gzip->gzdopen(fd, "wb1") : NULL; /* the fastest level already shrinks dumps to a tenth */
    if (fd >= 0 && !file)
        close(fd);
    is_ok = file != NULL;
    for (size_t at = 0; is_ok && at < size; at += AT_ONCE)
        is_ok = gzip->gzwrite(file, bytes + at, size - at < AT_ONCE ? (unsigned)(size - at) : AT_ONCE) > 0;
    is_ok = file && gzip->gzclose(file) == 0 && is_ok;
    if (fd >= 0 && !is_ok)
        unlink(path);
    return is_ok;
}

void writer_put_dump(struct bundle_writer *writer, const char *stem, const struct dump *dump)
{
    struct gzip gzip;
    char name[32], path[PATH_ROOM];
    if (!dump || writer->has_failed)
        return;
    int is_packed = find_gzip(&gzip);
    snprintf(name, sizeof name, "%s%s", stem, is_packed ? ".gz" : "");
    path_of(writer, name, path);
    errno = 0;
    if (!(is_packed ? write_packed(&gzip, path, dump->bytes, dump->size) : files_put(path, NULL, 0, dump->bytes, dump->size)))
        complain(writer, path);
}

/* ---- buffers ---- */

struct bundle_buffer *writer_add(struct bundle_writer *writer, const cufence_buffer *from)
{
    if (writer->buffer_count == BUNDLE_BUFFERS)
        return NULL;
    struct bundle_buffer *buffer = &writer->buffers[writer->buffer_count++];
    *buffer = bundle_buffer_of(from);
    return buffer;
}

struct bundle_buffer *writer_add_pinned(struct bundle_writer *writer, const struct bundle_buffer *from)
{
    struct bundle_buffer *buffer = &writer->pinned[writer->pinned_count++];
    *buffer = *from;
    return buffer;
}

void writer_leave_out(struct bundle_buffer *buffer, const char *why)
{
    buffer->file[0] = buffer->after[0] = '\0';
    snprintf(buffer->reason, sizeof buffer->reason, "%s", why);
}

static const char no_file[] = "its file could not be written";

int writer_open(struct bundle_writer *writer, struct bundle_buffer *buffer, int is_after)
{
    char path[PATH_ROOM], header[NPY_HEADER];
    bundle_name_file(buffer, is_after);
    int fd = files_create(path_of(writer, is_after ? buffer->after : buffer->file, path));
    npy_write(VALUE_UINT8, buffer->size, header);
    if (fd >= 0 && files_write(fd, header, sizeof header)) {
        writer->bytes += buffer->size;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    writer_leave_out(buffer, no_file);
    return -1;
}

void writer_put_bytes(struct bundle_writer *writer, struct bundle_buffer *buffer, int is_after, const void *bytes)
{
    int fd = writer->has_failed ? -1 : writer_open(writer, buffer, is_after);
    if (fd < 0)
        return;
    files_write(fd, bytes, buffer->size); /* one that is too short is found in the end */
    close(fd);
}

/* ---- the end ---- */

/* Whether the file, if there is to be one, has all bytes of the buffer behind its head. */
static int is_whole(const struct bundle_writer *writer, const char *name, uint64_t size)
{
    char path[PATH_ROOM];
    struct stat file;
    return !name[0] || (stat(path_of(writer, name, path), &file) == 0 && (uint64_t)file.st_size == NPY_HEADER + size);
}

static void remove_file(const struct bundle_writer *writer, const char *name)
{
    char path[PATH_ROOM];
    if (name[0])
        unlink(path_of(writer, name, path));
}

/* Returns the number of buffers that are left out, with those whose files are not whole. */
static size_t check_files(struct bundle_writer *writer, struct bundle_buffer *buffers, size_t count)
{
    size_t left_out = 0;
    for (size_t i = 0; i < count; i++) {
        struct bundle_buffer *buffer = &buffers[i];
        if (!is_whole(writer, buffer->file, buffer->size) || !is_whole(writer, buffer->after, buffer->size)) {
            remove_file(writer, buffer->file);
            remove_file(writer, buffer->after);
            writer->bytes -= buffer->size * (buffer->after[0] ? 2 : 1);
            writer_leave_out(buffer, no_file);
        }
        left_out += !buffer->file[0];
    }
    return left_out;
}

size_t writer_finish_launch(struct bundle_writer *writer, struct bundle *launch)
{
    size_t left_out =
        check_files(writer, writer->buffers, writer->buffer_count) + check_files(writer, writer->pinned, writer->pinned_count);
    launch->buffers = writer->buffers;
    launch->buffer_count = writer->buffer_count;
    launch->pinned = writer->pinned;
    launch->pinned_count = writer->pinned_count;
    writer_put_text(writer, BUNDLE_README, bundle_readme(launch));
    writer_put_text(writer, BUNDLE_LAUNCH, bundle_write(launch)); /* last: a bundle that has it is whole */
    return left_out;
}

void writer_drop_launch(struct bundle_writer *writer)
{
    for (size_t i = 0; i < writer->buffer_count; i++)
        remove_file(writer, writer->buffers[i].file);
    for (size_t i = 0; i < writer->pinned_count; i++)
        remove_file(writer, writer->pinned[i].file);
    remove_file(writer, BUNDLE_IMAGE);
    rmdir(writer->folder);
}
