/* SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html */
#include "findings_file.h"

#include "base/text.h"
#include "finding/frames.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *kind, *text;
} rules[] = {
    {"overrun", "A kernel went past the end of a buffer."},
    {"underrun", "A kernel went before the start of a buffer."},
    {"use-after-free", "A kernel used a buffer that had been freed."},
    {"wild address", "A kernel used an address outside of all buffers."},
    {"null pointer", "A kernel used a null pointer."},
    {"host pointer", "A kernel used memory of the host that the device cannot reach."},
    {"misaligned access", "A kernel used an address that is not a multiple of the access size."},
    {"illegal access", "A kernel used memory that it may not use; the address is not known, or another GPU's."},
    {"exception", "A kernel failed for another reason than a memory access."},
    {"unexplained", "A kernel failed, and the core dump could not be read."},
    {"double free", "A buffer was freed twice."},
    {"invalid free", "An address was freed that is not the start of a buffer."},
    {"host write out of bounds", "A copy or a set wrote outside a buffer."},
    {"host read out of bounds", "A copy read outside a buffer."},
    {"stream race", "A buffer was freed or overwritten while another stream may still use it."},
    {"slack write", "A kernel wrote next to a buffer, within its mapping."},
    {"write to poisoned memory", "A kernel wrote into bytes of a buffer that the program had poisoned."},
    {"leak", "Buffers were still allocated when the process ended."},
    {"stuck", "Kernels did not end; the report tells which of their threads wait."},
    {"first NaN", "A kernel made a NaN of inputs that had none."},
    {"first Inf", "A kernel made an infinity of inputs that had none."},
};

#define RULES (sizeof rules / sizeof rules[0])

static int rule_of(const char *kind)
{
    for (size_t i = 0; i < RULES; i++)
        if (!strcmp(rules[i].kind, kind))
            return (int)i;
    return -1;
}

/* A path as a URI: relative to the current folder if it lies there, as code hosts want it. */
static json_t *uri_of(const char *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    char folder[4096], *uri = NULL;
    size_t size, length;
    FILE *out = open_memstream(&uri, &size);
    if (!out)
        return NULL;
    if (getcwd(folder, sizeof folder) && (length = strlen(folder)) > 1 && !strncmp(path, folder, length) && path[length] == '/')
        path += length + 1;
    else if (path[0] == '/')
        fputs("file://", out);
    for (; *path; path++)
        fprintf(out, strchr(plain, *path) ? "%c" : "%%%02X", (unsigned char)*path);
    fclose(out);
    json_t *made = json_string(uri);
    free(uri);
    return made;
}

/* Code hosts want a line: it is the first if none is known. */
static json_t *location_of(const char *file, long long line, const char *function)
{
    json_t *location = json_object();
    if (file)
        json_object_set_new(location, "physicalLocation",
                            json_pack("{s{so} s{sI}}", "artifactLocation", "uri", uri_of(file), "region", "startLine",
                                      (json_int_t)(line > 0 ? line : 1)));
    if (function)
        json_object_set_new(location, "logicalLocations", json_pack("[{ss ss}]", "name", function, "kind", "function"));
    return location;
}

static const char *known(const char *text)
{
    return text && *text ? text : NULL;
}

static json_t *frame_location(const struct stack_frame *frame)
{
    return location_of(known(frame->file), frame->line, known(frame->function));
}

/* Who has done what, in the order in which a place is looked for. */
enum { STACKS = 4 };
struct from {
    const char *what;
    const struct stack_frame *frames;
    size_t count;
};

static void find_stacks(const struct finding *finding, struct from out[STACKS])
{
    const struct fault_launch *launch = finding->launch.launch;
    const struct buffer_fact *buffer = &finding->buffer;
    out[0] = (struct from){"called at", finding->called.frames, finding->called.count};
    out[1] = (struct from){"launched at", launch ? launch->frames : NULL, launch ? launch->frame_count : 0};
    out[2] = (struct from){"buffer allocated at", buffer->allocated.frames, buffer->allocated.count};
    out[3] = (struct from){"buffer freed at", buffer->freed.frames, buffer->freed.count};
}

static json_t *stacks_of(const struct from from[STACKS])
{
    json_t *stacks = json_array();
    for (const struct from *stack = from; stack < from + STACKS; stack++) {
        json_t *frames = json_array();
        for (size_t i = 0; i < stack->count; i++)
            json_array_append_new(frames, json_pack("{so}", "location", frame_location(&stack->frames[i])));
        if (stack->count)
            json_array_append_new(stacks, json_pack("{s{ss} sO}", "message", "text", stack->what, "frames", frames));
        json_decref(frames);
    }
    return stacks;
}

/* The user's own frame, or another one with a file; NULL: none has one. */
static const struct stack_frame *frame_with_file(const struct from *from)
{
    const struct stack_frame *own = from->count ? frames_own(from->frames, from->count) : NULL;
    for (size_t i = 0; own && !own->file[0] && i < from->count; i++)
        if (from->frames[i].file[0])
            own = &from->frames[i];
    return own && own->file[0] ? own : NULL;
}

/* The caller's line, the kernel's, its launch's, that of the allocation or the free; else the program. Code hosts refuse a
 * document with a result that lies in no file. */
