/* In a file of its own, so that a library that only writes needs no parser. */
#include "bundle.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_END ((uint64_t)1 << 57)
#define PAGE 4096u
#define MOST_THREADS 1024u /* of a block */
#define MOST_GRID 65535u   /* in its second and third dimension */
#define MOST_SHARED (1u << 20)

struct input {
    struct bundle *bundle;
    struct problem *problem;
};

static int bad(const struct input *input, const char *what)
{
    problem_set(input->problem, CUFENCE_ERROR_CORRUPT, "%s: %s", BUNDLE_INPUT, what);
    return 0;
}

/* Returns 0 if it is no address. */
static int take_address(const json_t *object, const char *name, uint64_t *address)
{
    const char *text = json_string_value(json_object_get(object, name));
    char *end = NULL;
    if (!text || strncmp(text, "0x", 2) != 0 || strlen(text) > 18)
        return 0;
    *address = strtoull(text + 2, &end, 16);
    return end != text + 2 && !*end && *address <= ADDRESS_END;
}

/* Returns 0 if it is no number from 0 to `most`. A missing one is 0. */
static int take_number(const json_t *object, const char *name, uint64_t most, uint64_t *number)
{
    const json_t *value = json_object_get(object, name);
    json_int_t got = json_integer_value(value);
    *number = (uint64_t)got;
    return (!value || json_is_integer(value)) && got >= 0 && (uint64_t)got <= most;
}

static int take_small(const json_t *object, const char *name, uint32_t most, uint32_t *number)
{
    uint64_t wide;
    int is_well = take_number(object, name, most, &wide);
    *number = (uint32_t)wide;
    return is_well;
}

/* Returns 0 unless there are three numbers from `least` to `most`. */
static int take_triple(const json_t *object, const char *name, uint32_t least, uint32_t most, uint32_t triple[3])
{
    const json_t *array = json_object_get(object, name);
    for (size_t i = 0; i < 3; i++) {
        json_int_t got = json_integer_value(json_array_get(array, i));
        if (got < (json_int_t)least || got > (json_int_t)most)
            return 0;
        triple[i] = (uint32_t)got;
    }
    return json_array_size(array) == 3;
}

/* Missing texts are "". Returns 0 if it does not fit. */
static int take_text(const json_t *object, const char *name, char *text, size_t room)
{
    const json_t *value = json_object_get(object, name);
    const char *got = value ? json_string_value(value) : "";
    if (!got || strlen(got) >= room)
        return 0;
    memcpy(text, got, strlen(got) + 1);
    return 1;
}

static int digit_of(char letter)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = letter ? strchr(digits, letter) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Writes at most RERUN_ARGUMENTS bytes. Returns 0 if it is no hexadecimal text. */
static int take_hex(const json_t *value, uint8_t *bytes, uint32_t *count)
{
    const char *text = json_string_value(value);
    size_t length = text ? strlen(text) : 1;
    if (length % 2 || length / 2 > RERUN_ARGUMENTS)
        return 0;
    for (size_t i = 0; i < length / 2; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return 0;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    *count = (uint32_t)(length / 2);
    return 1;
}

/* What no driver launches has too many threads to count. */
static int is_countable(const struct rerun_launch *launch)
{
    return launch->grid[1] <= MOST_GRID && launch->grid[2] <= MOST_GRID &&
           (uint64_t)launch->block[0] * launch->block[1] * launch->block[2] <= MOST_THREADS;
}

static int take_launch(const json_t *object, uint8_t *bytes, struct rerun_launch *launch)
{
    launch->arguments = bytes;
    launch->is_cooperative = json_is_true(json_object_get(object, "is_cooperative"));
    return take_triple(object, "grid", 1, INT32_MAX, launch->grid) &&
           take_triple(object, "block", 1, MOST_THREADS, launch->block) && is_countable(launch) &&
           take_triple(object, "cluster", 0, MOST_THREADS, launch->cluster) &&
           take_small(object, "shared_bytes", MOST_SHARED, &launch->shared_bytes) &&
           take_hex(json_object_get(object, "arguments"), bytes, &launch->argument_bytes);
}

static int take_launches(const struct input *input, const json_t *array)
{
    struct bundle *bundle = input->bundle;
    size_t count = json_array_size(array);
    if (!count || count > RERUN_LAUNCHES)
        return bad(input, "no launches, or too many");
    uint8_t *bytes = bundle->own[0] = malloc(count * RERUN_ARGUMENTS);
    bundle->launch_count = bytes ? count : 0;
    for (size_t i = 0; i < bundle->launch_count; i++)
        if (!take_launch(json_array_get(array, i), bytes + i * RERUN_ARGUMENTS, &bundle->launches[i]))
            return bad(input, "a launch is damaged");
    return bytes || bad(input, "the host has no memory");
}

/* The arguments must lie in every launch. */
static int take_layout(const struct input *input, const json_t *array)
{
    struct bundle *bundle = input->bundle;
    size_t count = json_array_size(array);
    if (!array)
        return 1;
    if (!json_is_array(array) || count > BUNDLE_ARGUMENTS)
        return bad(input, "the arguments are damaged");
    struct launch_argument *layout = bundle->own[1] = calloc(count + 1, sizeof *layout);
    if (!layout)
        return bad(input, "the host has no memory");
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(array, i);
        if (!take_small(object, "offset", RERUN_ARGUMENTS, &layout[i].offset) ||
            !take_small(object, "size", RERUN_ARGUMENTS, &layout[i].size) || !layout[i].size)
            return bad(input, "the arguments are damaged");
        for (size_t k = 0; k < bundle->launch_count; k++)
            if (layout[i].offset + layout[i].size > bundle->launches[k].argument_bytes)
                return bad(input, "an argument lies outside of a launch's arguments");
    }
    bundle->layout = layout;
    bundle->argument_count = count;
    return 1;
}

