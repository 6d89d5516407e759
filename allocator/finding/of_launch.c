/* Findings about a launch of which no core dump tells. */
#include "finding.h"

#include "parts.h"

#include <inttypes.h>
#include <string.h>

/* The element that it is about. */
static void take_element(struct finding *finding, const cufence_buffer *buffer, struct buffer_frames frames, uint64_t address)
{
    if (!buffer->id)
        return;
    finding->buffer = part_buffer(buffer, frames);
    finding->buffer.certainty = CERTAIN_EXACT;
    finding->buffer.from = FROM_START;
    finding->buffer.distance = address - buffer->address;
    finding->address = (struct address_fact){.certainty = CERTAIN_EXACT, .is_one = 1, .value = address, .is_in_arena = 1};
}

/* ---- a NaN ---- */

static int has_word(const char *name, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(name, words[i]))
            return 1;
    }
    return 0;
}

/* What may have made the NaN, going by the inputs. "" if no rule knows. */
static void add_nan_hint(struct finding *finding, const struct nan_fact *nan)
{
    static const char *const roots[] = {"log", "sqrt", "pow", "acos", "asin"};
    uint64_t infinities = 0, zeros = 0;
    int has_negative = 0;
    for (size_t i = 0; i < nan->input_count; i++) {
        const struct nan_input *input = &nan->inputs[i];
        if (input->is_unwritten)
            continue;
        infinities += input->infinities;
        zeros += input->finite ? input->zeros : 0;
        has_negative |= input->finite && input->min < 0;
    }
    const char *name = nan->by.kernel ? nan->by.kernel : nan->by.plain;
    if (nan->is_of_unwritten)
        part_add(finding->hint, "an input that nobody has written holds NaN: is memory used before it is filled?");
    else if (!strcmp(nan->kind, FINDING_INF))
        part_add(finding->hint, "a number too large for %s, a division by 0, or log(0)?", value_names[nan->type]);
    else if (infinities)
        part_add(finding->hint,
                 "the inputs have Inf: Inf - Inf, 0 * Inf and Inf / Inf are NaN; nan=report+inf finds who made them");
    else if (has_negative && has_word(name, roots, sizeof roots / sizeof *roots))
        part_add(finding->hint, "some inputs are negative: a logarithm or root of one is NaN");
    else if (nan->type == VALUE_FLOAT16)
        part_add(finding->hint, "numbers beyond 65504 are Inf in float16, and Inf - Inf is NaN within a kernel");
    else if (zeros)
        part_add(finding->hint, "the inputs have zeros: 0 / 0 is NaN");
}

void finding_of_nan(struct finding *finding, const struct nan_fact *nan, const struct finding_origin *origin)
{
    const char *what = strcmp(nan->kind, FINDING_INF) == 0 ? "Inf" : "NaN";
    *finding = (struct finding){.origin = *origin,
                                .kind = nan->kind,
                                .nan = nan,
                                .by = &nan->by,
                                .access = {.source = NO_ARGUMENT},
                                .now_ns = nan->now_ns};
    part_add(finding->what, "%s", nan->kind);
    part_add(finding->headline, "%s: %s writes %" PRIu64 " %s", nan->kind, nan->by.kernel ? nan->by.plain : "a CUDA graph",
             nan->made, what);
    if (nan->buffer->id)
        part_add(finding->headline, " to buffer #%" PRIu64, nan->buffer->id);
    if (nan->buffer->id && nan->buffer->label[0])
        part_add(finding->headline, ", \"%s\"", nan->buffer->label);
    if (!nan->buffer->id && nan->argument >= 0)
        part_add(finding->headline, " to argument %d", nan->argument);
    part_add(finding->headline, ", first to element %" PRIu64 " of %s[%" PRIu64 "]", nan->index, value_names[nan->type],
             nan->count);
    take_element(finding, nan->buffer, nan->buffer_frames, nan->pointer + nan->index * value_width(nan->type));
    add_nan_hint(finding, nan);
    finding_complete(finding);
}

/* ---- bytes that nobody has written ---- */

