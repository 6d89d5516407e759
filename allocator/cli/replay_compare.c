/* What a launch without a fault has written, against what it wrote when it was saved. */
#include "replay.h"

#include "base/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define LISTED (sizeof((struct comparison *)0)->list / sizeof(struct difference))

static void compare(struct replay *replay, const struct bundle_buffer *buffer, int now)
{
    struct comparison *comparison = &replay->comparison;
    uint64_t offset = 0;
    struct difference difference = compared_begin(buffer);
    int saved = opened_expected(&replay->opened, buffer, &offset);
    int is_read = saved >= 0 && compared_files(&difference, (struct compared){saved, offset}, (struct compared){now, 0});
    if (saved >= 0)
        close(saved);
    comparison->unread += !is_read;
    comparison->compared += (size_t)is_read;
    comparison->bytes += is_read ? buffer->size : 0;
    if (!is_read || !difference.different)
        return;
    if (comparison->different < LISTED)
        comparison->list[comparison->different] = difference;
    comparison->different++;
}

void compare_begin(struct replay *replay)
{
    compare_end(replay);
    replay->comparison = (struct comparison){0};
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
    const struct bundle_buffer *buffer = bundle_find(replay->opened.bundle, question->address);
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

static void name_buffer(const struct bundle_buffer *buffer, char out[96])
{
    if (buffer->id)
        snprintf(out, 96, "buffer #%" PRIu64, buffer->id);
    else
        snprintf(out, 96, "%s at 0x%" PRIx64, *buffer->label ? buffer->label : "memory", buffer->address);
}

static void print_difference(const struct difference *difference)
{
    char name[96];
    name_buffer(difference->buffer, name);
    printf("cufence replay: %s: %" PRIu64 " of %" PRIu64 " elements (%s) differ, the first at index %" PRIu64
           ": %s, saved was %s",
           name, difference->different, difference->elements, value_names[difference->type], difference->first, difference->now,
           difference->saved);
    if (difference->different > 1 && difference->largest > 0)
        printf("; the largest difference is %.6g", difference->largest);
    printf("\n");
}

static void print_text(const struct comparison *comparison)
{
    if (comparison->different)
        printf("cufence replay: the launch succeeded, but %zu of %zu buffers differ from what it wrote when it was saved\n",
               comparison->different, comparison->compared);
    else
        printf("cufence replay: the launch succeeded, outputs equal (%zu buffer%s, %" PRIu64 " bytes)\n", comparison->compared,
               plural(comparison->compared), comparison->bytes);
    for (size_t i = 0; i < comparison->different && i < LISTED; i++)
        print_difference(&comparison->list[i]);
    if (comparison->unread)
        printf("cufence replay: %zu buffers could not be read and compared\n", comparison->unread);
}

static json_t *difference_json(const struct difference *difference)
{
    char address[24];
    snprintf(address, sizeof address, "0x%" PRIx64, difference->buffer->address);
    return json_pack("{sIsssssIsIsIssss}", "buffer", (json_int_t)difference->buffer->id, "address", address, "type",
                     value_names[difference->type], "elements", (json_int_t)difference->elements, "different",
                     (json_int_t)difference->different, "first", (json_int_t)difference->first, "now", difference->now, "saved",
                     difference->saved);
}

static void print_json(const struct replay *replay)
{
    const struct comparison *comparison = &replay->comparison;
    json_t *list = json_array();
    for (size_t i = 0; i < comparison->different && i < LISTED; i++)
        json_array_append_new(list, difference_json(&comparison->list[i]));
    json_t *root = json_pack("{sssssbsIsIsIso}", "kind", "replay", "kernel", replay->opened.bundle->symbol, "is_equal",
                             !comparison->different, "compared", (json_int_t)comparison->compared, "different",
                             (json_int_t)comparison->different, "unread", (json_int_t)comparison->unread, "differences", list);
    if (!text_put_json(stdout, root, JSON_COMPACT) && !ferror(stdout))
        puts("cufence: the host has no memory for the report");
}

void compare_tell(const struct replay *replay)
{
    if (!replay->opened.bundle->has_outputs)
        return;
    if (replay->is_json)
        print_json(replay);
    else
        print_text(&replay->comparison);
}