/* Messages print it. */
static int has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return 1;
    return 0;
}

/* A plain name, so that it leads nowhere else. */
static int is_plain(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return name[0] != '.' && strspn(name, letters) == strlen(name);
}

static int take_buffer(const struct input *input, const json_t *object, struct bundle_buffer *buffer)
{
    if (!take_number(object, "id", INT64_MAX, &buffer->id) || !take_address(object, "address", &buffer->address) ||
        !take_number(object, "size", ADDRESS_END, &buffer->size) ||
        !take_address(object, "mapping_start", &buffer->mapping_start) ||
        !take_address(object, "mapping_end", &buffer->mapping_end) ||
        !take_text(object, "left_out", buffer->reason, sizeof buffer->reason) ||
        !take_text(object, "label", buffer->label, sizeof buffer->label) ||
        !take_text(object, "type", buffer->type, sizeof buffer->type) || has_control(buffer->type))
        return bad(input, "a buffer is damaged");
    buffer->is_bounded = json_is_true(json_object_get(object, "is_bounded"));
    if (!take_text(object, "file", buffer->file, sizeof buffer->file) || !is_plain(buffer->file) ||
        !take_text(object, "after", buffer->after, sizeof buffer->after) || !is_plain(buffer->after))
        return bad(input, "the name of a buffer's file is not a plain name");
    if (buffer->address < buffer->mapping_start || buffer->address > buffer->mapping_end ||
        buffer->size > buffer->mapping_end - buffer->address)
        return bad(input, "a buffer lies outside of its mapping");
    return 1;
}

static int is_in_arena(const struct input *input, const struct bundle_buffer *buffer)
{
    const struct bundle *bundle = input->bundle;
    if (buffer->mapping_start >= buffer->mapping_end || buffer->mapping_start % PAGE || buffer->mapping_end % PAGE ||
        buffer->mapping_start < bundle->arena_start || buffer->mapping_end > bundle->arena_end)
        return bad(input, "a buffer lies outside of cufence's address space");
    return 1;
}

static int by_mapping(const void *left, const void *right)
{
    uint64_t a = ((const struct bundle_buffer *)left)->mapping_start, b = ((const struct bundle_buffer *)right)->mapping_start;
    return (a > b) - (a < b);
}

static int take_buffers(const struct input *input, const json_t *array)
{
    struct bundle *bundle = input->bundle;
    size_t count = json_array_size(array);
    if (!json_is_array(array) || count > BUNDLE_BUFFERS)
        return bad(input, "no list of buffers, or too many");
    struct bundle_buffer *buffers = bundle->own[2] = calloc(count + 1, sizeof *buffers);
    if (!buffers)
        return bad(input, "the host has no memory");
    for (size_t i = 0; i < count; i++)
        if (!take_buffer(input, json_array_get(array, i), &buffers[i]) || !is_in_arena(input, &buffers[i]))
            return 0;
    qsort(buffers, count, sizeof *buffers, by_mapping);
    for (size_t i = 1; i < count; i++)
        if (buffers[i].mapping_start < buffers[i - 1].mapping_end)
            return bad(input, "two buffers overlap");
    bundle->buffers = buffers;
    bundle->buffer_count = count;
    return 1;
}

