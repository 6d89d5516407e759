#include "event.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const seen_kinds[] = {"launch", "graph", "copy", "set", "end", NULL};

/* A string with its quotes. Most are plain, and then nothing is allocated. */
static void put_text(FILE *out, const char *text)
{
    const char *at = text;
    while (*at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\')
        at++;
    if (!*at) {
        fprintf(out, "\"%s\"", text);
        return;
    }
    json_t *string = text_to_json(text);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    fputs(quoted ? quoted : "\"?\"", out);
    free(quoted);
    json_decref(string);
}

static void put_member(FILE *out, const char *name, const char *text)
{
    if (!*text)
        return;
    fprintf(out, ",\"%s\":", name);
    put_text(out, text);
}

static void put_three(FILE *out, const char *name, const uint32_t three[3])
{
    fprintf(out, ",\"%s\":[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "]", name, three[0], three[1], three[2]);
}

static void put_hash(FILE *out, const char *name, int has, uint64_t hash)
{
    if (has)
        fprintf(out, ",\"%s\":\"%016" PRIx64 "\"", name, hash);
}

static void put_buffer(FILE *out, const struct seen_buffer *buffer)
{
    fputs("{\"buffer\":", out);
    put_text(out, buffer->name);
    if (buffer->argument >= 0)
        fprintf(out, ",\"argument\":%d", buffer->argument);
    if (buffer->at)
        fprintf(out, ",\"at\":%" PRIu32, buffer->at);
    fprintf(out, ",\"size\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64, buffer->size, buffer->offset,
            buffer->bytes);
    put_hash(out, "before", buffer->has_before, buffer->before);
    put_hash(out, "after", buffer->has_after, buffer->after);
    put_hash(out, "folded_before", buffer->has_folded_before, buffer->folded_before);
    put_hash(out, "folded_after", buffer->has_folded_after, buffer->folded_after);
    fputc('}', out);
}

static void put_scalar(FILE *out, const struct seen_scalar *scalar)
{
    fputc('{', out);
    if (scalar->argument >= 0)
        fprintf(out, "\"argument\":%d,", scalar->argument);
    fprintf(out, "\"bytes\":%" PRIu32 ",\"value\":", scalar->bytes);
    put_text(out, scalar->value);
    fputc('}', out);
}

static void put_arguments(FILE *out, const struct seen_event *event)
{
    fputs(",\"scalars\":[", out);
    for (size_t i = 0; i < event->scalar_count; i++) {
        fputs(i ? "," : "", out);
        put_scalar(out, &event->scalars[i]);
    }
    fputs("],\"buffers\":[", out);
    for (size_t i = 0; i < event->buffer_count; i++) {
        fputs(i ? "," : "", out);
        put_buffer(out, &event->buffers[i]);
    }
    fputc(']', out);
}

void seen_event_write(FILE *out, const struct seen_event *event)
{
    fprintf(out, "{\"event\":\"%s\",\"number\":%" PRIu64, seen_kinds[event->kind], event->number);
    if (event->kind == SEEN_END) {
        fprintf(out, ",\"missed\":%" PRIu64 "}\n", event->missed);
        return;
    }
    if (event->launch)
        fprintf(out, ",\"launch\":%" PRIu64, event->launch);
    fprintf(out, ",\"stream\":%" PRIu64 ",\"device\":%d", event->stream, event->device);
    put_member(out, "name", event->name);
    put_member(out, "symbol", event->symbol);
    put_member(out, "place", event->place);
    if (event->kind == SEEN_LAUNCH) {
        put_three(out, "grid", event->grid);
        put_three(out, "block", event->block);
        fprintf(out, ",\"shared\":%" PRIu32, event->shared);
    }
    put_arguments(out, event);
    fputs("}\n", out);
}

void seen_header_write(FILE *out, const struct seen_header *header)
{
    fprintf(out, "{\"seen\":%d", SEEN_VERSION);
    put_member(out, "fill", header->fill);
    fputs("}\n", out);
}
