#include "json.h"

#include "earlier.h"
#include "identity.h"
#include "json_figures.h"
#include "json_members.h"
#include "json_nan.h"
#include "json_rerun.h"
#include "json_run.h"
#include "json_slack.h"
#include "timeline.h"
#include "base/version.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the sections ---- */

static void put_origin(struct members report, const struct finding *finding)
{
    const struct finding_origin *origin = &finding->origin;
    json_put_process(report, origin);
    if (origin->device < 0 && !origin->device_name)
        return;
    struct members device = put_object(report, "device");
    if (origin->device >= 0)
        put(device, "ordinal", json_integer(origin->device));
    put_text(device, "name", origin->device_name);
    put_text(device, "architecture", finding->architecture);
    if (finding->driver_major) {
        char driver[32];
        snprintf(driver, sizeof driver, "%" PRIu32 ".%" PRIu32, finding->driver_major, finding->driver_minor);
        put_text(device, "driver", driver);
    }
}

/* Adds the argument's word in the parameter bytes, and its number if the layout is known. */
static void put_argument_name(struct members to, struct argument_name name)
{
    if (name.word < 0)
        return;
    put(to, "argument_word", json_integer(name.word));
    if (name.number >= 0)
        put(to, "argument", json_integer(name.number));
}

static void put_exception(struct members report, const struct finding *finding)
{
    const struct exception *what = &finding->site.exception;
    struct members exception = put_object(report, "exception");
    put_number(exception, "number", what->number);
    put_text(exception, "name", what->name);
    if (finding->is_exception) {
        put_text(exception, "meaning", what->meaning);
        put_text(exception, "possible_cause", what->cause);
    }
    put_true(exception, "no_buffer", what->class == CLASS_NO_BUFFER);
}

static void put_access(struct members report, const struct access_fact *fact)
{
    static const char *const words[] = {NULL, "read", "write", "atomic"};
    if (!fact->is_known)
        return;
    struct members access = put_object(report, "access");
    put_text(access, "kind", words[fact->kind]);
    if (fact->bytes)
        put_number(access, "bytes", fact->bytes);
    if (fact->bytes_past_end)
        put_number(access, "bytes_past_end", fact->bytes_past_end);
    put_argument_name(access, fact->source);
    put_true(access, "loaded", fact->is_loaded);
}

static void put_address(struct members report, const struct address_fact *fact)
{
    if (fact->certainty == CERTAIN_NOT || fact->lanes)
        return;
    struct members address = put_object(report, "address");
    put_hex(address, "value", fact->value);
    put_certainty(address, fact->certainty);
    put(address, "in_arena", json_boolean(fact->is_in_arena));
    put_true(address, "completed", fact->is_completed);
    put_true(address, "misaligned", fact->is_misaligned);
}

static void put_range(struct members to, const char *key, uint64_t start, uint64_t end)
{
    struct members range = put_object(to, key);
    put_hex(range, "start", start);
    put_hex(range, "end", end);
}

static void put_frames(struct members to, const struct stack_frame *from, size_t count)
{
    if (!count)
        return;
    json_t *frames = json_array();
    for (size_t i = 0; i < count; i++) {
        struct members frame = {json_object(), to.has_failed};
        put_text(frame, "function", from[i].function);
        put_text(frame, "file", from[i].file);
        if (from[i].line)
            put(frame, "line", json_integer(from[i].line));
        put_text(frame, "module", from[i].module);
        if (from[i].module[0])
            put_number(frame, "offset", from[i].offset);
        put_true(frame, "python", from[i].is_python);
        append(frames, frame.object, to.has_failed);
    }
    put(to, "frames", frames);
}

/* Adds when, by which thread and on which stream a buffer was allocated or freed. Returns the object, for the frames. */
static struct members put_event(struct members to, const char *key, uint64_t time_ns, uint64_t now_ns, uint64_t tid,
                                uint64_t stream)
{
    struct members event = put_object(to, key);
    put_number(event, "ns", time_ns);
    if (now_ns >= time_ns)
        put_number(event, "ago_ns", now_ns - time_ns);
    put_number(event, "tid", tid);
    put_hex(event, "stream", stream);
    return event;
}

