#include "saving.h"

#include "analysis/snapshot/keep.h"
#include "base/output.h"
#include "base/text.h"
#include "surroundings.h"
#include "driver/driver.h"
#include "record.h"
#include "analysis/snapshot/bundle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BUNDLES 1000000u
#define SAVING_MS 60000u

static char parent[1024]; /* "" if none */

struct saving {
    uint64_t most, total; /* bytes of buffers */
    char folder[1100];
    struct bundle_buffer *buffers, pinned[RERUN_PINNED];
    struct bundle bundle; /* has the lists above */
};

cufence_status saving_open(const struct options *options)
{
    return options_expand_path(options->save, parent, sizeof parent);
}

uint64_t saving_limit_ms(const struct options *options)
{
    return options->save[0] ? SAVING_MS + (options->save_max >> 16) : 0; /* 64 MiB/s */
}

static void name_file(const struct saving *saving, const char *name, char *path, size_t room)
{
    snprintf(path, room, "%s/%s", saving->folder, name);
}

/* Makes a folder of a new name. Returns 0 on failure and sets errno. */
static int make_folders(struct saving *saving)
{
    static unsigned made;
    char buffers[1200];
    int failed;
    if (!files_make_folder(parent))
        return 0;
    do { /* process ids repeat, in containers at every start */
        snprintf(saving->folder, sizeof saving->folder, "%s/fault-%d-%u", parent, (int)getpid(), ++made);
        failed = mkdir(saving->folder, 0700);
    } while (failed && errno == EEXIST && made < MOST_BUNDLES);
    name_file(saving, BUNDLE_FOLDER, buffers, sizeof buffers);
    return !failed && mkdir(buffers, 0700) == 0;
}

static void free_saving(struct saving *saving)
{
    if (!saving)
        return;
    free(saving->buffers);
    free(saving);
}

struct saving *saving_begin(const struct options *options)
{
    if (!parent[0])
        return NULL;
    struct saving *saving = calloc(1, sizeof *saving);
    errno = ENOMEM;
    if (saving && (saving->buffers = calloc(BUNDLE_BUFFERS, sizeof *saving->buffers)) && make_folders(saving)) {
        saving->most = options->save_max;
        saving->bundle.buffers = saving->buffers;
        saving->bundle.pinned = saving->pinned;
        return saving;
    }
    files_complain(saving && saving->folder[0] ? saving->folder : parent);
    free_saving(saving);
    return NULL;
}

/* ---- what the rerun process has ---- */

void saving_keep_image(struct saving *saving, const void *image, size_t size)
{
    char path[1200];
    name_file(saving, BUNDLE_IMAGE, path, sizeof path);
    if (!files_put(path, NULL, 0, image, size))
        files_complain(path);
}

static struct bundle_buffer *add_buffer(struct saving *saving, const cufence_buffer *from)
{
    size_t *count = &saving->bundle.buffer_count;
    for (size_t i = 0; i < *count; i++)
        if (saving->buffers[i].mapping_start == from->mapping_start)
            return NULL;
    if (*count == BUNDLE_BUFFERS)
        return NULL;
    struct bundle_buffer *buffer = &saving->buffers[(*count)++];
    *buffer = bundle_buffer_of(from);
    return buffer;
}

/* Returns -1 on failure. */
static int open_file(const struct saving *saving, struct bundle_buffer *buffer, const char *kind)
{
    char path[1200], header[NPY_HEADER];
    if (buffer->id)
        snprintf(buffer->file, sizeof buffer->file, "%" PRIu64 ".npy", buffer->id);
    else
        snprintf(buffer->file, sizeof buffer->file, "%s-%" PRIx64 ".npy", kind, buffer->mapping_start);
    snprintf(path, sizeof path, "%s/" BUNDLE_FOLDER "/%s", saving->folder, buffer->file);
    int fd = files_create(path);
    npy_write(VALUE_UINT8, buffer->size, header);
    if (fd < 0 || files_write(fd, header, sizeof header))
        return fd;
    close(fd);
    return -1;
}

static void leave_out(struct bundle_buffer *buffer, const char *why)
{
    buffer->file[0] = '\0';
    snprintf(buffer->reason, sizeof buffer->reason, "%s", why);
}

