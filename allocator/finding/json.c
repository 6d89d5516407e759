#include "json.h"

#include "analysis/verdict/arguments.h"
#include "analysis/verdict/launches.h"
#include "analysis/verdict/owner.h"
#include "base/text.h"
#include "base/version.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values; a member that cannot be made for want of memory marks the whole report as failed ---- */

struct members {
    json_t *object;
    int *has_failed; /* shared by all objects of a report */
};

/* Takes the value, which is gone where this fails. */
static int put(struct members to, const char *key, json_t *value)
{
    if (json_object_set_new(to.object, key, value) == 0)
        return 1;
    *to.has_failed = 1;
    return 0;
}

static void append(json_t *array, json_t *value, int *has_failed)
{
    if (json_array_append_new(array, value) != 0)
        *has_failed = 1;
}

static struct members put_object(struct members to, const char *key)
{
    struct members inner = {json_object(), to.has_failed};
    if (!put(to, key, inner.object))
        inner.object = NULL; /* jansson refuses to put anything into that, and so it stays failed */
    return inner;
}

/* JSON's integers end here in jansson as in most readers; nothing real is larger. */
static void put_number(struct members to, const char *key, uint64_t value)
{
    if (value <= INT64_MAX)
        put(to, key, json_integer((json_int_t)value));
}

static void put_true(struct members to, const char *key, int is_true)
{
    if (is_true)
        put(to, key, json_true());
}

static void put_hex(struct members to, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "0x%" PRIx64, value);
    put(to, key, json_string(text));
}

static void put_text(struct members to, const char *key, const char *text)
{
    if (text && *text)
        put(to, key, text_to_json(text));
}

static void put_certainty(struct members to, enum certainty certainty)
{
    static const char *const words[] = {NULL, "candidate", "derived", "exact"};
    put_text(to, "certainty", words[certainty]);
}

static void put_dim(struct members to, const char *key, const uint32_t dim[3])
{
    json_t *array = json_array();
    for (int i = 0; i < 3; i++)
        append(array, json_integer(dim[i]), to.has_failed);
    put(to, key, array);
}

/* ---- the sections ---- */

static void put_origin(struct members report, const struct report_origin *origin, const struct evidence *evidence)
{
    struct members process = put_object(report, "process");
    put(process, "pid", json_integer(origin->pid));
    if (origin->rank >= 0)
        put(process, "rank", json_integer(origin->rank));
    const char *name = origin->device_name ? origin->device_name : evidence ? evidence->device_name : NULL;
    if (origin->device < 0 && !name)
        return;
    struct members device = put_object(report, "device");
    if (origin->device >= 0)
        put(device, "ordinal", json_integer(origin->device));
    put_text(device, "name", name);
    if (!evidence)
        return;
    put_text(device, "architecture", evidence->sm_type);
    if (evidence->driver_major) {
        char driver[32];
        snprintf(driver, sizeof driver, "%" PRIu32 ".%" PRIu32, evidence->driver_major, evidence->driver_minor);
        put_text(device, "driver", driver);
    }
}

/* An access that begins in bounds: how much of it lies behind the end. */
static uint64_t bytes_past_end(const struct diagnosis *diagnosis)
{
    uint64_t bytes = diagnosis->site->access_bytes, end = diagnosis->owner->address + diagnosis->owner->size;
    return diagnosis->address < end && end - diagnosis->address < bytes ? bytes - (end - diagnosis->address) : 0;
}

static struct members open_access(struct members report, enum access_kind kind)
{
    static const char *const words[] = {NULL, "read", "write", "atomic"};
    struct members access = put_object(report, "access");
    put_text(access, "kind", words[kind]);
    return access;
}

/* Which argument it is: as a word of the parameter bytes, and where the layout is known its number too. */
static void put_argument_word(struct members buffer, const struct diagnosis *diagnosis, int word)
{
    uint32_t offset;
    if (word < 0)
        return;
    put(buffer, "argument_word", json_integer(word));
    int argument = launch_argument_of(diagnosis->arguments.layout, (size_t)word, &offset);
    if (argument >= 0)
        put(buffer, "argument", json_integer(argument));
}