static struct members make_buffer(struct members report, const struct finding *finding, const struct buffer_fact *fact)
{
    static const char *const sides[] = {"the start", "past the end", "before the start"};
    const cufence_buffer *buffer = fact->buffer;
    struct members made = {json_object(), report.has_failed};
    put_number(made, "id", buffer->id);
    put_hex(made, "address", buffer->address);
    put_number(made, "size", buffer->size);
    put_text(made, "label", buffer->label);
    put(made, "device", json_integer(buffer->device));
    put_range(made, "mapping", buffer->mapping_start, buffer->mapping_end);
    put_range(made, "guard", buffer->guard_start, buffer->guard_end);
    put(made, "is_mapped", json_boolean(buffer->is_mapped));
    if (buffer->redzone_before || buffer->redzone_after) {
        struct members redzone = put_object(made, "redzone");
        put_number(redzone, "before", buffer->redzone_before);
        put_number(redzone, "after", buffer->redzone_after);
    }
    if (buffer->allocated_ns)
        put_frames(put_event(made, "allocated", buffer->allocated_ns, finding->now_ns, buffer->allocated_tid, buffer->stream),
                   fact->allocated.frames, fact->allocated.count);
    if (buffer->freed_ns) {
        struct members freed =
            put_event(made, "freed", buffer->freed_ns, finding->now_ns, buffer->freed_tid, buffer->free_stream);
        if (buffer->freed_ago)
            put_number(freed, "ago_allocations", buffer->freed_ago);
        put_frames(freed, fact->freed.frames, fact->freed.count);
    }
    put_certainty(made, fact->certainty);
    put_text(made, "reason", fact->reason);
    if (fact->from != FROM_NOWHERE) {
        struct members distance = put_object(made, "distance");
        put_number(distance, "bytes", fact->distance);
        put_text(distance, "from", sides[fact->from]);
    }
    put_argument_name(made, fact->argument);
    return made;
}

static void put_buffer(struct members report, const char *key, const struct finding *finding, const struct buffer_fact *fact)
{
    if (fact->buffer)
        put(report, key, make_buffer(report, finding, fact).object);
}

/* Adds the kernel and the position in its code. */
static struct members put_code(struct members to, const struct evidence_site *site)
{
    const char *name = site->kernel ? site->kernel : site->symbol;
    struct members kernel = put_object(to, "kernel");
    put_text(kernel, "name", name);
    put_text(kernel, "symbol", site->symbol);
    put_certainty(kernel, CERTAIN_EXACT);
    put_text(kernel, "file", site->file);
    if (site->file && site->line)
        put(kernel, "line", json_integer(site->line));
    put_text(kernel, "instruction", site->instruction);
    if (site->symbol && !site->is_in_driver)
        put_number(kernel, "offset", site->kernel_offset);
    if (site->error_pc)
        put_hex(kernel, "pc", site->error_pc);
    return kernel;
}

static void put_kernel(struct members report, const struct finding *finding)
{
    const struct evidence_site *site = &finding->site;
    if (!site->kernel && !site->symbol && !site->error_pc)
        return;
    struct members kernel = put_code(report, site);
    if (!site->has_grid)
        return;
    put_dim(kernel, "grid", site->grid);
    put_dim(kernel, "block", site->block);
    put_true(kernel, "grid_rerun", finding->is_grid_of_rerun);
    if (site->cluster[0] > 1 || site->cluster[1] > 1 || site->cluster[2] > 1)
        put_dim(kernel, "cluster", site->cluster);
}

static void put_thread(struct members report, const struct finding *finding)
{
    int is_alive = finding->site.is_warp_alive;
    put(report, "warp_exited", json_boolean(finding->has_exited));
    if (finding->lane) {
        struct members thread = put_object(report, "thread");
        put_dim(thread, "block", finding->site.block_index);
        put_dim(thread, "thread", finding->lane->thread);
        put_true(thread, "rerun", finding->is_warp_of_rerun);
        put_true(thread, "emulated", finding->is_warp_emulated);
    }
    struct members counts = put_object(report, "counts");
    if (finding->faulting_threads)
        put_number(counts, "threads", finding->faulting_threads);
    put_number(counts, is_alive ? "warps" : "sms", finding->other_sites + 1);
}

