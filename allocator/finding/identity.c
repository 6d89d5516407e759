#include "finding.h"

#include "frames.h"
#include "parts.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the same again ---- */

static void put_text(FILE *key, const char *text)
{
    fprintf(key, "%s|", text ? text : "");
}

/* By source line where it is known: a kernel's code may differ between processes, because Triton compiles for the alignment. */
static void put_code(FILE *key, const char *file, int line, uint64_t offset)
{
    int is_line = file && *file;
    put_text(key, file);
    fprintf(key, "%lld|", is_line ? (long long)line : offset == UINT64_MAX ? 0 : (long long)offset);
}

static void put_frames(FILE *key, const struct stack_frame *frames, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_text(key, frames[i].function);
        put_code(key, frames[i].file, frames[i].line, frames[i].offset);
    }
}

/* Of a slack write the newest launch that may have done it: where it wrote is not known each time. */
static void put_kernel(FILE *key, const struct finding *finding)
{
    const struct evidence_stop *stop = &finding->where.stop;
    const struct slack_write *slack = finding->slack;
    const struct launch_entry *entry = slack && slack->launch_count ? slack->launches[0].entry : NULL;
    if (slack) {
        put_text(key, entry && entry->function ? entry->function->name : NULL);
        put_text(key, slack->found.poison.bytes ? "in" : finding->buffer.from == BEFORE_START ? "before" : "behind");
        return;
    }
    fprintf(key, "%" PRIu32 "|", stop->exception.number);
    put_text(key, stop->symbol);
    put_code(key, stop->file, stop->line, stop->kernel_offset);
}

static void put_launch(FILE *key, const struct finding *finding)
{
    put_text(key, finding->by->symbol ? finding->by->symbol : finding->by->plain);
    put_frames(key, finding->by->frames, finding->by->frame_count);
    if (finding->nan)
        fprintf(key, "%d|", finding->nan->argument);
}

static void put_buffer(FILE *key, const struct finding *finding)
{
    const cufence_buffer *buffer = finding->buffer.buffer;
    const struct called_from *allocated = &finding->buffer.allocated;
    put_text(key, buffer ? buffer->label : "");
    if (allocated->count)
        put_frames(key, allocated->frames, allocated->count);
    else
        fprintf(key, "%" PRIu64 "|", buffer ? buffer->size : 0);
}

/* Returns NULL if the host has no memory. */
static char *key_of(const struct finding *finding, void (*put)(FILE *key, const struct finding *finding))
{
    char *key = NULL;
    size_t size;
    FILE *out = open_memstream(&key, &size);
    if (!out)
        return NULL;
    put(out, finding);
    return fclose(out) ? NULL : key;
}

static void put_all(FILE *key, const struct finding *finding)
{
    const struct earlier_use *use = finding->used.use;
    put_text(key, finding->kind);
    put_text(key, finding->called.call);
    put_kernel(key, finding);
    put_frames(key, finding->called.frames, finding->called.count);
    if (use) /* not the place of its launch, which is not on record each time */
        put_text(key, use->kernel ? use->kernel : use->call);
    if (finding->by)
        put_launch(key, finding);
    put_buffer(key, finding);
}

char *finding_key(const struct finding *finding)
{
    return key_of(finding, put_all);
}

/* Whether the fault's access lies within what was found. */
static int is_within(const struct finding *found, const struct finding *fault)
{
    uint64_t span = found->slack->found.span, more = fault->buffer.distance - found->buffer.distance;
    return (found->buffer.from == PAST_END ? more : -more) < span;
}

/* Whether that line of the kernel may have written what was found. */
static int may_have_written(const struct finding *found, const struct finding *fault)
{
    const struct evidence_stop *own = &found->where.stop, *stop = &fault->where.stop;
    const struct slack_write *slack = found->slack;
    if (own->symbol)
        return !strcmp(own->symbol, stop->symbol) && (!own->file || !stop->file || own->line == stop->line);
    for (size_t i = 0; i < slack->launch_count && is_within(found, fault); i++) {
        const struct launch_entry *entry = slack->launches[i].entry;
        if (entry && entry->function && entry->function->name && !strcmp(entry->function->name, stop->symbol))
            return 1;
    }
    return 0;
}

int finding_is_left_by(const struct finding *found, const struct finding *fault)
{
    const struct evidence_stop *stop = &fault->where.stop;
    int is_beside = found->buffer.from == PAST_END || found->buffer.from == BEFORE_START;
    if (!found->slack || found->slack->found.buffers > 1 || fault->slack || !fault->where.is_known || !stop->symbol ||
        fault->access.kind == ACCESS_READ || !is_beside || found->buffer.from != fault->buffer.from ||
        !may_have_written(found, fault))
        return 0;
    char *here = key_of(found, put_buffer), *there = key_of(fault, put_buffer);
    int is_same = here && there && !strcmp(here, there);
    free(here);
    free(there);
    return is_same;
}

uint64_t finding_hash(const char *key)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    return hash;
}

/* ---- from one run to the next ---- */

/* " at oob.py in k_oob" */
static void add_place_name(char *out, size_t size, const char *word, const char *file, const char *function)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (file && *file)
        part_append(out, size, " %s %s", word, slash ? slash + 1 : file);
    if (function && *function)
        part_append(out, size, " in %s", function);
}

/* Returns the line, or the place in the code where that is unknown; 0: neither is known. */
static uint64_t add_frame_name(char *out, size_t size, const char *word, const struct stack_frame *frames, size_t count)
{
    if (!count)
        return 0;
    const struct stack_frame *own = frames_own(frames, count);
    add_place_name(out, size, word, own->file[0] ? own->file : own->module, own->function);
    return own->line > 0 ? (uint64_t)own->line : own->offset;
}

void finding_name(const struct finding *finding, char *out, size_t size)
{
    const struct called_from *allocated = &finding->buffer.allocated;
    const char *in = !finding->slack ? "of" : finding->slack->found.poison.bytes ? "in" : "next to";
    const struct evidence_stop *stop = &finding->where.stop;
    char kernel[256] = "";
    uint64_t code = 0;
    const size_t whole = size;
    size -= sizeof " #0000" - 1; /* a long name is cut before its hash */
    out[0] = '\0';
    part_append(out, size, "%s%s%s", finding->kind, finding->called.call ? " by " : "",
                finding->called.call ? finding->called.call : "");
    if (finding->where.is_known && !finding->slack) {
        finding_kernel(stop, kernel, sizeof kernel);
        add_place_name(out, size, "at", stop->is_in_driver ? NULL : stop->file, kernel);
        code = stop->file && stop->line > 0        ? (uint64_t)stop->line
               : stop->kernel_offset == UINT64_MAX ? 0
                                                   : stop->kernel_offset;
    } else if (finding->by) {
        part_append(out, size, " in %s", finding->by->plain);
        code = add_frame_name(out, size, "launched at", finding->by->frames, finding->by->frame_count);
    } else if (finding->called.call) {
        code = add_frame_name(out, size, "at", finding->called.frames, finding->called.count);
    } else if (allocated->count) {
        part_append(out, size, " %s a buffer", in);
        code = add_frame_name(out, size, "from", allocated->frames, allocated->count);
    } else if (finding->buffer.buffer && finding->buffer.buffer->label[0]) {
        part_append(out, size, " %s \"%s\"", in, finding->buffer.buffer->label);
    }
    text_make_plain(out);
    char place[600];
    snprintf(place, sizeof place, "%s|%" PRIu64, out, code);
    if (code)
        part_append(out, whole, " #%04x", (unsigned)(finding_hash(place) & 0xffff));
}