static void put_access(struct members report, const struct diagnosis *diagnosis)
{
    const struct evidence_site *site = diagnosis->site;
    struct members exception = put_object(report, "exception");
    int is_about_memory = site->exception.class != CLASS_NO_BUFFER;
    put_number(exception, "number", site->exception.number);
    put_text(exception, "name", site->exception.name);
    if (diagnosis->kind == FAULT_OTHER) {
        put_text(exception, "meaning", site->exception.meaning);
        put_text(exception, "possible_cause", site->exception.cause);
    }
    put_true(exception, "no_buffer", !is_about_memory);
    if (!is_about_memory || (site->access == ACCESS_UNKNOWN && !site->access_bytes))
        return;
    struct members access = open_access(report, site->access);
    if (site->access_bytes)
        put_number(access, "bytes", site->access_bytes);
    if (diagnosis->kind == FAULT_OVERRUN && bytes_past_end(diagnosis))
        put_number(access, "bytes_past_end", bytes_past_end(diagnosis));
    put_argument_word(access, diagnosis, fault_source_word(diagnosis));
    put_true(access, "loaded", fault_is_loaded(diagnosis));
}

static void put_address(struct members report, const struct diagnosis *diagnosis)
{
    int is_any_lanes = diagnosis->memory->is_unknown && diagnosis->kind == FAULT_ILLEGAL_ACCESS;
    if (diagnosis->address_certainty == CERTAIN_NOT || is_any_lanes)
        return;
    struct members address = put_object(report, "address");
    put_hex(address, "value", diagnosis->address);
    put_certainty(address, diagnosis->address_certainty);
    const struct fault_memory *memory = diagnosis->memory;
    put(address, "in_arena", json_boolean(diagnosis->address >= memory->arena_start && diagnosis->address < memory->arena_end));
    put_true(address, "completed", diagnosis->is_completed);
    put_true(address, "misaligned", diagnosis->kind == FAULT_MISALIGNED && is_misaligned(diagnosis->site, diagnosis->lane));
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

/* Who allocated or freed a buffer, and when. Absent where it has not happened. */
static void put_event(struct members buffer, const char *key, uint64_t time_ns, uint64_t now_ns, uint64_t tid, uint64_t stream)
{
    if (!time_ns)
        return;
    struct members event = put_object(buffer, key);
    put_number(event, "ns", time_ns);
    if (now_ns >= time_ns)
        put_number(event, "ago_ns", now_ns - time_ns);
    put_number(event, "tid", tid);
    put_hex(event, "stream", stream);
}

/* Where in Python that was, if it has happened and is known. */
static void put_event_frames(struct members buffer, const char *key, struct buffer_frames known, uint32_t stack)
{
    struct members event = {json_object_get(buffer.object, key), buffer.has_failed};
    struct stack_frame frames[STACK_READ];
    if (event.object && stack && known.read)
        put_frames(event, frames, known.read(known.from, stack, frames, STACK_READ));
}

/* Not a member of anything yet: whoever asks adds what is to be said of its part in this fault, and puts it where it belongs.
 */
static struct members make_buffer(struct members report, uint64_t now, struct buffer_frames frames,
                                  const cufence_buffer *buffer)
{
    struct members made = {json_object(), report.has_failed};
    put_number(made, "id", buffer->id);
    put_hex(made, "address", buffer->address);
    put_number(made, "size", buffer->size);
    put_text(made, "label", buffer->label);
    put(made, "device", json_integer(buffer->device));
    put_range(made, "mapping", buffer->mapping_start, buffer->mapping_end);
    put_range(made, "guard", buffer->guard_start, buffer->guard_end);
    put(made, "is_mapped", json_boolean(buffer->is_mapped));
    put_event(made, "allocated", buffer->allocated_ns, now, buffer->allocated_tid, buffer->stream);
    put_event_frames(made, "allocated", frames, buffer->allocated_stack);
    put_event(made, "freed", buffer->freed_ns, now, buffer->freed_tid, buffer->free_stream);
    put_event_frames(made, "freed", frames, buffer->freed_stack);
    return made;
}

static void put_distance(struct members buffer, const char *from, uint64_t bytes)
{
    struct members distance = put_object(buffer, "distance");
    put_number(distance, "bytes", bytes);
    put_text(distance, "from", from);
}

/* The buffer that the access was meant for, and the one on the other side of the guard that it may have been. */
static void put_owner(struct members report, const struct diagnosis *diagnosis)
{
    static const char *const past_end = "past the end", *const before_start = "before the start";
    int is_overrun = diagnosis->kind == FAULT_OVERRUN, is_underrun = diagnosis->kind == FAULT_UNDERRUN;
    if (!diagnosis->owner)
        return;
    struct members owner = make_buffer(report, diagnosis->memory->now_ns, diagnosis->memory->frames, diagnosis->owner);
    put_certainty(owner, diagnosis->owner_certainty);
    put_text(owner, "reason", diagnosis->owner_reason);
    put_distance(owner, is_overrun ? past_end : is_underrun ? before_start : "the start", diagnosis->distance);
    put_argument_word(owner, diagnosis, diagnosis->owner_parameter);
    put(report, "buffer", owner.object);
    if (!diagnosis->rival)
        return;
    struct members rival = make_buffer(report, diagnosis->memory->now_ns, diagnosis->memory->frames, diagnosis->rival);
    put_certainty(rival, CERTAIN_CANDIDATE);
    put_distance(rival, is_overrun ? before_start : past_end, diagnosis->rival_distance);
    put(report, "rival", rival.object);
}

/* The kernel, and where in it. */
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

static void put_kernel(struct members report, const struct evidence_site *site)
{
    if (!site->kernel && !site->symbol && !site->error_pc)
        return;
    struct members kernel = put_code(report, site);
    if (!site->has_grid)
        return;
    put_dim(kernel, "grid", site->grid);
    put_dim(kernel, "block", site->block);
    if (site->cluster[0] > 1 || site->cluster[1] > 1 || site->cluster[2] > 1)
        put_dim(kernel, "cluster", site->cluster);
}

static void put_thread(struct members report, const struct diagnosis *diagnosis)
{
    const struct evidence_site *site = fault_site(diagnosis);
    put(report, "warp_exited", json_boolean(!site->is_warp_alive));
    if (diagnosis->lane && site->is_warp_alive) {
        struct members thread = put_object(report, "thread");
        put_dim(thread, "block", site->block_index);
        put_dim(thread, "thread", diagnosis->lane->thread);
    }
    struct members counts = put_object(report, "counts");
    if (diagnosis->faulting_threads)
        put_number(counts, "threads", diagnosis->faulting_threads);
    put_number(counts, site->is_warp_alive ? "warps" : "sms", diagnosis->other_sites + 1);
}

/* The launch that it was, or may have been, and where that came from. */
static void put_launch(struct members report, const struct diagnosis *diagnosis)
{
    const struct fault_origin *origin = &diagnosis->origin;
    if (!origin->launch)
        return;
    const struct launch_entry *entry = origin->launch->entry;
    struct members launch = put_object(report, "launch");
    put_certainty(launch, origin->certainty);
    put_number(launch, "fits", origin->fits);
    put_true(launch, "graph", entry->graph != 0);
    put_event(launch, "launched", entry->time_ns, diagnosis->memory->now_ns, entry->tid, entry->stream);
    put_frames(launch, origin->launch->frames, origin->launch->frame_count);
}

/* Where 8 of the argument's bytes point to, if they do. */
static int put_target(struct members to, const struct diagnosis *diagnosis, const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    const cufence_buffer *buffer = word_buffer(diagnosis->memory, word, diagnosis->arguments.time_ns);
    if (buffer) {
        put_number(to, "buffer", buffer->id);
        put_number(to, "offset", word - buffer->address);
    }
    return buffer != NULL;
}

/* The pointers in a struct that is passed by value. */
static void put_members(struct members to, const struct diagnosis *diagnosis, const uint8_t *bytes,
                        struct launch_argument argument)
{
    json_t *pointers = json_array();
    for (uint32_t at = (8 - argument.offset % 8) % 8; at + 8 <= argument.size; at += 8) {
        struct members pointer = {json_object(), to.has_failed};
        put(pointer, "at", json_integer(at));
        if (put_target(pointer, diagnosis, bytes + at))
            append(pointers, pointer.object, to.has_failed);
        else
            json_decref(pointer.object);
    }
    put(to, "pointers", pointers);
}

static void put_argument(struct members to, const struct diagnosis *diagnosis, struct launch_argument argument)
{
    const struct fault_arguments *arguments = &diagnosis->arguments;
    const uint8_t *bytes = arguments->bytes + argument.offset;
    uint64_t value = 0;
    put(to, "size", json_integer(argument.size));
    if ((size_t)argument.offset + argument.size > arguments->count)
        return;
    if (argument.size > sizeof value) {
        put_members(to, diagnosis, bytes, argument);
        return;
    }
    memcpy(&value, bytes, argument.size);
    put_hex(to, "value", value);
    if (argument.size == sizeof value)
        put_target(to, diagnosis, bytes);
}

static void put_arguments(struct members report, const struct diagnosis *diagnosis)
{
    const struct launch_function *layout = diagnosis->arguments.layout;
    if (!diagnosis->arguments.bytes || !layout)
        return;
    struct members arguments = put_object(report, "arguments");
    put_certainty(arguments, diagnosis->arguments.certainty);
    json_t *list = json_array();
    for (uint32_t i = 0; i < layout->argument_count; i++) {
        struct members argument = {json_object(), report.has_failed};
        put_argument(argument, diagnosis, layout->arguments[i]);
        append(list, argument.object, report.has_failed);
    }
    put(arguments, "list", list);
}

/* Where no buffer can be blamed: those that it may have been. */
static void put_candidates(struct members report, const struct diagnosis *diagnosis)
{
    if (!diagnosis->candidate_count)
        return;
    static const char *const sources[] = {"live buffers", "arguments", "launches", "running"};
    struct members candidates = put_object(report, "candidates");
    put_text(candidates, "from", sources[diagnosis->candidate_source]);
    put_true(candidates, "narrowed", diagnosis->is_narrowed);
    put_true(candidates, "const_excluded", diagnosis->is_const_excluded);
    put_true(candidates, "traced", diagnosis->is_traced);
    put_number(candidates, "total", diagnosis->candidate_total);
    json_t *buffers = json_array();
    for (size_t i = 0; i < diagnosis->candidate_count; i++) {
        struct members buffer =
            make_buffer(report, diagnosis->memory->now_ns, diagnosis->memory->frames, diagnosis->candidates[i]);
        put_certainty(buffer, diagnosis->candidate_certainty);
        put_argument_word(buffer, diagnosis, diagnosis->candidate_parameter[i]);
        append(buffers, buffer.object, report.has_failed);
    }
    put(candidates, "buffers", buffers);
}

/* What else faulted at once, elsewhere. */
static void put_other_places(struct members report, const struct diagnosis *diagnosis)
{
    const struct evidence_site *places[FAULT_PLACES];
    size_t count = fault_other_places(diagnosis, places);
    if (!count)
        return;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        struct members other = {json_object(), report.has_failed};
        struct members exception = put_object(other, "exception");
        put_number(exception, "number", places[i]->exception.number);
        put_text(exception, "name", places[i]->exception.name);
        put_code(other, places[i]);
        append(list, other.object, report.has_failed);
    }
    put(report, "also", list);
}

