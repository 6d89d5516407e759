/* In a file of its own: what only the README of a bundle needs. */
#include "bundle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void list(FILE *out, const struct bundle_buffer *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct bundle_buffer *buffer = &buffers[i];
        fprintf(out, "| #%" PRIu64 " | 0x%" PRIx64 " | %" PRIu64 " | %s%s%s%s | %s |\n", buffer->id, buffer->address,
                buffer->size,
                buffer->file[0] ? BUNDLE_FOLDER "/" : "left out: ", buffer->file[0] ? buffer->file : buffer->reason,
                buffer->after[0] ? ", after the launch " BUNDLE_FOLDER "/" : "", buffer->after, buffer->label);
    }
}

char *bundle_readme(const struct bundle *bundle, const char *format, ...)
{
    char *text = NULL;
    size_t size = 0;
    va_list arguments;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
    fprintf(out, "\n\n**These files contain the data of the program.** Look at them before you pass them on.\n\n"
                 "## Buffers\n\n| buffer | address | bytes | file | label |\n|---|---|---|---|---|\n");
    list(out, bundle->buffers, bundle->buffer_count);
    list(out, bundle->pinned, bundle->pinned_count);
    fprintf(out,
            "\nThe files are NumPy arrays of bytes: `numpy.load(\"" BUNDLE_FOLDER "/1.npy\").view(\"float32\")`. Buffers that\n"
            "were left out hold zeros in a replay.\n");
    if (bundle->row_count)
        fprintf(out,
                "\nRows of these buffers that were free: %zu. `cufence replay --exact .` says which thread comes to one.\n",
                bundle->row_count);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