/* Adds the launch, or the number of launches that it may have been, and where it came from. */
static void put_launch(struct members report, const struct finding *finding)
{
    const struct fault_origin *origin = &finding->launch;
    if (!origin->launch)
        return;
    const struct launch_entry *entry = origin->launch->entry;
    struct members launch = put_object(report, "launch");
    put_certainty(launch, origin->certainty);
    put_number(launch, "fits", origin->fits);
    put_true(launch, "graph", entry->graph != 0);
    put_event(launch, "launched", entry->time_ns, finding->now_ns, entry->tid, entry->stream);
    put_frames(launch, origin->launch->frames, origin->launch->frame_count);
}

/* Adds the buffer that the value points into, if any. */
static void put_target(struct members to, const struct value_fact *value)
{
    if (!value->target)
        return;
    put_number(to, "buffer", value->target->id);
    put_number(to, "offset", value->bits - value->target->address);
    json_put_figures(to, value);
}

/* Adds the pointers inside the struct at index `at`. Returns the index of the next argument. */
static size_t put_pointers(struct members to, const struct finding *finding, size_t at)
{
    json_t *pointers = json_array();
    for (at++; at < finding->value_count && finding->values[at].is_member; at++) {
        struct members pointer = {json_object(), to.has_failed};
        put(pointer, "at", json_integer(finding->values[at].at));
        put_target(pointer, &finding->values[at]);
        append(pointers, pointer.object, to.has_failed);
    }
    put(to, "pointers", pointers);
    return at;
}

static void put_values(struct members report, const struct finding *finding)
{
    if (!finding->values_certainty)
        return;
    struct members arguments = put_object(report, "arguments");
    put_certainty(arguments, finding->values_certainty);
    json_t *list = json_array();
    for (size_t i = 0; i < finding->value_count;) {
        const struct value_fact *value = &finding->values[i];
        struct members argument = {json_object(), report.has_failed};
        put(argument, "size", json_integer(value->size));
        if (value->is_kept && value->size <= sizeof value->bits) {
            put_hex(argument, "value", value->bits);
            put_target(argument, value);
        }
        i = value->is_kept && value->size > sizeof value->bits ? put_pointers(argument, finding, i) : i + 1;
        append(list, argument.object, report.has_failed);
    }
    put(arguments, "list", list);
}

/* Adds the possible buffers, if none can be blamed. */
static void put_candidates(struct members report, const struct finding *finding)
{
    if (!finding->candidate_count)
        return;
    struct members candidates = put_object(report, "candidates");
    put_text(candidates, "from", finding->candidates_from);
    put_true(candidates, "narrowed", finding->is_narrowed);
    put_true(candidates, "const_excluded", finding->is_const_excluded);
    put_true(candidates, "traced", finding->is_traced);
    put_number(candidates, "total", finding->candidate_total);
    json_t *buffers = json_array();
    for (size_t i = 0; i < finding->candidate_count; i++)
        append(buffers, make_buffer(report, finding, &finding->candidates[i]).object, report.has_failed);
    put(candidates, "buffers", buffers);
}

/* Adds faults at other places at the same time. */
static void put_also(struct members report, const struct finding *finding)
{
    if (!finding->also_count)
        return;
    json_t *list = json_array();
    for (size_t i = 0; i < finding->also_count; i++) {
        struct members other = {json_object(), report.has_failed};
        struct members exception = put_object(other, "exception");
        put_number(exception, "number", finding->also[i]->exception.number);
        put_text(exception, "name", finding->also[i]->exception.name);
        put_code(other, finding->also[i]);
        append(list, other.object, report.has_failed);
    }
    put(report, "also", list);
}

