/* Changes of `cufence replay --set-arg` and --buffer: what the launch is given instead. */
#include "replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* Splits "K=VALUE". Returns the value, and the argument's index, which is the same in all launches. */
static const char *find_argument(const struct bundle_reader *reader, const char *text, const struct launch_argument **argument,
                                 struct problem *problem)
{
    char *end;
    const struct bundle *bundle = reader->bundle;
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
static void change_launch(struct bundle_reader *reader, size_t number, const struct launch_argument *argument,
                          const uint8_t *bytes)
{
    const struct fault_memory *memory = reader->facts ? &reader->facts->memory : NULL;
    for (size_t i = 0; memory && i < memory->launch_count; i++) {
        struct launch_entry *entry = (struct launch_entry *)(uintptr_t)memory->launches[i].entry; /* the snapshot is our own */
        if (argument->offset + argument->size <= entry->kept_bytes && bundle_is_recorded(reader, number, entry))
            memcpy(entry->bytes + argument->offset, bytes, argument->size);
    }
    uint8_t *own = (uint8_t *)(uintptr_t)reader->bundle->launches[number].arguments; /* the bundle is our own, too */
    memcpy(own + argument->offset, bytes, argument->size);
}

cufence_status change_argument(struct bundle_reader *reader, const char *text, struct problem *problem)
{
    const struct launch_argument *argument;
    uint8_t bytes[8];
    const char *value = find_argument(reader, text, &argument, problem);
    if (!value)
        return CUFENCE_ERROR_INVALID_ARGUMENT;
    if (!parse_whole(value, argument->size, bytes) && !parse_real(value, argument->size, bytes))
        return problem_set(
            problem, CUFENCE_ERROR_INVALID_ARGUMENT,
            "'%.40s' is not a value of %u bytes; use 999, -1, 0x3e7, or with a suffix 1.5f (4 bytes) or 1.5d (8 bytes)", value,
            argument->size);
    for (size_t i = 0; i < reader->bundle->launch_count; i++)
        change_launch(reader, i, argument, bytes);
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
static int merge(const struct bundle_reader *reader, const struct bundle_buffer *buffer, int array, uint64_t offset,
                 uint64_t bytes)
{
    uint64_t start = 0;
    int merged = memfd_create("cufence-buffer", MFD_CLOEXEC);
    int saved = buffer->file[0] ? bundle_before(reader, buffer, &start) : -1;
    int is_ok = merged >= 0 && ftruncate(merged, (off_t)buffer->size) == 0 &&
                (saved < 0 || copy(saved, start, merged, buffer->size)) && copy(array, offset, merged, bytes);
    if (saved >= 0)
        close(saved);
    if (!is_ok && merged >= 0)
        close(merged);
    return is_ok ? merged : -1;
}

static cufence_status replace(struct bundle_reader *reader, const struct bundle_buffer *buffer, const char *name,
                              struct problem *problem)
{
    struct problem why;
    uint64_t offset = 0, bytes = 0;
    int array = array_open(open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK), &offset, &bytes, &why);
    if (array < 0)
        return problem_set(problem, CUFENCE_ERROR_SYSTEM, "%.100s: %.100s", name, why.text);
    if (bytes > buffer->size) {
        close(array);
        return problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT, "%.100s has %llu bytes, but the buffer only %llu", name,
                           (unsigned long long)bytes, (unsigned long long)buffer->size);
    }
    int merged = merge(reader, buffer, array, offset, bytes);
    close(array);
    if (merged < 0)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no room for the bytes of %.100s", name);
    reader->replaced[reader->replaced_count].buffer = buffer;
    reader->replaced[reader->replaced_count++].fd = merged;
    return CUFENCE_OK;
}

cufence_status change_buffer(struct bundle_reader *reader, const char *text, struct problem *problem)
{
    const struct launch_argument *argument;
    uint64_t pointer = 0;
    const char *name = find_argument(reader, text, &argument, problem);
    if (!name)
        return CUFENCE_ERROR_INVALID_ARGUMENT;
    if (reader->replaced_count == BUNDLE_REPLACED)
        return problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT, "at most %d buffers can be replaced", BUNDLE_REPLACED);
    if (argument->size == sizeof pointer)
        memcpy(&pointer, reader->bundle->launches[0].arguments + argument->offset, sizeof pointer);
    const struct bundle *bundle = reader->bundle;
    const struct bundle_buffer *buffer = bundle_find(bundle, pointer);
    int is_pinned = bundle->pinned_count && buffer >= bundle->pinned && buffer < bundle->pinned + bundle->pinned_count;
    if (buffer && !buffer->id && !is_pinned)
        return problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT,
                           "that argument points into memory that several buffers may share, whose bytes cannot be replaced "
                           "(small=map gives each buffer its own)");
    return buffer ? replace(reader, buffer, name, problem)
                  : problem_set(problem, CUFENCE_ERROR_INVALID_ARGUMENT, "that argument points to no buffer of the bundle");
}
