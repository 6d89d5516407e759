/* The list of a bundle, and the header of an array, from an untrusted source. */
#include "analysis/snapshot/bundle.h"
#include "analysis/snapshot/npy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition)
        abort();
}

/* What `cufence replay` relies on. */
static void check(const struct bundle *bundle)
{
    uint64_t end = bundle->arena_start;
    must(bundle->launch_count && bundle->launch_count <= BUNDLE_LAUNCHES && bundle->arena_start < bundle->arena_end);
    for (size_t i = 0; i < bundle->launch_count; i++) {
        const struct rerun_launch *launch = &bundle->launches[i];
        must(launch->argument_bytes <= RERUN_ARGUMENTS && launch->grid[0] && launch->block[2]);
        must((uint64_t)launch->grid[1] * launch->grid[2] <= UINT32_MAX && launch->block[0] * launch->block[1] <= 1024);
        for (size_t k = 0; k < bundle->argument_count; k++)
            must(bundle->layout[k].offset + bundle->layout[k].size <= launch->argument_bytes);
    }
    for (size_t i = 0; i < bundle->buffer_count; i++) {
        const struct bundle_buffer *buffer = &bundle->buffers[i];
        must(buffer->mapping_start >= end && buffer->mapping_start < buffer->mapping_end);
        must(buffer->address >= buffer->mapping_start && buffer->address + buffer->size <= buffer->mapping_end);
        must(!strchr(buffer->file, '/') && buffer->file[0] != '.' && !strchr(buffer->after, '/') && buffer->after[0] != '.');
        must(!strpbrk(buffer->type, "\n\033"));
        must(bundle_find(bundle, buffer->mapping_end - 1) == buffer);
        end = buffer->mapping_end;
    }
    must(end <= bundle->arena_end);
    struct rerun_range ranges[RERUN_PINNED];
    must(bundle->pinned_count <= RERUN_PINNED);
    for (size_t i = 0; i < bundle->pinned_count; i++) {
        const struct bundle_buffer *pinned = &bundle->pinned[i];
        ranges[i] = (struct rerun_range){pinned->address, pinned->size};
        must(!strchr(pinned->file, '/') && pinned->file[0] != '.' && !strchr(pinned->after, '/') && pinned->after[0] != '.');
        must(bundle_find(bundle, pinned->address) == pinned);
    }
    must(rerun_pinned_is_sound(ranges, bundle->pinned_count, bundle->arena_start, bundle->arena_end));
}

static void read_bundle(const uint8_t *data, size_t size)
{
    struct bundle *bundle = NULL, *again = NULL;
    struct problem problem;
    cufence_status status = bundle_read((const char *)data, size, &bundle, &problem);
    must((status == CUFENCE_OK) == (bundle != NULL));
    if (!bundle)
        return;
    check(bundle);
    char *text = bundle_write(bundle);
    must(text != NULL);
    must(bundle_read(text, strlen(text), &again, &problem) == CUFENCE_OK);
    check(again);
    must(again->buffer_count == bundle->buffer_count && again->pinned_count == bundle->pinned_count &&
         again->argument_count == bundle->argument_count && again->has_outputs == bundle->has_outputs);
    free(text);
    bundle_free(again);
    bundle_free(bundle);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t offset, bytes;
    struct problem problem;
    read_bundle(data, size);
    if (npy_read(data, size, &offset, &bytes, &problem) == CUFENCE_OK)
        must(offset <= size && bytes <= INT64_MAX);
    return 0;
}
