#include "finding.h"

#include "frames.h"
#include "parts.h"
#include "base/text.h"

#include <string.h>

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
#define START UINT64_C(0xcbf29ce484222325)
#define PRIME UINT64_C(0x100000001b3)

static uint64_t add(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * PRIME;
    return hash;
}

static uint64_t add_number(uint64_t hash, uint64_t number)
{
    return add(hash, &number, sizeof number);
}

static uint64_t add_text(uint64_t hash, const char *text)
{
    return add(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* Identifies the place of allocation by device, label, and its stack, or its size if the stack is unknown. */
static uint64_t add_place(uint64_t hash, const cufence_buffer *buffer)
{
    if (!buffer)
        return add_number(hash, 0);
    hash = add_text(add_number(hash, 1 + (uint64_t)(uint32_t)buffer->device), buffer->label);
    return buffer->allocated_stack ? add_number(hash, buffer->allocated_stack) : add_number(hash, ~buffer->size);
}

static uint64_t not_zero(uint64_t hash)
{
    return hash ? hash : 1;
}

uint64_t identity_of_fault(const struct diagnosis *diagnosis)
{
    const struct evidence_site *site = diagnosis->site;
    uint64_t hash = add_number(START, diagnosis->kind);
    if (site) {
        hash = add_text(add_number(hash, site->exception.number), site->symbol);
        hash = add_number(hash, site->symbol ? site->kernel_offset : site->error_pc);
    }
    return not_zero(add_place(hash, diagnosis->owner));
}

/* By the newest launch that may have written it, if there is one, and the side. */
uint64_t identity_of_slack(const struct slack_write *write)
{
    const struct launch_entry *entry = write->launch_count ? write->launches[0].entry : NULL;
    uint64_t hash = add_text(START, write->region ? FINDING_REGION : FINDING_SLACK);
    hash = write->region ? add_text(hash, write->region->name) : add_number(hash, (uint64_t)write->is_before);
    hash = add_text(hash, entry && entry->function ? entry->function->name : NULL);
    return not_zero(add_place(hash, write->buffer));
}

uint64_t identity_of_misuse(const struct misuse *misuse)
{
    uint64_t hash = add_text(add_text(START, misuse->kind), misuse->call);
    hash = add_number(hash, misuse->caller);
    if (misuse->earlier) {
        hash = add_text(add_text(hash, misuse->earlier->kernel), misuse->earlier->call);
        hash = add_number(hash, misuse->earlier->place);
    }
    return not_zero(add_place(hash, misuse->where->buffer.id ? &misuse->where->buffer : NULL));
}

uint64_t identity_of_leak(const cufence_buffer *buffer)
{
    return not_zero(add_place(add_text(START, "leak"), buffer));
}

/* Of what, the kernel, and the place of its launch. */
static uint64_t of_launched(const char *kind, const struct launched_fact *by)
{
    uint64_t hash = add_text(add_text(START, kind), by->kernel ? by->symbol : by->plain);
    for (size_t i = 0; i < by->frame_count; i++) {
        hash = add_text(add_text(hash, by->frames[i].file), by->frames[i].function);
        hash = add_number(add_number(hash, (uint64_t)(uint32_t)by->frames[i].line), by->frames[i].offset);
    }
    return hash;
}

uint64_t identity_of_nan(const struct nan_fact *nan)
{
    return not_zero(add_number(of_launched(nan->kind, &nan->by), (uint64_t)(uint32_t)nan->argument));
}

uint64_t identity_of_table(const struct table_fact *table)
{
    return not_zero(add_number(add_number(of_launched(FINDING_TABLE, &table->by), table->element), table->why));
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

static void add_frame_name(char *out, size_t size, const char *word, const struct stack_frame *frames, size_t count)
{
    if (count) {
        const struct stack_frame *own = frames_own(frames, count);
        add_place_name(out, size, word, own->file[0] ? own->file : own->module, own->function);
    }
}

void finding_name(const struct finding *finding, char *out, size_t size)
{
    const struct called_from *allocated = &finding->buffer.allocated;
    const char *in = finding->region ? "in" : finding->slack ? "next to" : "of";
    char kernel[256] = "";
    out[0] = '\0';
    part_append(out, size, "%s%s%s", finding->kind, finding->called.call ? " by " : "",
                finding->called.call ? finding->called.call : "");
    if (finding->region && finding->region->name[0])
        part_append(out, size, " of %s", finding->region->name);
    if ((finding->where.is_known || (finding->uninit && finding->where.has_kernel)) && !finding->slack) {
        finding_kernel(&finding->where.site, kernel, sizeof kernel);
        add_place_name(out, size, "at", finding->where.site.is_in_driver ? NULL : finding->where.site.file, kernel);
    } else if (finding->by) {
        part_append(out, size, " in %s", finding->by->plain);
        add_frame_name(out, size, "launched at", finding->by->frames, finding->by->frame_count);
    } else if (finding->called.call) {
        add_frame_name(out, size, "at", finding->called.frames, finding->called.count);
    } else if (allocated->count) {
        part_append(out, size, " %s a buffer", in);
        add_frame_name(out, size, "from", allocated->frames, allocated->count);
    } else if (finding->buffer.buffer && finding->buffer.buffer->label[0]) {
        part_append(out, size, " %s \"%s\"", in, finding->buffer.buffer->label);
    }
    text_make_plain(out);
}
