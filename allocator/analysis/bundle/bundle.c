#include "bundle.h"

#include "base/text.h"
#include "json/json_table.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define ADDRESS_END ((uint64_t)1 << 57)
#define MOST_SHARED (1u << 20)
#define MOST_COMPUTE 10000

#define LAUNCH(kind, member, ...) FIELD(kind, struct rerun_launch, member, #member, __VA_ARGS__)
#define BUFFER(kind, member, ...) FIELD(kind, struct bundle_buffer, member, #member, __VA_ARGS__)
#define BUNDLE(kind, member, ...) FIELD(kind, struct bundle, member, __VA_ARGS__)
#define ADDRESS .flags = REQUIRED, .most = ADDRESS_END

TABLE(rerun_launch_record, struct rerun_launch, LAUNCH(TRIPLE, grid, .flags = REQUIRED, .most = INT32_MAX),
      LAUNCH(TRIPLE, block, .flags = REQUIRED, .most = BUNDLE_THREADS),
      LAUNCH(TRIPLE, cluster, .flags = REQUIRED, .most = BUNDLE_THREADS), LAUNCH(NUMBER, shared_bytes, .most = MOST_SHARED),
      LAUNCH(BOOL, is_cooperative),
      LAUNCH(BYTES, arguments, .flags = BEHIND | REQUIRED, .most = RERUN_ARGUMENTS,
             COUNT(struct rerun_launch, argument_bytes)));

TABLE(rerun_variable_record, struct rerun_variable,
      FIELD(TEXT, struct rerun_variable, name, "name", .flags = REQUIRED | EVEN_EMPTY),
      FIELD(BYTES, struct rerun_variable, value, "value", .flags = BEHIND | REQUIRED, .most = RERUN_VARIABLE_BYTES,
            COUNT(struct rerun_variable, bytes)));

TABLE(argument_record, struct launch_argument, FIELD(NUMBER, struct launch_argument, offset, "offset", .most = RERUN_ARGUMENTS),
      FIELD(NUMBER, struct launch_argument, size, "size", .most = RERUN_ARGUMENTS));

TABLE(buffer_record, struct bundle_buffer, BUFFER(NUMBER, id), BUFFER(HEX, address, ADDRESS),
      BUFFER(NUMBER, size, .most = ADDRESS_END), BUFFER(HEX, mapping_start, ADDRESS), BUFFER(HEX, mapping_end, ADDRESS),
      BUFFER(TRUE, is_bounded), BUFFER(CHARS, file), FIELD(CHARS, struct bundle_buffer, reason, "left_out"),
      BUFFER(CHARS, label), BUFFER(CHARS, after), BUFFER(CHARS, type));

static const struct field of_bundle[] = {
    {.name = "bundle", .type = FIELD_FIXED, .most = BUNDLE_VERSION},
    BUNDLE(TEXT, symbol, "kernel", .flags = REQUIRED),
    BUNDLE(CHARS, device_name, "device", .flags = EVEN_EMPTY),
    BUNDLE(NUMBER, compute, "compute", .most = MOST_COMPUTE),
    BUNDLE(HEX, arena_start, "arena_start", ADDRESS),
    BUNDLE(HEX, arena_end, "arena_end", ADDRESS),
    BUNDLE(LIST, layout, "arguments", .flags = BEHIND, .table = &argument_record, COUNT(struct bundle, argument_count)),
    BUNDLE(LIST, launches, "launches", .flags = BEHIND | REQUIRED, .most = RERUN_LAUNCHES, .table = &rerun_launch_record,
           COUNT(struct bundle, launch_count)),
    BUNDLE(LIST, buffers, "buffers", .flags = BEHIND | REQUIRED, .table = &buffer_record, COUNT(struct bundle, buffer_count)),
    BUNDLE(LIST, pinned, "pinned", .flags = BEHIND | NOT_ZERO, .most = RERUN_PINNED, .table = &buffer_record,
           COUNT(struct bundle, pinned_count)),
    BUNDLE(LIST, variables, "variables", .flags = BEHIND | NOT_ZERO, .most = RERUN_VARIABLES, .table = &rerun_variable_record,
           COUNT(struct bundle, variable_count)),
    BUNDLE(TRUE, has_outputs, "outputs"),
};
const struct json_table kept_bundle = TABLE_OF(struct bundle, of_bundle);

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

struct bundle_buffer bundle_pinned_of(uint64_t address, uint64_t bytes)
{
    return (struct bundle_buffer){.address = address,
                                  .size = bytes,
                                  .mapping_start = address,
                                  .mapping_end = address + bytes,
                                  .label = "pinned host memory"};
}

void bundle_name_file(struct bundle_buffer *buffer, int is_after)
{
    char *name = is_after ? buffer->after : buffer->file;
    const char *end = is_after ? ".after" : "";
    if (buffer->id)
        snprintf(name, sizeof buffer->file, "buffer-%" PRIu64 "%s.npy", buffer->id, end);
    else
        snprintf(name, sizeof buffer->file, "memory-%" PRIx64 "%s.npy", buffer->address, end);
}

char *bundle_write(const struct bundle *bundle)
{
    return text_of_json(json_table_write(&kept_bundle, bundle), JSON_INDENT(1));
}

static void list(FILE *out, const struct bundle_buffer *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct bundle_buffer *buffer = &buffers[i];
        fprintf(out, "| #%" PRIu64 " | 0x%" PRIx64 " | %" PRIu64 " | %s%s%s%s | %s |\n", buffer->id, buffer->address,
                buffer->size, buffer->file[0] ? "" : "left out: ", buffer->file[0] ? buffer->file : buffer->reason,
                buffer->after[0] ? ", after the launch " : "", buffer->after, buffer->label);
    }
}

char *bundle_readme(const struct bundle *bundle)
{
    char *text = NULL;
    size_t size = 0;
    int is_well = bundle->has_outputs;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fprintf(out,
            "# %s of a GPU kernel\n\n"
            "cufence %s saved here what it takes to launch the kernel `%s` again as it %s: its code,\nits arguments, and the "
            "memory that they reach%s.%s%s%s\n\n",
            is_well ? "A launch" : "A fault", VERSION_TEXT, bundle->symbol, is_well ? "was launched" : "faulted",
            is_well ? ", before the launch and after it" : "", *bundle->device_name ? " It ran on " : "", bundle->device_name,
            *bundle->device_name ? "." : "");
    fprintf(out,
            "```\ncufence replay .                             # launch it again, and %s\n"
            "cufence replay . --times 20                  # does it %s every time?\n"
            "%s```\n\n"
            "Any GPU of compute capability %u.%u will do, on any machine with cufence. %s\n",
            is_well ? "compare what it writes" : "report", is_well ? "write the same" : "fault",
            is_well ? "" : "cufence explain .                            # the core dump of the fault, without a GPU\n",
            bundle->compute / 10, bundle->compute % 10,
            is_well
                ? "values.json says where it was\nlaunched. kernel.cubin is the module as the driver was given it: a cubin, "
                  "a fat binary or PTX."
                : "The report of the fault is in\nreport.txt and finding.json.");
    fprintf(out, "\n**These files contain the data of the program.** Look at them before you pass them on.\n\n"
                 "## Buffers\n\n| buffer | address | bytes | file | label |\n|---|---|---|---|---|\n");
    list(out, bundle->buffers, bundle->buffer_count);
    list(out, bundle->pinned, bundle->pinned_count);
    fprintf(out,
            "\nThe files are NumPy arrays, of bytes where no type is known: `numpy.load(FILE).view(\"float32\")`. Buffers that "
            "were\nleft out hold zeros in a replay.\n");
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
