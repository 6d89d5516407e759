#include "opened.h"

#include "analysis/snapshot/bundle.h"
#include "analysis/verdict/launches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_JSON ((size_t)256 << 20)
#define MIN_IMAGE 64 /* bytes of a header */
#define MOST_DUMP ((size_t)2 << 30)

/* Opens a file in a folder of the bundle. Returns -1 with errno set: ELOOP for a link. */
static int open_in(int folder, const char *name)
{
    return openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static cufence_status load(const struct opened *opened, const char *name, size_t most, struct loaded *bytes,
                           struct problem *problem)
{
    struct problem why;
    if (loaded_open(open_in(opened->folder, name), most, bytes, &why))
        return CUFENCE_OK;
    return problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s: %s", name, why.text);
}

/* Finds the bytes in the file of an array. Returns a descriptor, or -1 with the reason in *problem. Closes the file on errors.
 */
static int read_array(int fd, uint64_t *offset, uint64_t *bytes, struct problem *problem)
{
    struct stat file;
    if (fd < 0 || fstat(fd, &file) != 0) {
        problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s", strerror(errno));
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
static int open_array(const struct opened *opened, const struct bundle_buffer *buffer, const char *name, uint64_t *offset,
                      struct problem *problem)
{
    uint64_t bytes = 0;
    int fd = read_array(open_in(opened->buffers, name), offset, &bytes, problem);
    if (fd < 0 || (bytes == buffer->size && *offset <= UINT32_MAX))
        return fd;
    problem_set(problem, CUFENCE_ERROR_CORRUPT, "it has %llu bytes, but the buffer %llu", (unsigned long long)bytes,
                (unsigned long long)buffer->size);
    close(fd);
    return -1;
}

/* Looks at the files of all buffers, so that a damaged one is found before anything is launched. A missing name is well. */
static cufence_status check_buffers(const struct opened *opened, const struct bundle_buffer *buffers, size_t count,
                                    struct problem *problem)
{
    struct problem why;
    uint64_t offset = 0;
    for (size_t i = 0; i < 2 * count; i++) {
        const struct bundle_buffer *buffer = &buffers[i / 2];
        const char *name = i % 2 ? buffer->after : buffer->file;
        int fd = name[0] ? open_array(opened, buffer, name, &offset, &why) : -1;
        if (name[0] && fd < 0)
            return problem_set(problem, CUFENCE_ERROR_CORRUPT, "%s/%s: %s", BUNDLE_FOLDER, name, why.text);
        if (fd >= 0)
            close(fd);
    }
    return CUFENCE_OK;
}

/* The driver reads a cubin and a fat binary as far as they say, and text up to its NUL. */
static cufence_status check_image(const struct loaded *image, struct problem *problem)
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

static cufence_status copy_launches(struct opened *opened, struct problem *problem)
{
    opened->arguments = malloc((size_t)BUNDLE_LAUNCHES * RERUN_ARGUMENTS);
    if (!opened->arguments)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    for (size_t i = 0; i < opened->bundle->launch_count; i++) {
        struct rerun_launch *launch = &opened->launches[i];
        *launch = opened->bundle->launches[i];
        uint8_t *own = opened->arguments + i * RERUN_ARGUMENTS;
        memcpy(own, launch->arguments, launch->argument_bytes);
        launch->arguments = own;
    }
    return CUFENCE_OK;
}

/* The report can do without these. */
static void load_rest(struct opened *opened)
{
    struct loaded text = {0};
    struct problem ignored;
    if (load(opened, BUNDLE_SNAPSHOT, MOST_JSON, &text, &ignored) == CUFENCE_OK)
        snapshot_read(text.at, text.size, &opened->snapshot, &ignored);
    loaded_forget(&text);
    for (int i = 0; i < 2 && !opened->dump.at; i++)
        if (load(opened, i ? BUNDLE_STEM ".core" : BUNDLE_STEM ".core.gz", MOST_DUMP, &opened->dump, &ignored) != CUFENCE_OK) {
            loaded_forget(&opened->dump);
            opened->dump = (struct loaded){0};
        }
}

cufence_status opened_open(const char *path, struct opened *opened, struct problem *problem)
{
    struct loaded text = {0};
    *opened = (struct opened){.folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .buffers = -1};
    if (opened->folder < 0)
        return problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s", strerror(errno));
    opened->buffers = openat(opened->folder, BUNDLE_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (opened->buffers < 0)
        return problem_set(problem, CUFENCE_ERROR_SYSTEM, "%s: %s%s", BUNDLE_FOLDER, strerror(errno),
                           errno == ENOENT ? "; a saved launch is a folder in that of keep=, such as fault-4242-1" : "");
    cufence_status status = load(opened, BUNDLE_INPUT, MOST_JSON, &text, problem);
    if (status == CUFENCE_OK)
        status = bundle_read(text.at, text.size, &opened->bundle, problem);
    loaded_forget(&text);
    const struct bundle *bundle = opened->bundle;
    if (status != CUFENCE_OK || (status = copy_launches(opened, problem)) != CUFENCE_OK ||
        (status = load(opened, BUNDLE_IMAGE, RERUN_IMAGE, &opened->image, problem)) != CUFENCE_OK ||
        (status = check_image(&opened->image, problem)) != CUFENCE_OK ||
        (status = check_buffers(opened, bundle->buffers, bundle->buffer_count, problem)) != CUFENCE_OK ||
        (status = check_buffers(opened, bundle->pinned, bundle->pinned_count, problem)) != CUFENCE_OK)
        return status;
    for (size_t i = 0; i < bundle->buffer_count; i++)
        opened->mapped += bundle->buffers[i].mapping_end - bundle->buffers[i].mapping_start;
    load_rest(opened);
    return CUFENCE_OK;
}

void opened_close(struct opened *opened)
{
    while (opened->replaced_count)
        close(opened->replaced[--opened->replaced_count].fd);
    if (opened->folder >= 0)
        close(opened->folder);
    if (opened->buffers >= 0)
        close(opened->buffers);
    snapshot_free(opened->snapshot);
    loaded_forget(&opened->image);
    loaded_forget(&opened->dump);
    free(opened->arguments);
    bundle_free(opened->bundle);
}

/* Returns the descriptor of the bytes that replace the buffer's, -1 if there are none. */
static int find_replaced(const struct opened *opened, const struct bundle_buffer *buffer)
{
    for (size_t i = opened->replaced_count; i-- > 0;)
        if (opened->replaced[i].buffer == buffer)
            return opened->replaced[i].fd;
    return -1;
}

/* Opens what the buffer, whose bytes are in the bundle or were replaced, holds before the launch. */
static int opened_before(const struct opened *opened, const struct bundle_buffer *buffer, uint64_t *offset)
{
    struct problem ignored;
    int replaced = find_replaced(opened, buffer);
    *offset = 0;
    return replaced >= 0 ? fcntl(replaced, F_DUPFD_CLOEXEC, 0) : open_array(opened, buffer, buffer->file, offset, &ignored);
}

int opened_answer(const struct opened *opened, const struct rerun_message *question, struct rerun_message *answer)
{
    const struct bundle_buffer *buffer = question->type == MESSAGE_NEED ? bundle_find(opened->bundle, question->address) : NULL;
    if (!buffer)
        return -1;
    uint64_t offset = 0;
    int has_bytes = buffer->file[0] || find_replaced(opened, buffer) >= 0;
    errno = EIO; /* of a file that has been damaged since it was looked at */
    int fd = has_bytes ? opened_before(opened, buffer, &offset) : -1;
    *answer = (struct rerun_message){.type = has_bytes ? MESSAGE_FILE : MESSAGE_ZEROS,
                                     .number = (uint32_t)offset,
                                     .address = buffer->mapping_start,
                                     .bytes = buffer->mapping_end - buffer->mapping_start,
                                     .is_bounded = (uint32_t)buffer->is_bounded,
                                     .data = buffer->address,
                                     .data_bytes = buffer->size};
    return fd;
}

int opened_expected(const struct opened *opened, const struct bundle_buffer *buffer, uint64_t *offset)
{
    struct problem ignored;
    *offset = 0;
    return buffer->after[0] ? open_array(opened, buffer, buffer->after, offset, &ignored)
                            : opened_before(opened, buffer, offset);
}

/* Whether a launch on record may be that of the bundle. */
static int is_recorded(const struct opened *opened, size_t number, const struct launch_entry *entry)
{
    const struct rerun_launch *launch = &opened->launches[number];
    struct evidence_site site = {.symbol = opened->bundle->symbol,
                                 .has_grid = 1,
                                 .shape = launch->shape,
                                 .parameters = launch->arguments,
                                 .parameter_bytes = launch->argument_bytes};
    return launch_fits(entry, &site);
}

const struct fault_launch *opened_record(const struct opened *opened, size_t number)
{
    const struct fault_memory *memory = opened->snapshot ? &opened->snapshot->memory : NULL;
    for (size_t i = 0; memory && i < memory->launch_count; i++)
        if (is_recorded(opened, number, memory->launches[i].entry))
            return &memory->launches[i];
    return NULL;
}

/* ---- cures ---- */

/* Splits "K=VALUE". Returns the value, and the argument's index, which is the same in all launches. */
static const char *find_argument(const struct opened *opened, const char *text, const struct launch_argument **argument,
                                 struct problem *problem)
{
    char *end;
    const struct bundle *bundle = opened->bundle;
    unsigned long number = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (*text < '0' || *text > '9' || *end != '=' || !end[1])
        problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT, "'%.80s' is not K=VALUE, such as 1=999", text);
    else if (!bundle->layout)
        problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT,
                    "where the kernel's arguments begin is not in the bundle (the driver tells from CUDA 12.4 on)");
    else if (number >= bundle->argument_count)
        problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT, "the kernel has no argument %lu; it has %zu, from 0", number,
                    bundle->argument_count);
    else {
        *argument = &bundle->layout[number];
        return end + 1;
    }
    return NULL;
}

/* Returns 0 if `text` is no whole number that fits into `size` bytes, signed or not. */
static int parse_whole(const char *text, uint32_t size, uint8_t *bytes)
{
    char *end;
    int is_negative = *text == '-';
    const char *digits = text + is_negative;
    int base = !strncmp(digits, "0x", 2) ? 16 : 10;
    errno = 0;
    uint64_t value = *digits >= '0' && *digits <= '9' ? strtoull(digits, &end, base) : 0;
    if (*digits < '0' || *digits > '9' || *end || errno || size > 8 || (size & (size - 1)))
        return 0;
    uint64_t limit = size == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * size)) - 1;
    if (value > (is_negative ? limit / 2 + 1 : limit))
        return 0;
    value = is_negative ? 0 - value : value;
    memcpy(bytes, &value, size);
    return 1;
}

