#include "bundle.h"

#include "base/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *address_json(uint64_t address)
{
    char text[24];
    snprintf(text, sizeof text, "0x%" PRIx64, address);
    return json_string(text);
}

static json_t *triple_json(const uint32_t triple[3])
{
    return json_pack("[III]", (json_int_t)triple[0], (json_int_t)triple[1], (json_int_t)triple[2]);
}

static json_t *hex_json(const uint8_t *bytes, size_t count)
{
    char *text = malloc(2 * count + 1);
    if (!text)
        return NULL;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    json_t *json = json_string(text);
    free(text);
    return json;
}

static json_t *launch_json(const struct rerun_launch *launch)
{
    return json_pack("{sosososIsbso}", "grid", triple_json(launch->grid), "block", triple_json(launch->block), "cluster",
                     triple_json(launch->cluster), "shared_bytes", (json_int_t)launch->shared_bytes, "is_cooperative",
                     launch->is_cooperative != 0, "arguments", hex_json(launch->arguments, launch->argument_bytes));
}

static json_t *buffer_json(const struct bundle_buffer *buffer)
{
    return json_pack("{sIsosIsososo*ss*ss*so*ss*ss*}", "id", (json_int_t)buffer->id, "address", address_json(buffer->address),
                     "size", (json_int_t)buffer->size, "mapping_start", address_json(buffer->mapping_start), "mapping_end",
                     address_json(buffer->mapping_end), "is_bounded", buffer->is_bounded ? json_true() : NULL, "file",
                     buffer->file[0] ? buffer->file : NULL, "left_out", buffer->reason[0] ? buffer->reason : NULL, "label",
                     buffer->label[0] ? text_to_json(buffer->label) : NULL, "after", buffer->after[0] ? buffer->after : NULL,
                     "type", buffer->type[0] ? buffer->type : NULL);
}

struct bundle_buffer bundle_buffer_of(const cufence_buffer *from)
{
    struct bundle_buffer buffer = {.id = from->id,
                                   .address = from->address,
                                   .size = from->size,
                                   .mapping_start = from->mapping_start,
                                   .mapping_end = from->mapping_end};
    snprintf(buffer.label, sizeof buffer.label, "%s", from->label);
    return buffer;
}

char *bundle_write(const struct bundle *bundle)
{
    json_t *launches = json_array(), *buffers = json_array(), *layout = bundle->layout ? json_array() : NULL;
    json_t *pinned = bundle->pinned_count ? json_array() : NULL;
    for (size_t i = 0; i < bundle->launch_count; i++)
        json_array_append_new(launches, launch_json(&bundle->launches[i]));
    for (size_t i = 0; i < bundle->buffer_count; i++)
        json_array_append_new(buffers, buffer_json(&bundle->buffers[i]));
    for (size_t i = 0; i < bundle->pinned_count; i++)
        json_array_append_new(pinned, buffer_json(&bundle->pinned[i]));
    for (size_t i = 0; layout && i < bundle->argument_count; i++)
        json_array_append_new(layout, json_pack("{sIsI}", "offset", (json_int_t)bundle->layout[i].offset, "size",
                                                (json_int_t)bundle->layout[i].size));
    json_t *root = json_pack("{sissso*sisososo*sososo*so*}", "bundle", BUNDLE_VERSION, "kernel", bundle->symbol, "device",
                             text_to_json(bundle->device_name), "compute", (int)bundle->compute, "arena_start",
                             address_json(bundle->arena_start), "arena_end", address_json(bundle->arena_end), "arguments",
                             layout, "launches", launches, "buffers", buffers, "pinned", pinned, "outputs",
                             bundle->has_outputs ? json_true() : NULL);
    return text_of_json(root, JSON_INDENT(1));
}