/* "buffer #3, "x", 4096 bytes", ""train.py:38 in step #1", 4096 bytes" */
static void add_buffer(char *text, size_t size, const cufence_buffer *buffer)
{
    if (buffer->id)
        part_append(text, size, "buffer #%" PRIu64 ", ", buffer->id);
    if (buffer->label[0])
        part_append(text, size, "\"%s\", ", buffer->label);
    part_append(text, size, "%" PRIu64 " byte%s", buffer->size, plural(buffer->size));
}

static void take_kernel(struct finding *finding, const struct uninit_fact *fact)
{
    struct evidence_site *site = &finding->where.site;
    finding->where.has_kernel = 1;
    finding->where.certainty = CERTAIN_EXACT;
    site->kernel = fact->kernel;
    site->symbol = fact->symbol;
    site->kernel_offset = UINT64_MAX;
    site->has_grid = 1;
    site->shape = fact->shape;
}

static void take_buffer(struct finding *finding, const struct uninit_fact *fact)
{
    finding->buffer = part_buffer(fact->fresh, fact->frames);
    finding->buffer.certainty = fact->more || fact->may_be_result ? CERTAIN_CANDIDATE : CERTAIN_EXACT;
    finding->buffer.from = FROM_START;
    finding->buffer.distance = fact->first_unwritten;
    finding->buffer.argument = (struct argument_name){-1, fact->from, 0};
}

/* What it used, and what came of it: the sentence of the report. */
static void add_reason(char *text, size_t size, const struct uninit_fact *fact)
{
    part_append(text, size, "%s computes with bytes that nobody has written", fact->what ? fact->what : "it");
    if (fact->fresh) {
        part_append(text, size, ": of ");
        add_buffer(text, size, fact->fresh);
    }
    if (fact->unwritten)
        part_append(text, size, ", %" PRIu64 " were never written, the first at byte %" PRIu64, fact->unwritten,
                    fact->first_unwritten);
    if (fact->more)
        part_append(text, size, "; or of %" PRIu64 " more buffer%s that it reads", fact->more, plural(fact->more));
    if (fact->may_be_result)
        part_append(text, size, "; or of its own result, which had such bytes, too");
    if (fact->different) {
        part_append(text, size, "; element %" PRIu64 " of ", fact->first);
        if (fact->argument >= 0)
            part_append(text, size, "argument %d, ", fact->argument);
        part_append(text, size, "%s[%" PRIu64 "], becomes %s where they are 0x00 and %s where they are 0x4b",
                    value_names[fact->type], fact->elements, fact->values[0], fact->values[1]);
    }
    if (!fact->launched && fact->place && *fact->place)
        part_append(text, size, "; %s at %s", fact->what ? "copied" : "launched", fact->place);
}

void finding_of_uninit(struct finding *finding, struct uninit_fact *fact, const struct finding_origin *origin)
{
    char kernel[256];
    *finding = (struct finding){.origin = *origin,
                                .kind = FINDING_UNINIT,
                                .access = {.is_known = 1, .kind = ACCESS_READ, .source = NO_ARGUMENT},
                                .reason = fact->reason,
                                .uninit = fact,
                                .now_ns = fact->now_ns};
    fact->reason[0] = '\0';
    add_reason(fact->reason, sizeof fact->reason, fact);
    if (fact->symbol)
        take_kernel(finding, fact);
    if (fact->kernel)
        finding_kernel(&finding->where.site, kernel, sizeof kernel);
    else
        finding_kernel_of(fact->symbol ? fact->symbol : "", kernel, sizeof kernel);
    part_add(finding->what, FINDING_UNINIT);
    part_add(finding->headline, FINDING_UNINIT " by %s", fact->what ? fact->what : kernel[0] ? kernel : "a CUDA graph");
    if (fact->fresh && fact->fresh->id)
        part_add(finding->headline, " of buffer #%" PRIu64, fact->fresh->id);
    if (fact->launched)
        finding->launch = (struct fault_origin){fact->launched, CERTAIN_EXACT, 1};
    if (fact->fresh)
        take_buffer(finding, fact);
    finding_complete(finding);
}
