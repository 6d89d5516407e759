#include "bundle_reader.h"

#include "analysis/verdict/launches.h"
#include "base/files.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define MOST_JSON ((size_t)64 << 20)
#define MIN_IMAGE 64 /* bytes of a header */
#define MOST_DUMP ((size_t)2 << 30)
#define MOST_UNPACKED ((size_t)1 << 30)

/* ---- the bytes of a file ---- */

void file_forget(struct file_bytes *bytes)
{
    if (bytes->at)
        munmap(bytes->at, bytes->size);
}

static int is_gzip(int fd)
{
    unsigned char magic[2];
    return pread(fd, magic, sizeof magic, 0) == sizeof magic && magic[0] == 0x1f && magic[1] == 0x8b;
}

/* Takes ownership of the descriptor. */
static int unpack(int fd, size_t most, struct file_bytes *bytes, struct problem *problem)
{
    enum { BLOCK = 1 << 20 };
    size_t room = (most < MOST_UNPACKED ? most : MOST_UNPACKED) + BLOCK; /* what is not used costs nothing */
    char *text = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    gzFile file = text != MAP_FAILED ? gzdopen(fd, "rb") : NULL;
    const char *why = file ? NULL : "the host has no memory for it";
    int got = 0, code;
    while (file && bytes->size <= room - BLOCK && (got = gzread(file, text + bytes->size, BLOCK)) > 0)
        bytes->size += (size_t)got;
    if (got < 0)
        why = gzerror(file, &code);
    else if (bytes->size > room - BLOCK)
        why = most < MOST_UNPACKED ? "it is too large" : "it has more than 1 GiB; if you trust it, unpack it with gunzip";
    else if (!bytes->size && !why)
        why = "it is empty";
    if (why)
        problem_set(problem, CUFENCE_ERROR_CORRUPT, "cannot be unpacked: %s", why);
    (void)(file ? gzclose(file) : close(fd));
    if (!why)
        bytes->at = mremap(text, room, bytes->size, 0);
    else if (text != MAP_FAILED)
        munmap(text, room);
    return bytes->at != NULL;
}

/* In a folder that a stranger may have made, a link could lead anywhere (open_in()). */
static const char *why_not_open(void)
{
    return errno == ELOOP ? "it is a symbolic link; cufence does not follow links in a saved launch" : strerror(errno);
}