static json_t *place_of(const struct collected_finding *found, const struct from from[STACKS])
{
    const struct evidence_stop *stop = &found->facts->where.stop;
    const json_t *process = json_object_get(found->first, "process");
    const char *program = json_string_value(json_array_get(json_object_get(process, "command"), 0));
    for (size_t i = 0; i < STACKS; i++) {
        const struct stack_frame *frame = frame_with_file(&from[i]);
        if (i == 1 && known(stop->file))
            return location_of(stop->file, stop->line, known(stop->kernel));
        if (frame)
            return frame_location(frame);
    }
    program = program ? program : json_string_value(json_object_get(found->first, "dump")); /* of `cufence explain` */
    return location_of(known(program) ? program : "unknown-program", 0, known(stop->kernel));
}

static json_t *result_of(const struct collected_finding *found, int has_baseline)
{
    const struct finding *finding = found->facts;
    const char *kind = finding->kind;
    char print[17], place[512], tensor[256], message[1536];
    struct from from[STACKS];
    find_stacks(finding, from);
    finding_place(finding, place, sizeof place);
    finding_tensor(found, tensor, sizeof tensor);
    text_format(message, sizeof message, "%s%s%s%s%s", finding->headline[0] ? finding->headline : kind, place[0] ? ", " : "",
                place, tensor[0] ? "; the buffer is " : "", tensor);
    snprintf(print, sizeof print, "%016" PRIx64, finding_hash(found->key)); /* code hosts follow a finding by it */
    json_t *result = json_pack("{ss ss s{ss} s[o] sI s{ss}}", "ruleId", kind, "level", "error", "message", "text", message,
                               "locations", place_of(found, from), "occurrenceCount", (json_int_t)found->count,
                               "partialFingerprints", "cufence/v1", print);
    json_t *stacks = stacks_of(from);
    if (rule_of(kind) >= 0)
        json_object_set_new(result, "ruleIndex", json_integer(rule_of(kind)));
    if (json_array_size(stacks))
        json_object_set(result, "stacks", stacks);
    json_decref(stacks);
    if (found->known == KNOWN_SUPPRESSED)
        json_object_set_new(result, "suppressions", json_pack("[{ss}]", "kind", "external"));
    if (has_baseline)
        json_object_set_new(result, "baselineState", json_string(found->known == KNOWN_BASELINE ? "unchanged" : "new"));
    json_object_set_new(result, "properties", json_pack("{sO sO}", "finding", found->first, "processes", found->processes));
    return result;
}

static json_t *rules_of(void)
{
    json_t *array = json_array();
    for (size_t i = 0; i < RULES; i++)
        json_array_append_new(array, json_pack("{ss s{ss} s{ss} s{ss}}", "id", rules[i].kind, "shortDescription", "text",
                                               rules[i].text, "fullDescription", "text", rules[i].text, "help", "text",
                                               "See docs/findings.md of cufence."));
    return array;
}

static json_t *results_of(const struct collected *collected)
{
    json_t *results = json_array();
    int has_baseline = 0;
    for (size_t i = 0; i < collected->known_count; i++)
        has_baseline |= collected->known[i].known == KNOWN_BASELINE;
    for (size_t i = 0; i < collected->count; i++)
        json_array_append_new(results, result_of(&collected->findings[i], has_baseline));
    for (size_t i = 0; i < collected->known_count; i++)
        json_array_append_new(results, result_of(&collected->known[i], has_baseline));
    return results;
}

/* Returns NULL unless it is an array of nothing but texts. */
static json_t *if_texts(json_t *array)
{
    json_t *each;
    size_t i;
    json_array_foreach(array, i, each)
    {
        if (!json_is_string(each))
            return NULL;
    }
    return json_is_array(array) ? array : NULL;
}

/* What was run, and what was guarded. */
static json_t *invocations_of(const struct collected *collected)
{
    json_t *array = json_array(), *run;
    char guarded[160];
    size_t i;
    collected_say_guarded(collected, guarded, sizeof guarded);
    json_array_foreach(collected->runs, i, run)
    {
        json_t *command = json_object_get(json_object_get(run, "process"), "command"), *time = json_object_get(run, "time");
        json_t *made =
            json_pack("{sb sO* sO* s[{ss s{ss}}]}", "executionSuccessful", 1, "arguments", if_texts(command), "startTimeUtc",
                      json_is_string(time) ? time : NULL, "toolExecutionNotifications", "level",
                      collected->allocations ? "note" : "warning", "message", "text", guarded + strspn(guarded, "; "));
        json_array_append_new(array, made);
    }
    return array;
}

int face_sarif(const struct collected *collected, FILE *out)
{
    json_t *results = results_of(collected);
    json_t *log =
        json_pack("{ss ss s[{s{s{ss ss ss ss so}} so sO}]}", "$schema", "https://json.schemastore.org/sarif-2.1.0.json",
                  "version", "2.1.0", "runs", "tool", "driver", "name", "cufence", "version", VERSION_TEXT, "semanticVersion",
                  VERSION_TEXT, "fullName", "cufence, Electric Fence for CUDA", "rules", rules_of(), "invocations",
                  invocations_of(collected), "results", results);
    int is_ok = log && json_array_size(results) == collected->count + collected->known_count;
    json_decref(results);
    if (is_ok)
        return text_put_json(out, log, JSON_INDENT(1));
    json_decref(log);
    return 0;
}