/* Makes the file of a buffer if there is room for it. Returns -1 if it is left out. */
static int begin_file(struct saving *saving, struct bundle_buffer *buffer, const char *kind)
{
    int has_room = buffer->size <= saving->most - saving->total;
    int fd = has_room ? open_file(saving, buffer, kind) : -1;
    if (fd < 0)
        leave_out(buffer, has_room ? "its file could not be written" : "over the BYTES of keep=");
    else
        saving->total += buffer->size;
    return fd;
}

int saving_answer(struct saving *saving, const struct rerun_message *question, const cufence_buffer *owner, int is_bounded,
                  struct rerun_message *answer)
{
    uint64_t start = question->address, end = start + question->bytes;
    int is_owner = owner && owner->mapping_start == start && owner->mapping_end == end && owner->address >= start &&
                   owner->address <= end && owner->size <= end - owner->address;
    const cufence_buffer whole = {.address = start, .size = question->bytes, .mapping_start = start, .mapping_end = end};
    struct bundle_buffer *buffer = add_buffer(saving, is_owner ? owner : &whole);
    if (!buffer)
        return -1;
    buffer->is_bounded = is_owner && is_bounded;
    int fd = begin_file(saving, buffer, "mapping");
    if (fd < 0)
        return -1;
    *answer = (struct rerun_message){.type = MESSAGE_FILE,
                                     .number = NPY_HEADER,
                                     .address = question->address,
                                     .bytes = question->bytes,
                                     .data = buffer->address,
                                     .data_bytes = buffer->size};
    return fd;
}