int file_load(int fd, size_t most, struct file_bytes *bytes, struct problem *problem)
{
    struct stat status;
    *bytes = (struct file_bytes){0};
    if (fd < 0 || fstat(fd, &status) != 0) {
        problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s", why_not_open());
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
    if (bytes->at == MAP_FAILED) {
        const char *why = bytes->size ? strerror(errno) : S_ISREG(status.st_mode) ? "it is empty" : "it is not a regular file";
        problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s", why);
        bytes->at = NULL;
    }
    close(fd);
    return bytes->at != NULL;
}

void file_source(const char *command, struct finding *finding)
{
    const struct evidence_stop *stop = &finding->where.stop;
    finding->where.source_count = source_read_below(stop->file, stop->line, finding->where.source);
    if (errno == EXDEV)
        text_put_line(stderr,
                      "cufence %s: %s is not below the current folder: its lines are not shown; CUFENCE_SOURCES may name its "
                      "folder",
                      command, stop->file);
}

/* Opens a file in a folder of the bundle. Returns -1 with errno set: ELOOP for a link. */
static int open_in(int folder, const char *name)
{
    return openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static cufence_status load(const struct bundle_reader *reader, const char *name, size_t most, struct file_bytes *bytes,
                           struct problem *problem)
{
    struct problem why;
    if (file_load(open_in(reader->folder, name), most, bytes, &why))
        return CUFENCE_OK;
    return problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s: %s", name, why.text);
}

/* Finds the bytes in the file of an array. Returns a descriptor, or -1 with the reason in *problem. Closes the file on errors.
 */
static int array_open(int fd, uint64_t *offset, uint64_t *bytes, struct problem *problem)
{
    struct stat file;
    if (fd < 0 || fstat(fd, &file) != 0) {
        problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s", why_not_open());
        return -1;
    }
    uint8_t *start = S_ISREG(file.st_mode) ? malloc(NPY_MOST) : NULL;
    ssize_t got = start ? pread(fd, start, NPY_MOST, 0) : -1;
    cufence_status status = got < 0 ? problem_set(problem, CUFENCE_ERROR_SYSTEM, "it cannot be read, or is not a regular file")
                                    : npy_read(start, (size_t)got, offset, bytes, problem);
    free(start);
    if (status == CUFENCE_OK && (*bytes > (uint64_t)file.st_size || *offset > (uint64_t)file.st_size - *bytes))
        status = problem_set(problem, CUFENCE_ERROR_CORRUPT, "it is truncated");
    if (status == CUFENCE_OK)
        return fd;
    close(fd);
    return -1;
}

/* name: of the file with its bytes before the launch, or after it. */
static int open_array(const struct bundle_reader *reader, const struct bundle_buffer *buffer, const char *name,
                      uint64_t *offset, struct problem *problem)
{
    uint64_t bytes = 0;
    int fd = array_open(open_in(reader->folder, name), offset, &bytes, problem);
    if (fd < 0 || (bytes == buffer->size && *offset <= UINT32_MAX))
        return fd;
    problem_set(problem, CUFENCE_ERROR_CORRUPT, "it has %llu bytes, but the buffer %llu", (unsigned long long)bytes,
                (unsigned long long)buffer->size);
    close(fd);
    return -1;
}

/* ---- what is known ---- */

/* An absent file is none of the reasons. */
static void load_known(struct bundle_reader *reader, const char *name, size_t most, struct file_bytes *bytes)
{
    struct problem why;
    if (faccessat(reader->folder, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 || load(reader, name, most, bytes, &why) == CUFENCE_OK)
        return;
    file_forget(bytes);
    *bytes = (struct file_bytes){0};
    reader->unread = why;
}

static int has(const char *path, const char *name)
{
    char file[PATH_MAX];
    struct stat status;
    return snprintf(file, sizeof file, "%s/%s", path, name) < PATH_MAX && lstat(file, &status) == 0;
}

int bundle_is(const char *path, int has_launch)
{
    return has(path, BUNDLE_LAUNCH) || has(path, BUNDLE_EARLIER) ||
           (!has_launch && (has(path, BUNDLE_FACTS) || has(path, BUNDLE_DUMP ".gz") || has(path, BUNDLE_DUMP)));
}

cufence_status bundle_open(const char *path, struct bundle_reader *reader, struct problem *problem)
{
    struct problem why;
    struct file_bytes text = {0};
    *reader = (struct bundle_reader){.folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (reader->folder < 0)
        return problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s", strerror(errno));
    if (has(path, BUNDLE_EARLIER))
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "it was written by an earlier cufence, which can read it");
    load_known(reader, BUNDLE_FACTS, MOST_JSON, &text);
    if (text.at && snapshot_read(text.at, text.size, &reader->facts, &why) != CUFENCE_OK)
        problem_set(&reader->unread, CUFENCE_ERROR_CORRUPT, "%s: %s", BUNDLE_FACTS, why.text);
    file_forget(&text);
    for (int i = 0; i < 2; i++) {
        struct file_bytes *bytes = i ? &reader->second : &reader->dump;
        load_known(reader, i ? BUNDLE_SECOND ".gz" : BUNDLE_DUMP ".gz", MOST_DUMP, bytes);
        reader->dump_name = i ? reader->dump_name : bytes->at ? BUNDLE_DUMP ".gz" : BUNDLE_DUMP;
        if (!bytes->at)
            load_known(reader, i ? BUNDLE_SECOND : BUNDLE_DUMP, MOST_DUMP, bytes);
    }
    return CUFENCE_OK;
}

const struct fault_memory *facts_memory(const struct snapshot *facts)
{
    static const struct fault_memory unknown = {.is_unknown = 1};
    return facts ? &facts->memory : &unknown;
}

struct finding_source facts_source(const struct snapshot *facts, int device)
{
    if (!facts)
        return (struct finding_source){.rank = -1, .device = device};
    const struct snapshot_source *from = &facts->origin;
    return (struct finding_source){from->pid, from->rank, from->device, from->device_name[0] ? from->device_name : NULL, NULL};
}

void bundle_close(struct bundle_reader *reader)
{
    if (reader->folder >= 0)
        close(reader->folder);
    snapshot_free(reader->facts);
    file_forget(&reader->image);
    file_forget(&reader->dump);
    file_forget(&reader->second);
    bundle_free(reader->bundle);
}

/* ---- what it takes to launch it ---- */

static cufence_status load_launch(struct bundle_reader *reader, struct problem *problem)
{
    struct file_bytes text;
    struct problem why;
    cufence_status status = load(reader, BUNDLE_LAUNCH, MOST_JSON, &text, &why);
    if (status == CUFENCE_OK)
        status = bundle_read(text.at, text.size, &reader->bundle, problem);
    else
        problem_set(problem, status, "%s; %s", why.text,
                    reader->dump.at ? "the kernel could not be launched again; `cufence explain` tells of its fault"
                                    : "a saved launch is a folder in that of keep=, such as fault-4242-1");
    file_forget(&text);
    return status;
}

void bundle_kernel(const char *path, char *kernel, size_t room)
{
    struct problem ignored;
    struct bundle_reader reader = {.folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    kernel[0] = '\0';
    if (load_launch(&reader, &ignored) == CUFENCE_OK)
        finding_kernel_of(reader.bundle->symbol, kernel, room);
    bundle_close(&reader);
}

/* Looks at the files of all buffers, so that a damaged one is found before anything is launched. A missing name is well. */
static cufence_status check_buffers(const struct bundle_reader *reader, const struct bundle_buffer *buffers, size_t count,
                                    struct problem *problem)
{
    struct problem why;
    uint64_t offset = 0;
    for (size_t i = 0; i < 2 * count; i++) {
        const struct bundle_buffer *buffer = &buffers[i / 2];
        const char *name = i % 2 ? buffer->after : buffer->file;
        int fd = name[0] ? open_array(reader, buffer, name, &offset, &why) : -1;
        if (name[0] && fd < 0)
            return problem_set(problem, CUFENCE_ERROR_CORRUPT, "%s: %s", name, why.text);
        if (fd >= 0)
            close(fd);
    }
    return CUFENCE_OK;
}

/* The driver reads a cubin and a fat binary as far as they say, and text up to its NUL. */
static cufence_status check_image(const struct file_bytes *image, struct problem *problem)
{
    static const unsigned char starts[][4] = {{0x7f, 'E', 'L', 'F'}, {0x50, 0xed, 0x55, 0xba}};
    const uint8_t *bytes = image->at;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (image->size >= MIN_IMAGE && !memcmp(bytes, starts[i], sizeof starts[i]))
            return CUFENCE_OK;
    if (image->size && !bytes[image->size - 1])
        return CUFENCE_OK;
    return problem_set(problem, CUFENCE_ERROR_CORRUPT, "%s: it is not a cubin, a fat binary or complete PTX", BUNDLE_IMAGE);
}

cufence_status bundle_open_launch(struct bundle_reader *reader, struct problem *problem)
{
    cufence_status status = load_launch(reader, problem);
    const struct bundle *bundle = reader->bundle;
    if (status != CUFENCE_OK || (status = load(reader, BUNDLE_IMAGE, RERUN_IMAGE, &reader->image, problem)) != CUFENCE_OK ||
        (status = check_image(&reader->image, problem)) != CUFENCE_OK ||
        (status = check_buffers(reader, bundle->buffers, bundle->buffer_count, problem)) != CUFENCE_OK ||
        (status = check_buffers(reader, bundle->pinned, bundle->pinned_count, problem)) != CUFENCE_OK)
        return status;
    for (size_t i = 0; i < bundle->buffer_count; i++)
        reader->mapped += bundle->buffers[i].mapping_end - bundle->buffers[i].mapping_start;
    return CUFENCE_OK;
}

/* ---- serving the launch ---- */

int bundle_answer(const struct bundle_reader *reader, const struct rerun_message *question, struct rerun_message *answer)
{
    const struct bundle_buffer *buffer = question->type == MESSAGE_NEED ? bundle_find(reader->bundle, question->address) : NULL;
    if (!buffer)
        return -1;
    uint64_t offset = 0;
    struct problem ignored;
    int has_bytes = buffer->file[0];
    errno = EIO; /* of a file that has been damaged since it was looked at */
    int fd = has_bytes ? open_array(reader, buffer, buffer->file, &offset, &ignored) : -1;
    *answer = (struct rerun_message){.type = has_bytes ? MESSAGE_FILE : MESSAGE_ZEROS,
                                     .number = (uint32_t)offset,
                                     .address = buffer->mapping_start,
                                     .bytes = buffer->mapping_end - buffer->mapping_start,
                                     .is_bounded = (uint32_t)buffer->is_bounded,
                                     .data = buffer->address,
                                     .data_bytes = buffer->size};
    return fd;
}

int bundle_expected(const struct bundle_reader *reader, const struct bundle_buffer *buffer, uint64_t *offset)
{
    struct problem ignored;
    *offset = 0;
    return open_array(reader, buffer, buffer->after[0] ? buffer->after : buffer->file, offset, &ignored);
}

/* Whether a launch on record may be that of the bundle. */
static int is_recorded(const struct bundle_reader *reader, size_t number, const struct launch_entry *entry)
{
    const struct rerun_launch *launch = &reader->bundle->launches[number];
    struct evidence_stop stop = {.symbol = reader->bundle->symbol,
                                 .has_grid = 1,
                                 .shape = launch->shape,
                                 .parameters = launch->arguments,
                                 .parameter_bytes = launch->argument_bytes};
    return launch_fits(entry, &stop);
}

const struct fault_launch *bundle_record(const struct bundle_reader *reader, size_t number)
{
    const struct fault_memory *memory = reader->facts ? &reader->facts->memory : NULL;
    for (size_t i = 0; memory && i < memory->launch_count; i++)
        if (is_recorded(reader, number, memory->launches[i].entry))
            return &memory->launches[i];
    return NULL;
}