/* "1.5f" for a float of 4 bytes, "1.5d" for a double of 8. Returns 0 for others. */
static int parse_real(const char *text, uint32_t size, uint8_t *bytes)
{
    char *end;
    if (!strncmp(text, "0x", 2)) /* its digits may end in d or f */
        return 0;
    double value = strtod(text, &end);
    float narrow = (float)value;
    if (end == text || end[0] == '\0' || end[1] != '\0')
        return 0;
    if (*end == 'f' && size == sizeof narrow)
        memcpy(bytes, &narrow, sizeof narrow);
    else if (*end == 'd' && size == sizeof value)
        memcpy(bytes, &value, sizeof value);
    else
        return 0;
    return 1;
}

/* In what is on record too, for the report. */
static void change_argument(struct opened *opened, size_t number, const struct launch_argument *argument, const uint8_t *bytes)
{
    const struct fault_memory *memory = opened->snapshot ? &opened->snapshot->memory : NULL;
    for (size_t i = 0; memory && i < memory->launch_count; i++) {
        struct launch_entry *entry = (struct launch_entry *)(uintptr_t)memory->launches[i].entry; /* the snapshot is our own */
        if (argument->offset + argument->size <= entry->kept_bytes && is_recorded(opened, number, entry))
            memcpy(entry->bytes + argument->offset, bytes, argument->size);
    }
    memcpy(opened->arguments + number * RERUN_ARGUMENTS + argument->offset, bytes, argument->size);
}