/* Bundles without such memory have no list of it. */
static int take_pinned(const struct input *input, const json_t *array)
{
    struct bundle *bundle = input->bundle;
    struct rerun_range ranges[RERUN_PINNED];
    size_t count = json_array_size(array);
    if (!array)
        return 1;
    if (!json_is_array(array) || count > RERUN_PINNED)
        return bad(input, "no list of pinned host memory, or too much of it");
    struct bundle_buffer *pinned = bundle->own[3] = calloc(count + 1, sizeof *pinned);
    if (!pinned)
        return bad(input, "the host has no memory");
    for (size_t i = 0; i < count; i++) {
        if (!take_buffer(input, json_array_get(array, i), &pinned[i]))
            return 0;
        ranges[i] = (struct rerun_range){pinned[i].address, pinned[i].size};
        if (pinned[i].mapping_start != pinned[i].address || pinned[i].mapping_end != pinned[i].address + pinned[i].size)
            return bad(input, "pinned host memory is damaged");
    }
    if (!rerun_pinned_is_sound(ranges, count, bundle->arena_start, bundle->arena_end))
        return bad(input, "pinned host memory is damaged");
    bundle->pinned = pinned;
    bundle->pinned_count = count;
    return 1;
}

static int take_head(const struct input *input, const json_t *root)
{
    struct bundle *bundle = input->bundle;
    bundle->has_outputs = json_is_true(json_object_get(root, "outputs"));
    const char *symbol = json_string_value(json_object_get(root, "kernel"));
    bundle->symbol = symbol && *symbol ? strdup(symbol) : NULL;
    if (!bundle->symbol || !take_text(root, "device", bundle->device_name, sizeof bundle->device_name) ||
        has_control(bundle->device_name) || !take_small(root, "compute", 10000, &bundle->compute))
        return bad(input, "the kernel or the device is missing");
    if (!take_address(root, "arena_start", &bundle->arena_start) || !take_address(root, "arena_end", &bundle->arena_end) ||
        bundle->arena_start >= bundle->arena_end || bundle->arena_start % PAGE || bundle->arena_end % PAGE)
        return bad(input, "the address space is damaged");
    return 1;
}

static int take_all(const struct input *input, const json_t *root)
{
    return take_head(input, root) && take_launches(input, json_object_get(root, "launches")) &&
           take_layout(input, json_object_get(root, "arguments")) && take_buffers(input, json_object_get(root, "buffers")) &&
           take_pinned(input, json_object_get(root, "pinned"));
}

cufence_status bundle_read(const char *text, size_t size, struct bundle **out, struct problem *problem)
{
    json_error_t error;
    *out = NULL;
    json_t *root = json_loadb(text, size, 0, &error);
    if (!json_is_object(root)) {
        json_decref(root);
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "%s is not a JSON object", BUNDLE_INPUT);
    }
    json_int_t version = json_integer_value(json_object_get(root, "bundle"));
    struct input input = {calloc(1, sizeof *input.bundle), problem};
    cufence_status status = CUFENCE_OK;
    if (!input.bundle)
        status = problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    else if (version != BUNDLE_VERSION)
        status = problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "%s has version %lld, but this cufence reads version %d",
                             BUNDLE_INPUT, (long long)version, BUNDLE_VERSION);
    else if (!take_all(&input, root))
        status = CUFENCE_ERROR_CORRUPT;
    json_decref(root);
    if (status == CUFENCE_OK)
        *out = input.bundle;
    else
        bundle_free(input.bundle);
    return status;
}

void bundle_free(struct bundle *bundle)
{
    if (!bundle)
        return;
    for (size_t i = 0; i < sizeof bundle->own / sizeof *bundle->own; i++)
        free(bundle->own[i]);
    free((void *)(uintptr_t)bundle->symbol);
    free(bundle);
}

const struct bundle_buffer *bundle_find(const struct bundle *bundle, uint64_t address)
{
    for (size_t i = 0; i < bundle->buffer_count; i++)
        if (address - bundle->buffers[i].mapping_start < bundle->buffers[i].mapping_end - bundle->buffers[i].mapping_start)
            return &bundle->buffers[i];
    for (size_t i = 0; i < bundle->pinned_count; i++)
        if (address - bundle->pinned[i].address < bundle->pinned[i].size)
            return &bundle->pinned[i];
    return NULL;
}