static void put_neighbours(struct members report, const struct diagnosis *diagnosis)
{
    if (diagnosis->previous)
        put(report, "previous",
            make_buffer(report, diagnosis->memory->now_ns, diagnosis->memory->frames, diagnosis->previous).object);
    if (diagnosis->next)
        put(report, "next", make_buffer(report, diagnosis->memory->now_ns, diagnosis->memory->frames, diagnosis->next).object);
}

/* ---- the whole ---- */

static struct members open_report(int *has_failed, const char *kind)
{
    *has_failed = 0;
    struct members report = {json_object(), has_failed};
    put(report, "schema", json_integer(JSON_SCHEMA));
    put_text(report, "cufence", VERSION_TEXT);
    put_text(report, "kind", kind);
    return report;
}

static char *close_report(struct members report)
{
    char *line = NULL;
    char *text = *report.has_failed ? NULL : json_dumps(report.object, JSON_COMPACT);
    json_decref(report.object);
    if (text) {
        size_t length = strlen(text);
        line = realloc(text, length + 2);
        if (line)
            memcpy(line + length, "\n", 2);
        else
            free(text);
    }
    return line;
}

char *fault_report_json(const struct diagnosis *diagnosis, const struct report_origin *origin)
{
    int has_failed;
    struct members report = open_report(&has_failed, fault_kind_name(diagnosis->kind));
    put_origin(report, origin, diagnosis->evidence);
    if (diagnosis->site) {
        put_access(report, diagnosis);
        put_address(report, diagnosis);
        put_owner(report, diagnosis);
        put_kernel(report, fault_site(diagnosis));
        put_thread(report, diagnosis);
        put_launch(report, diagnosis);
        put_arguments(report, diagnosis);
        put_candidates(report, diagnosis);
        put_other_places(report, diagnosis);
        put_neighbours(report, diagnosis);
    }
    return close_report(report);
}

