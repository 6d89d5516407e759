#include "saving.h"

#include "base/files.h"
#include "base/output.h"
#include "base/text.h"
#include "bundle_writer.h"
#include "driver/driver.h"
#include "surroundings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SAVING_MS 60000u

static char parent[1024]; /* "" if none */

struct saving {
    uint64_t most; /* bytes of buffers */
    struct bundle_writer writer;
};

cufence_status saving_open(const struct options *options)
{
    return options_place_path(options->save, parent, sizeof parent);
}

uint64_t saving_limit_ms(const struct options *options)
{
    return options->save[0] ? SAVING_MS + (options->save_max >> 16) : 0; /* 64 MiB/s */
}

static void free_saving(struct saving *saving)
{
    writer_end(&saving->writer);
    free(saving);
}

struct saving *saving_begin(const struct options *options)
{
    static unsigned made;
    char name[64];
    struct saving *saving = parent[0] ? calloc(1, sizeof *saving) : NULL;
    if (!saving)
        return NULL;
    saving->most = options->save_max;
    snprintf(name, sizeof name, "fault-%d-%u", (int)getpid(), ++made);
    if (writer_begin(&saving->writer, "keep", parent, name))
        return saving;
    free_saving(saving);
    return NULL;
}

/* ---- what the rerun process has ---- */

void saving_keep_image(struct saving *saving, const void *image, size_t size)
{
    writer_put(&saving->writer, BUNDLE_IMAGE, NULL, 0, image, size);
}

/* Returns NULL if the mapping is listed already, or there is no room. */
static struct bundle_buffer *add_buffer(struct saving *saving, const cufence_buffer *from)
{
    for (size_t i = 0; i < saving->writer.buffer_count; i++)
        if (saving->writer.buffers[i].mapping_start == from->mapping_start)
            return NULL;
    return writer_add(&saving->writer, from);
}

/* Makes the file of a buffer if there is room for it. Returns -1 if it is left out. */
static int begin_file(struct saving *saving, struct bundle_buffer *buffer)
{
    if (buffer->size <= saving->most - saving->writer.bytes)
        return writer_open(&saving->writer, buffer, 0);
    writer_leave_out(buffer, "over the BYTES of keep=");
    return -1;
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
    int fd = begin_file(saving, buffer);
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

void saving_keep_pinned(struct saving *saving, const struct bundle_buffer *piece, int file)
{
    struct bundle_buffer *buffer = writer_add_pinned(&saving->writer, piece);
    int fd = begin_file(saving, buffer);
    void *bytes = fd >= 0 ? mmap(NULL, piece->size, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (bytes != MAP_FAILED) {
        files_write(fd, bytes, piece->size); /* one that is too short is found in the end */
        munmap(bytes, piece->size);
    }
    if (fd >= 0)
        close(fd);
}

void saving_miss(struct saving *saving, uint64_t address)
{
    cufence_buffer found;
    struct bundle_buffer *buffer = bounds_find(address, &found) && found.is_mapped ? add_buffer(saving, &found) : NULL;
    if (buffer)
        writer_leave_out(buffer, "its memory cannot be given to another process");
}

/* ---- the end ---- */

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

static void finish_launch(struct bundle_writer *writer, struct bundle *bundle, const struct fault_memory *memory)
{
    const struct launch_function *layout = find_layout(bundle, memory);
    bundle->layout = layout ? layout->arguments : NULL;
    bundle->argument_count = layout ? layout->argument_count : 0;
    bundle->compute = driver_describe(memory->device, bundle->device_name, sizeof bundle->device_name);
    size_t left_out = writer_finish_launch(writer, bundle), count = writer->buffer_count + writer->pinned_count - left_out;
    if (writer->has_failed) { /* without launch.json nobody can use the rest */
        writer_drop_launch(writer);
        return;
    }
    output_note("saved for `cufence replay`: %s (%zu buffer%s, %" PRIu64 " bytes)", writer->folder, count, plural(count),
                writer->bytes);
    if (left_out)
        output_note("keep: %zu buffer%s left out (BYTES of keep= and other reasons): see README.md there", left_out,
                    left_out == 1 ? " was" : "s were");
}

void saving_finish(struct saving *saving, struct saving_rest *rest)
{
    struct bundle_writer *writer = &saving->writer;
    writer_put_facts(writer, rest->memory, rest->rerun);
    writer_put_dump(writer, BUNDLE_DUMP, rest->dump);
    writer_put_dump(writer, BUNDLE_SECOND, rest->second);
    writer_put_text(writer, "report.txt", rest->report ? strdup(rest->report) : NULL);
    writer_put_text(writer, "finding.json", rest->finding);
    if (rest->no_launch) {
        writer_drop_launch(writer);
        output_note("keep: nothing to replay: %s", rest->no_launch);
        if (!writer->has_failed)
            output_note("kept for `cufence explain`: %s", writer->folder);
    } else {
        finish_launch(writer, &rest->launch, rest->memory);
    }
    free_saving(saving);
}

void saving_drop(struct saving *saving)
{
    writer_drop_launch(&saving->writer);
    free_saving(saving);
}