void saving_keep_pinned(struct saving *saving, const struct rerun_range *range, int file)
{
    struct bundle_buffer *buffer = &saving->pinned[saving->bundle.pinned_count++];
    *buffer = bundle_pinned_of(range);
    int fd = begin_file(saving, buffer, "pinned");
    void *bytes = fd >= 0 ? mmap(NULL, range->bytes, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (bytes != MAP_FAILED) {
        files_write(fd, bytes, range->bytes); /* one that is too short is found in the end */
        munmap(bytes, range->bytes);
    }
    if (fd >= 0)
        close(fd);
}

void saving_miss(struct saving *saving, uint64_t address)
{
    cufence_buffer found;
    struct bundle_buffer *buffer = bounds_find(address, &found) && found.is_mapped ? add_buffer(saving, &found) : NULL;
    if (buffer)
        leave_out(buffer, "its memory cannot be given to another process");
}

/* ---- the end ---- */

static void remove_file(const struct saving *saving, const char *name)
{
    char path[1200];
    name_file(saving, name, path, sizeof path);
    if (unlink(path) != 0)
        rmdir(path);
}

/* Returns the number of buffers that are left out, with those whose files are not whole. */
static size_t check_files(struct saving *saving, struct bundle_buffer *buffers, size_t count)
{
    size_t left_out = 0;
    for (size_t i = 0; i < count; i++) {
        struct bundle_buffer *buffer = &buffers[i];
        char name[64], path[1200];
        struct stat file;
        snprintf(name, sizeof name, BUNDLE_FOLDER "/%s", buffer->file);
        name_file(saving, name, path, sizeof path);
        if (buffer->file[0] && (stat(path, &file) != 0 || (uint64_t)file.st_size != NPY_HEADER + buffer->size)) {
            unlink(path);
            saving->total -= buffer->size;
            leave_out(buffer, "its file could not be written");
        }
        left_out += !buffer->file[0];
    }
    return left_out;
}

/* Returns 0 on failure, after a message. `text` may be NULL: the host has no memory for it. */
static int put_text(const struct saving *saving, const char *name, const char *text)
{
    char path[1200];
    name_file(saving, name, path, sizeof path);
    int is_ok = files_put_text(path, text);
    if (!is_ok)
        files_complain(path);
    return is_ok;
}

static const struct launch_function *find_layout(const struct bundle *bundle, const struct fault_memory *memory)
{
    for (size_t i = 0; i < memory->launch_count; i++) {
        const struct launch_function *function = memory->launches[i].entry->function;
        if (function && function->has_layout && !strcmp(function->name, bundle->symbol) &&
            function->argument_bytes <= bundle->launches[0].argument_bytes)
            return function;
    }
    return NULL;
}

static void complete_bundle(struct bundle *bundle, const struct fault_memory *memory)
{
    const struct launch_function *layout = find_layout(bundle, memory);
    bundle->compute = driver_describe(memory->device, bundle->device_name, sizeof bundle->device_name);
    bundle->layout = layout ? layout->arguments : NULL;
    bundle->argument_count = layout ? layout->argument_count : 0;
}

static int put_snapshot(const struct saving *saving, const struct saving_rest *rest)
{
    char *text = files_snapshot(rest->memory, saving->bundle.device_name, rest->rerun);
    int is_ok = put_text(saving, BUNDLE_SNAPSHOT, text);
    free(text);
    return is_ok;
}

/* dump: NULL if there is none. */
static int put_dump(const struct saving *saving, const char *name, const struct dump *dump)
{
    char stem[1200], path[1300];
    if (!dump)
        return 1;
    name_file(saving, name, stem, sizeof stem);
    errno = 0;
    int is_ok = files_put_dump(path, sizeof path, stem, dump->bytes, dump->size);
    if (!is_ok)
        files_complain(path);
    return is_ok;
}

static int put_readme(const struct saving *saving, const struct bundle *bundle)
{
    char *text = bundle_readme(
        bundle,
        "# A fault of a GPU kernel\n\n"
        "cufence %s saved here what it takes to launch the kernel `%s` again as it faulted: its code, its arguments, "
        "and\nthe memory that they reach. %s%s%s\n\n"
        "```\ncufence replay .                             # launch it again, and report\n"
        "cufence replay . --times 20                  # does it fault every time?\n"
        "cufence replay . --set-arg 1=999             # with another value of argument 1\n"
        "cufence explain .                            # the core dump of the fault, without a GPU\n```\n\n"
        "Any GPU of compute capability %u.%u will do, on any machine with cufence. The report of the fault is in\n"
        "report.txt and finding.json.",
        VERSION_TEXT, bundle->symbol, *bundle->device_name ? "It ran on " : "", bundle->device_name,
        *bundle->device_name ? "." : "", bundle->compute / 10, bundle->compute % 10);
    int is_ok = put_text(saving, BUNDLE_README, text);
    free(text);
    return is_ok;
}

struct bundle *saving_bundle(struct saving *saving)
{
    return &saving->bundle;
}

void saving_finish(struct saving *saving, const struct saving_rest *rest)
{
    struct bundle *bundle = &saving->bundle;
    size_t count = bundle->buffer_count + bundle->pinned_count;
    size_t left_out =
        check_files(saving, saving->buffers, bundle->buffer_count) + check_files(saving, saving->pinned, bundle->pinned_count);
    complete_bundle(bundle, rest->memory);
    char *input = bundle_write(bundle);
    int is_ok = put_snapshot(saving, rest) && put_dump(saving, BUNDLE_STEM, rest->dump) &&
                put_dump(saving, BUNDLE_STEM ".rerun", rest->second) && put_text(saving, "report.txt", rest->report) &&
                put_text(saving, "finding.json", rest->finding) && put_readme(saving, bundle) &&
                put_text(saving, BUNDLE_INPUT, input); /* last: a bundle that has it is whole */
    if (is_ok)
        output_note("saved for `cufence replay`: %s (%zu buffer%s, %" PRIu64 " bytes)", saving->folder, count - left_out,
                    plural(count - left_out), saving->total);
    if (is_ok && left_out)
        output_note("keep: %zu buffer%s left out (BYTES of keep= and other reasons): see README.md there", left_out,
                    left_out == 1 ? " was" : "s were");
    free(input);
    free_saving(saving);
}

static void remove_files(const struct saving *saving, const struct bundle_buffer *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, BUNDLE_FOLDER "/%s", buffers[i].file);
        if (buffers[i].file[0])
            remove_file(saving, name);
    }
}

void saving_drop(struct saving *saving, const char *why)
{
    if (!saving)
        return;
    if (why)
        output_note("keep: nothing to replay: %s", why);
    remove_files(saving, saving->buffers, saving->bundle.buffer_count);
    remove_files(saving, saving->pinned, saving->bundle.pinned_count);
    remove_file(saving, BUNDLE_FOLDER);
    remove_file(saving, BUNDLE_IMAGE);
    rmdir(saving->folder);
    free_saving(saving);
}