static void put_notes(struct members report, const struct finding *finding)
{
    if (!finding->note_count)
        return;
    json_t *notes = json_array();
    for (size_t i = 0; i < finding->note_count; i++)
        append(notes, text_to_json(finding->notes[i].text), report.has_failed);
    put(report, "notes", notes);
}

/* ---- the whole ---- */

/* Adds what may still use the buffer of a stream race. */
static void put_earlier(struct members report, const struct finding *finding)
{
    const struct earlier_use *use = finding->earlier;
    char kernel[256];
    if (!use)
        return;
    struct members used = put_object(report, "used");
    put_certainty(used, CERTAIN_DERIVED);
    if (use->kernel) {
        finding_kernel_of(use->kernel, kernel, sizeof kernel);
        put_text(used, "kernel", kernel);
        put_text(used, "symbol", use->kernel);
    }
    put_text(used, "call", use->call);
    put_text(used, "reason", earlier_order(use).text);
    if (use->entry) {
        put_dim(used, "grid", use->entry->grid);
        put_dim(used, "block", use->entry->block);
    }
    if (use->time_ns) {
        put_number(used, "ns", use->time_ns);
        if (finding->now_ns >= use->time_ns)
            put_number(used, "ago_ns", finding->now_ns - use->time_ns);
    }
    put_number(used, "tid", use->tid);
    put_hex(used, "stream", use->stream);
    put_hex(used, "by_stream", use->by_stream);
    put_frames(used, use->frames, use->frame_count);
}

static void put_call(struct members report, const struct finding *finding)
{
    put_text(report, "call", finding->call);
    put_text(report, "reason", finding->reason);
    if (!finding->call)
        return;
    struct members called = put_object(report, "called");
    put_number(called, "tid", finding->caller_tid);
    put_frames(called, finding->caller, finding->caller_count);
}

static void put_source(struct members report, const struct finding *finding)
{
    if (!finding->source_count)
        return;
    json_t *lines = json_array();
    for (size_t i = 0; i < finding->source_count; i++) {
        struct members line = {json_object(), report.has_failed};
        put(line, "line", json_integer(finding->source[i].number));
        put(line, "text", text_to_json(finding->source[i].text));
        append(lines, line.object, report.has_failed);
    }
    put(report, "source", lines);
}

static void put_site(struct members report, const struct finding *finding)
{
    put_kernel(report, finding);
    put_source(report, finding);
    put_thread(report, finding);
    put_launch(report, finding);
    put_values(report, finding);
    if (finding->rerun)
        json_put_rerun(report, finding->rerun);
    put_candidates(report, finding);
    put_also(report, finding);
    put_notes(report, finding);
}

char *finding_json(const struct finding *finding)
{
    char name[512];
    int has_failed = 0;
    struct members report = {json_object(), &has_failed};
    put(report, "schema", json_integer(JSON_SCHEMA));
    put_text(report, "cufence", VERSION_TEXT);
    put_text(report, "kind", finding->kind);
    put_text(report, "headline", finding->headline);
    finding_name(finding, name, sizeof name);
    put_text(report, "finding_name", name);
    put_text(report, "known", finding->known);
    put_origin(report, finding);
    put_call(report, finding);
    put_earlier(report, finding);
    if (finding->has_site)
        put_exception(report, finding);
    put_access(report, &finding->access);
    put_address(report, &finding->address);
    put_buffer(report, "buffer", finding, &finding->buffer);
    put_buffer(report, "rival", finding, &finding->rival);
    if (finding->slack) {
        json_put_slack(report, finding->slack, put_frames);
        put_notes(report, finding);
    }
    if (finding->has_site)
        put_site(report, finding);
    if (finding->nan)
        json_put_nan(report, finding->nan, put_frames);
    put_text(report, "hint", finding->hint);
    put_buffer(report, "previous", finding, &finding->previous);
    put_buffer(report, "next", finding, &finding->next);
    if (finding->memory)
        json_put_timeline(report, finding->memory, finding->launch.launch ? finding->launch.launch->entry : NULL);
    return members_line(report);
}