cufence_status opened_set_argument(struct opened *opened, const char *text, struct problem *problem)
{
    const struct launch_argument *argument;
    uint8_t bytes[8];
    const char *value = find_argument(opened, text, &argument, problem);
    if (!value)
        return CUFENCE_ERROR_INVALID_ARGUMENT;
    if (!parse_whole(value, argument->size, bytes) && !parse_real(value, argument->size, bytes))
        return problem_set(
            problem, CUFENCE_ERROR_INVALID_ARGUMENT,
            "'%.40s' is not a value of %u bytes; use 999, -1, 0x3e7, or with a suffix 1.5f (4 bytes) or 1.5d (8 bytes)", value,
            argument->size);
    for (size_t i = 0; i < opened->bundle->launch_count; i++)
        change_argument(opened, i, argument, bytes);
    return CUFENCE_OK;
}

/* Copies bytes to the start of a file. Returns 0 on failure. */
static int copy(int from, uint64_t offset, int to, uint64_t bytes)
{
    off_t at = (off_t)offset;
    if (lseek(to, 0, SEEK_SET) != 0)
        return 0;
    while (bytes) {
        ssize_t got = sendfile(to, from, &at, bytes);
        if (got <= 0)
            return 0;
        bytes -= (uint64_t)got;
    }
    return 1;
}

