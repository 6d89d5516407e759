/* The list of a bundle, and the header of an array, from an untrusted source. */
#include "fuzz.h"

#include "analysis/bundle/bundle.h"

/* What `cufence replay` relies on. */
static void check(const struct bundle *bundle)
{
    uint64_t end = bundle->arena_start;
    require(bundle->launch_count && bundle->launch_count <= BUNDLE_LAUNCHES && bundle->arena_start < bundle->arena_end);
    for (size_t i = 0; i < bundle->launch_count; i++) {
        const struct rerun_launch *launch = &bundle->launches[i];
        require(launch->argument_bytes <= RERUN_ARGUMENTS && launch->grid[0] && launch->block[2]);
        require((uint64_t)launch->grid[1] * launch->grid[2] <= UINT32_MAX && launch->block[0] * launch->block[1] <= 1024);
        for (size_t k = 0; k < bundle->argument_count; k++)
            require(bundle->layout[k].offset + bundle->layout[k].size <= launch->argument_bytes);
    }
    for (size_t i = 0; i < bundle->buffer_count; i++) {
        const struct bundle_buffer *buffer = &bundle->buffers[i];
        require(buffer->mapping_start >= end && buffer->mapping_start < buffer->mapping_end);
        require(buffer->address >= buffer->mapping_start && buffer->address + buffer->size <= buffer->mapping_end);
        require(!strchr(buffer->file, '/') && buffer->file[0] != '.' && !strchr(buffer->after, '/') && buffer->after[0] != '.');
        require(bundle_find(bundle, buffer->mapping_end - 1) == buffer);
        end = buffer->mapping_end;
    }
    require(end <= bundle->arena_end);
    require(bundle->pinned_count <= RERUN_PINNED);
    for (size_t i = 0; i < bundle->pinned_count; i++) {
        const struct bundle_buffer *pinned = &bundle->pinned[i];
        require(!strchr(pinned->file, '/') && pinned->file[0] != '.' && !strchr(pinned->after, '/') && pinned->after[0] != '.');
        require(bundle_find(bundle, pinned->address) == pinned);
    }
    require(bundle_has_sound_pinned(bundle));
}

static void read_bundle(const uint8_t *data, size_t size)
{
    struct bundle *bundle = NULL, *again = NULL;
    struct problem problem;
    cufence_status status = bundle_read((const char *)data, size, &bundle, &problem);
    require((status == CUFENCE_OK) == (bundle != NULL));
    if (!bundle)
        return;
    check(bundle);
    char *text = bundle_write(bundle);
    require(text != NULL);
    require(bundle_read(text, strlen(text), &again, &problem) == CUFENCE_OK);
    check(again);
    require(again->buffer_count == bundle->buffer_count && again->pinned_count == bundle->pinned_count &&
            again->argument_count == bundle->argument_count && again->has_outputs == bundle->has_outputs);
    free(text);
    bundle_free(again);
    bundle_free(bundle);
}

FUZZ(bundle)
{
    uint64_t offset, bytes;
    struct problem problem;
    read_bundle(data, size);
    if (npy_read(data, size, &offset, &bytes, &problem) == CUFENCE_OK)
        require(offset <= size && bytes <= INT64_MAX);
    return 0;
}