char *fault_unexplained_json(const char *reason, const struct report_origin *origin)
{
    int has_failed;
    struct members report = open_report(&has_failed, FAULT_UNEXPLAINED);
    put_origin(report, origin, NULL);
    put_text(report, "reason", reason);
    return close_report(report);
}

/* What lies at the address that the call was given. */
static void put_place(struct members report, const struct misuse *misuse)
{
    static const char *const from[] = {[CUFENCE_PLACE_INSIDE] = "the start",
                                       [CUFENCE_PLACE_PAST_END] = "past the end",
                                       [CUFENCE_PLACE_BEFORE_START] = "before the start",
                                       [CUFENCE_PLACE_FREED] = "the start",
                                       [CUFENCE_PLACE_NO_BUFFER] = NULL};
    const cufence_description *place = misuse->place;
    struct members address = put_object(report, "address");
    put_hex(address, "value", misuse->address);
    put_certainty(address, CERTAIN_EXACT);
    put(address, "in_arena", json_boolean(place->place != CUFENCE_PLACE_UNKNOWN));
    if (!place->buffer.id)
        return;
    struct members buffer = make_buffer(report, misuse->now_ns, misuse->buffer_frames, &place->buffer);
    put_certainty(buffer, CERTAIN_EXACT);
    if (from[place->place])
        put_distance(buffer, from[place->place], place->offset);
    put(report, "buffer", buffer.object);
}

static void put_host_access(struct members report, const struct misuse *misuse)
{
    const cufence_description *place = misuse->place;
    if (misuse->access == ACCESS_UNKNOWN)
        return;
    struct members access = open_access(report, misuse->access);
    put_number(access, "bytes", misuse->bytes);
    if (place->place == CUFENCE_PLACE_INSIDE)
        put_number(access, "bytes_past_end", misuse->bytes - (place->buffer.size - place->offset));
}

static void put_caller(struct members report, const struct misuse *misuse)
{
    struct members called = put_object(report, "called");
    put_number(called, "tid", misuse->tid);
    put_frames(called, misuse->frames, misuse->frame_count);
}

char *fault_misuse_json(const struct misuse *misuse, const struct report_origin *origin)
{
    int has_failed;
    struct members report = open_report(&has_failed, misuse->kind);
    put_origin(report, origin, NULL);
    put_text(report, "call", misuse->call);
    put_text(report, "reason", misuse->sentence);
    put_caller(report, misuse);
    put_host_access(report, misuse);
    put_place(report, misuse);
    return close_report(report);
}