/* Makes a file of the buffer's bytes, with those of the array in front. Returns -1 on failure. */
static int merge(const struct opened *opened, const struct bundle_buffer *buffer, int array, uint64_t offset, uint64_t bytes)
{
    struct problem ignored;
    uint64_t start = 0;
    int merged = memfd_create("cufence-buffer", MFD_CLOEXEC);
    int saved = buffer->file[0] ? open_array(opened, buffer, buffer->file, &start, &ignored) : -1;
    int is_ok = merged >= 0 && ftruncate(merged, (off_t)buffer->size) == 0 &&
                (saved < 0 || copy(saved, start, merged, buffer->size)) && copy(array, offset, merged, bytes);
    if (saved >= 0)
        close(saved);
    if (!is_ok && merged >= 0)
        close(merged);
    return is_ok ? merged : -1;
}

static cufence_status replace(struct opened *opened, const struct bundle_buffer *buffer, const char *name,
                              struct problem *problem)
{
    struct problem why;
    uint64_t offset = 0, bytes = 0;
    int array = read_array(open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK), &offset, &bytes, &why);
    if (array < 0)
        return problem_set(problem, CUFENCE_ERROR_SYSTEM, "%.100s: %.100s", name, why.text);
    if (bytes > buffer->size) {
        close(array);
        return problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT, "%.100s has %llu bytes, but the buffer only %llu", name,
                           (unsigned long long)bytes, (unsigned long long)buffer->size);
    }
    int merged = merge(opened, buffer, array, offset, bytes);
    close(array);
    if (merged < 0)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no room for the bytes of %.100s", name);
    opened->replaced[opened->replaced_count].buffer = buffer;
    opened->replaced[opened->replaced_count++].fd = merged;
    return CUFENCE_OK;
}

cufence_status opened_set_buffer(struct opened *opened, const char *text, struct problem *problem)
{
    const struct launch_argument *argument;
    uint64_t pointer = 0;
    const char *name = find_argument(opened, text, &argument, problem);
    if (!name)
        return CUFENCE_ERROR_INVALID_ARGUMENT;
    if (opened->replaced_count == OPENED_REPLACED)
        return problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT, "at most %d buffers can be replaced", OPENED_REPLACED);
    if (argument->size == sizeof pointer)
        memcpy(&pointer, opened->arguments + argument->offset, sizeof pointer);
    const struct bundle *bundle = opened->bundle;
    const struct bundle_buffer *buffer = bundle_find(bundle, pointer);
    int is_pinned = bundle->pinned_count && buffer >= bundle->pinned && buffer < bundle->pinned + bundle->pinned_count;
    if (buffer && !buffer->id && !is_pinned)
        return problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT,
                           "that argument points into memory that several buffers may share, whose bytes cannot be replaced "
                           "(small=map gives each buffer its own)");
    return buffer ? replace(opened, buffer, name, problem)
                  : problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT, "that argument points to no buffer of the bundle");
}
