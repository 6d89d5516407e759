/* What a launch without a fault has written, against what it wrote when it was saved. */
#include "replay.h"

#include "base/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LISTED (sizeof((struct comparison *)0)->list / sizeof(void *))
#define AT_ONCE ((size_t)1 << 20)

/* Whether the files hold the same bytes; -1: one of them cannot be read. */
static int is_equal(int saved, uint64_t offset, int now, uint64_t size)
{
    uint8_t *parts = malloc(2 * AT_ONCE);
    int is = parts ? 1 : -1;
    for (uint64_t at = 0; is == 1 && at < size; at += AT_ONCE) {
        size_t bytes = size - at < AT_ONCE ? (size_t)(size - at) : AT_ONCE;
        if (pread(saved, parts, bytes, (off_t)(offset + at)) != (ssize_t)bytes ||
            pread(now, parts + AT_ONCE, bytes, (off_t)at) != (ssize_t)bytes)
            is = -1;
        else
            is = !memcmp(parts, parts + AT_ONCE, bytes);
    }
    free(parts);
    return is;
}

static void compare(struct replay *replay, const struct bundle_buffer *buffer, int now)
{
    struct comparison *comparison = &replay->comparison;
    uint64_t offset = 0;
    int saved = bundle_expected(&replay->reader, buffer, &offset);
    int is = saved >= 0 ? is_equal(saved, offset, now, buffer->size) : -1;
    if (saved >= 0)
        close(saved);
    comparison->unread += is < 0;
    comparison->compared += is >= 0;
    comparison->bytes += is >= 0 ? buffer->size : 0;
    if (is == 0 && comparison->different++ < LISTED)
        comparison->list[comparison->different - 1] = buffer;
}

/* What the launch reached, and whose bytes nobody has. */
static size_t left_out(const struct bundle *bundle)
{
    size_t count = 0;
    for (size_t i = 0; i < bundle->buffer_count; i++)
        count += !bundle->buffers[i].file[0];
    for (size_t i = 0; i < bundle->pinned_count; i++)
        count += !bundle->pinned[i].file[0];
    return bundle->has_outputs ? count : 0;
}

void compare_begin(struct replay *replay)
{
    compare_end(replay);
    replay->comparison = (struct comparison){.unread = left_out(replay->reader.bundle)};
}

void compare_end(struct replay *replay)
{
    struct comparison *comparison = &replay->comparison;
    if (!comparison->pending)
        return;
    compare(replay, comparison->pending, comparison->file);
    close(comparison->file);
    comparison->pending = NULL;
}

int compare_answer(struct replay *replay, const struct rerun_message *question, struct rerun_message *answer)
{
    struct comparison *comparison = &replay->comparison;
    const struct bundle_buffer *buffer = bundle_find(replay->reader.bundle, question->address);
    compare_end(replay);
    if (!buffer || !buffer->file[0])
        return -1;
    int file = memfd_create("cufence-result", MFD_CLOEXEC), passed = file >= 0 ? dup(file) : -1;
    if (passed < 0) {
        comparison->unread++;
        if (file >= 0)
            close(file);
        return -1;
    }
    comparison->pending = buffer;
    comparison->file = file;
    *answer = (struct rerun_message){.type = MESSAGE_FILE,
                                     .address = question->address,
                                     .bytes = question->bytes,
                                     .data = buffer->address,
                                     .data_bytes = buffer->size};
    return passed;
}

/* ---- saying it ---- */

static void print_buffer(const struct bundle_buffer *buffer)
{
    if (buffer->id) {
        printf("buffer #%" PRIu64, buffer->id);
    } else {
        text_put(stdout, *buffer->label ? buffer->label : "memory");
        printf(" at 0x%" PRIx64, buffer->address);
    }
}

static void print_text(const struct comparison *comparison)
{
    if (comparison->different)
        printf("cufence replay: the launch succeeded, but %zu of %zu buffers differ from what it wrote when it was saved: ",
               comparison->different, comparison->compared);
    else
        printf("cufence replay: the launch succeeded, %s equal (%zu buffer%s, %" PRIu64 " bytes)\n",
               comparison->unread ? "what could be compared is" : "outputs", comparison->compared, plural(comparison->compared),
               comparison->bytes);
    for (size_t i = 0; i < comparison->different && i < LISTED; i++) {
        fputs(i ? ", " : "", stdout);
        print_buffer(comparison->list[i]);
    }
    if (comparison->different)
        puts(comparison->different > LISTED ? ", ..." : "");
    if (comparison->unread)
        printf("cufence replay: %zu buffer%s could not be compared: not in the bundle, or not read\n", comparison->unread,
               plural(comparison->unread));
}

static void print_json(const struct replay *replay)
{
    const struct comparison *comparison = &replay->comparison;
    json_t *root = json_pack("{sssssbsIsIsI}", "kind", "replay", "kernel", replay->reader.bundle->symbol, "is_equal",
                             !comparison->different && !comparison->unread, "compared", (json_int_t)comparison->compared,
                             "different", (json_int_t)comparison->different, "unread", (json_int_t)comparison->unread);
    if (!text_put_json(stdout, root, JSON_COMPACT) && !ferror(stdout))
        puts("cufence: the host has no memory for the report");
}

void compare_tell(const struct replay *replay)
{
    if (!replay->reader.bundle->has_outputs)
        return;
    if (replay->is_json)
        print_json(replay);
    else
        print_text(&replay->comparison);
}
