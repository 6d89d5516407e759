#include "findings_file.h"

#include "command_line.h"

#include "base/env.h"
#include "base/files.h"
#include "base/list.h"
#include "base/text.h"
#include "finding/json.h"
#include "finding/frames.h"
#include "finding/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- facts ---- */

static void add_frame(char *out, size_t size, const struct stack_frame *frame)
{
    char function[sizeof frame->function];
    if (frame->file[0])
        part_append(out, size, "%s", frames_file(frame));
    else
        part_append(out, size, "%s+0x%" PRIx64, frame->module, frame->offset);
    if (frame->file[0] && frame->line)
        part_append(out, size, ":%d", frame->line);
    frames_function(frame, function, sizeof function);
    if (function[0])
        part_append(out, size, " in %s", function);
}

void frames_place(const struct stack_frame *frames, size_t count, char *out, size_t size)
{
    if (!count)
        return;
    const struct stack_frame *frame = frames_own(frames, count), *caller = frame + 1;
    add_frame(out, size, frame);
    while (caller < frames + count && frames_is_plumbing(caller))
        caller++;
    if (!frame->is_python && caller < frames + count && caller->file[0]) {
        part_append(out, size, ", called from ");
        add_frame(out, size, caller);
    }
}

/* Of what lies in slack: the launches that may have put it there. */
static void add_given(char *out, size_t size, const struct slack_write *slack)
{
    char kernel[256];
    const struct fault_launch *first = slack->launches;
    const struct launch_function *function = first->entry->function;
    finding_kernel_of(function ? function->name : "", kernel, sizeof kernel);
    part_append(out, size, "given to %s", kernel[0] ? kernel : "a kernel");
    if (slack->launch_total > 1 && slack->certainty != CERTAIN_RERUN)
        part_append(out, size, " and %zu more launch%s", slack->launch_total - 1, plural_es(slack->launch_total - 1));
    if (first->frame_count)
        part_append(out, size, ", launched at ");
    frames_place(first->frames, first->frame_count, out, size);
}

void finding_place(const struct finding *finding, char *out, size_t size)
{
    const struct evidence_stop *stop = &finding->where.stop;
    char kernel[256];
    finding_kernel(stop, kernel, sizeof kernel);
    snprintf(out, size, "%s", stop->file || finding->called.count ? "at " : "");
    if (stop->file)
        part_append(out, size, "%s", stop->file);
    else
        frames_place(finding->called.frames, finding->called.count, out, size);
    if (stop->file && stop->line)
        part_append(out, size, ":%d", stop->line);
    if (kernel[0])
        part_append(out, size, "%sin %s", out[0] ? " " : "", kernel);
    if (!out[0] && finding->slack && finding->slack->launch_count)
        add_given(out, size, finding->slack);
}

static const char *member_of(json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* The first name of the tensor at the address, or of the first of the buffer's. */
static json_t *tensor_name(const struct collected_finding *finding)
{
    uint64_t id = finding->facts->buffer.buffer ? finding->facts->buffer.buffer->id : 0;
    json_t *buffers = json_object_get(json_object_get(finding->first, "names"), "buffers"), *buffer, *tensor, *name = NULL;
    size_t i, k;
    json_array_foreach(buffers, i, buffer)
    {
        if (!id || (uint64_t)json_integer_value(json_object_get(buffer, "buffer")) != id)
            continue;
        json_array_foreach(json_object_get(buffer, "tensors"), k, tensor)
        {
            json_t *first = json_array_get(json_object_get(tensor, "names"), 0);
            if (first && (!name || json_is_true(json_object_get(tensor, "inside"))))
                name = first;
        }
    }
    return name;
}

void finding_tensor(const struct collected_finding *finding, char *out, size_t size)
{
    json_t *found = tensor_name(finding);
    const char *name = member_of(found, "name"), *what = member_of(found, "what"), *where = member_of(found, "where");
    out[0] = '\0';
    if (name && what && where && !strcmp(what, "local"))
        text_format(out, size, "%s in %s", name, where);
    else if (name && what)
        text_format(out, size, "%s (%s%s%s)", name, what, where ? !strcmp(what, "optimizer state") ? " of " : " in " : "",
                    where ? where : "");
}

void finding_who(json_t *process, char *out, size_t size)
{
    struct finding_source origin;
    struct json_memory memory = {NULL};
    struct problem ignored;
    json_table_read(&process_facts, process, &origin, &memory, &ignored);
    out[0] = '\0';
    if (origin.rank >= 0)
        part_append(out, size, "rank %d, ", origin.rank);
    part_append(out, size, "pid %d", origin.pid);
    if (origin.process && origin.process->host)
        part_append(out, size, " on %s", origin.process->host);
    json_memory_free(&memory);
}

/* ---- the same again ---- */

static int has_equal(json_t *array, json_t *value)
{
    json_t *known;
    size_t i;
    json_array_foreach(array, i, known)
    {
        if (json_equal(known, value))
            return 1;
    }
    return 0;
}

static struct collected_finding *find(struct collected_finding *list, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i].key, key))
            return &list[i];
    return NULL;
}

struct line {
    json_t *json;
    struct finding *facts;
    struct json_memory memory;
};

/* Takes the key, and the line's facts. Returns NULL when the host is out of memory. */
static struct collected_finding *append(struct collected_finding **list, size_t *count, struct line *line, char *key)
{
    if (!list_make_room(list, *count, sizeof **list)) {
        free(key);
        return NULL;
    }
    (*list)[*count] = (struct collected_finding){
        .first = json_incref(line->json), .facts = line->facts, .memory = line->memory, .key = key, .processes = json_array()};
    line->memory = (struct json_memory){NULL};
    return &(*list)[(*count)++];
}

/* By the program's own options, or by the caller's lists. */
static enum known how_known(const struct collected *collected, const struct finding *finding)
{
    for (enum known as = KNOWN_SUPPRESSED; finding->known && as <= KNOWN_BASELINE; as++)
        if (!strcmp(finding->known, known_words[as]))
            return as;
    return collected->names ? known_as(collected->names, finding->name) : KNOWN_NOT;
}

static int add(struct collected *collected, struct line *line)
{
    json_t *process = json_object_get(line->json, "process");
    char *key = finding_key(line->facts);
    enum known as = how_known(collected, line->facts);
    struct collected_finding **list = as ? &collected->known : &collected->findings;
    size_t *count = as ? &collected->known_count : &collected->count;
    struct collected_finding *found = key ? find(*list, *count, key) : NULL;
    if (found)
        free(key);
    else if (!key || (found = append(list, count, line, key)) == NULL)
        return 0;
    found->count++;
    found->tags |= 1u << collected->tag;
    found->known = as;
    collected->reports += !as;
    return !process || has_equal(found->processes, process) || json_array_append(found->processes, process) == 0;
}

static void free_one(struct collected_finding *finding)
{
    json_memory_free(&finding->memory);
    json_decref(finding->first);
    json_decref(finding->processes);
    free(finding->key);
}

/* Returns the fault whose access has left what was found, NULL if there is none. */
static struct collected_finding *cause_of(struct collected_finding *list, size_t count, const struct finding *found)
{
    for (size_t i = 0; i < count; i++)
        if (finding_is_left_by(found, list[i].facts))
            return &list[i];
    return NULL;
}

void collected_join(struct collected *collected)
{
    json_t *process;
    size_t k;
    for (size_t i = 0; i < collected->count; i++) {
        struct collected_finding *found = &collected->findings[i];
        struct collected_finding *fault = cause_of(collected->findings, collected->count, found->facts)
                                              ?: cause_of(collected->known, collected->known_count, found->facts);
        if (!fault)
            continue;
        fault->count += found->count;
        fault->tags |= found->tags;
        collected->reports -= fault->known ? found->count : 0;
        json_array_foreach(found->processes, k, process)
        {
            if (!has_equal(fault->processes, process))
                json_array_append(fault->processes, process);
        }
        free_one(found);
        collected->count--;
        memmove(found, found + 1, (collected->count - i) * sizeof *found);
        i--;
    }
}

/* ---- what was run ---- */

static int add_line(json_t **lines, json_t *line)
{
    if (!*lines)
        *lines = json_array();
    return json_array_append(*lines, line) == 0;
}

int collected_is_known(const struct collected *collected)
{
    return json_array_size(collected->runs) || json_array_size(collected->guarded);
}

void collected_say_guarded(const struct collected *collected, char *out, size_t size)
{
    uint64_t allocations = collected->allocations, processes = collected->processes;
    out[0] = '\0';
    if (allocations)
        snprintf(out, size, "; %" PRIu64 " allocation%s guarded by %" PRIu64 " process%s", allocations, plural(allocations),
                 processes, plural_es(processes));
    else if (collected->count || collected->known_count) /* of a process that was killed before it could say what it guarded */
        return;
    else if (json_array_size(collected->guarded))
        snprintf(out, size, "; NOTHING WAS GUARDED: every allocation was left to the driver, or there was none");
    else if (collected_is_known(collected))
        snprintf(out, size, "; NOTHING WAS GUARDED: no process that used CUDA has ended");
}

/* What Python knows of a finding's tensors follows in a line of its own. Another report of the same finding may have been the
 * first: then its names stay, if it has some. Returns 0 if the host is out of memory. */
static int add_names(struct collected *collected, const struct finding *of, json_t *names)
{
    const char *time = of->origin.process ? of->origin.process->time : NULL;
    for (size_t i = 0; i < collected->count; i++) {
        const struct finding *facts = collected->findings[i].facts;
        const char *own = facts->origin.process ? facts->origin.process->time : NULL;
        if (facts->origin.pid == of->origin.pid && own && time && !strcmp(own, time) && !strcmp(facts->headline, of->headline))
            return json_object_set(collected->findings[i].first, "names", names) == 0;
    }
    return 1;
}

static int add_guarded(struct collected *collected, const struct line *line)
{
    uint64_t allocations = line->facts->guarded ? line->facts->guarded->allocations : 0;
    collected->allocations += allocations;
    collected->processes += allocations > 0;
    return add_line(&collected->guarded, line->json);
}

/* ---- files ---- */

int collected_open(const char *command, const char *kept, char file[PATH_MAX])
{
    const char *parent = env_get("TMPDIR");
    if (kept)
        snprintf(file, PATH_MAX, "%s", kept);
    else
        snprintf(file, PATH_MAX, "%s/cufence-%s-XXXXXX", parent && *parent ? parent : "/tmp", command);
    if (strchr(file, '\n')) /* it ends a name in the list of such files (environment_collect()) */
        return arguments_complain(command, STATUS_UNFIT, "no file for reports: a line end is in the name of %s", file);
    int made = kept ? files_create(file) : mkostemp(file, O_CLOEXEC);
    if (made < 0)
        return arguments_complain(command, STATUS_UNFIT,
                                  "no file for reports: %s: %s; set TMPDIR to a folder that can be written", file,
                                  strerror(errno));
    close(made);
    return 0;
}

static int complain(const char *command, const char *path, size_t line, const char *why)
{
    if (!command)
        return 0;
    return line ? arguments_complain(command, 0, "%s:%zu: %s", path, line, why)
                : arguments_complain(command, 0, "%s: %s", path, why);
}

/* Fills in what is well formed. Returns 0 if the host is out of memory. */
static int take_facts(struct line *line, const json_t *from)
{
    struct problem problem;
    line->facts = json_take(&line->memory, 1, sizeof *line->facts);
    return line->facts &&
           json_table_read(&finding_facts, from, line->facts, &line->memory, &problem) != CUFENCE_ERROR_OUT_OF_MEMORY;
}

/* Whether it is of `cufence explain` about a dump without an exception. */
static int is_without_finding(const json_t *line)
{
    return json_object_get(line, "dump") && !json_object_get(line, "headline");
}

/* A line of cufence's, by what it is about. Returns 0 if the host is out of memory. */
static int take_line(struct collected *collected, struct line *line)
{
    json_t *of = json_object_get(line->json, "names_of"), *names = json_object_get(line->json, "names");
    int is_of_another = json_is_object(of) && json_is_object(names);
    if (!take_facts(line, is_of_another ? of : line->json))
        return 0;
    const char *kind = line->facts->kind ? line->facts->kind : "";
    /* A kind that is a number, say, or that is not there: it is a finding all the same. */
    if (!*kind && (json_object_get(line->json, "kind") || !is_without_finding(line->json)))
        line->facts->kind = kind = "finding of unknown kind";
    if (is_of_another)
        return add_names(collected, line->facts, names);
    if (!strcmp(kind, KIND_RUN))
        return add_line(&collected->runs, line->json);
    if (!strcmp(kind, KIND_GUARDED))
        return add_guarded(collected, line);
    return !*kind || add(collected, line);
}

static int read_line(struct collected *collected, const char *command, const char *path, size_t number, const char *text,
                     size_t size)
{
    json_error_t error;
    struct line line = {.json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error)};
    int is_ok = 1;
    if (!line.json)
        return complain(command, path, number, error.text);
    json_int_t schema = json_integer_value(json_object_get(line.json, "schema"));
    if (!json_is_object(line.json) || !schema)
        is_ok = complain(command, path, number, "not a finding of cufence: it has no member \"schema\"");
    else if (json_is_array(json_object_get(line.json, "findings")))
        is_ok = complain(command, path, number, "a list of `cufence hunt`; its option --keep keeps the reports for this one");
    else if (schema > JSON_SCHEMA)
        is_ok = complain(command, path, number, "it was written by a newer cufence: this one reads schemas up to 2");
    else if (!take_line(collected, &line))
        is_ok = complain(command, path, number, "the host is out of memory");
    json_memory_free(&line.memory);
    json_decref(line.json);
    return is_ok;
}

int collected_read(struct collected *collected, const char *command, const char *path)
{
    FILE *file = strcmp(path, "-") ? files_open_text(path) : stdin;
    char *line = NULL;
    size_t capacity = 0, number = 0, lines = 0;
    ssize_t size;
    int is_ok = 1;
    if (!file)
        return complain(command, path, 0, strerror(errno));
    while ((size = files_read_until(file, &line, &capacity, '\n')) >= 0) {
        number++;
        size_t blanks = strspn(line, " \t\r\n");
        int is_blank = blanks == (size_t)size;
        if (!lines && !is_blank && !strchr("{[", line[blanks])) { /* nor will what follows be */
            is_ok =
                complain(command, path, 0, "it is not JSON; `cufence run --json FILE` and `cufence explain --json` write that");
            collected->unreadable++;
            break;
        }
        lines += !is_blank;
        if (!is_blank && !read_line(collected, command, path, number, line, (size_t)size)) {
            collected->unreadable++;
            is_ok = 0;
        }
    }
    if (size < 0 && errno)
        is_ok = complain(command, path, errno == EFBIG ? number + 1 : 0,
                         errno == EFBIG ? "it has more than 16 MiB" : strerror(errno));
    else if (is_ok && !lines && !json_array_size(collected->runs))
        is_ok = complain(command, path, 0, "it is empty; a run under cufence would have written a line at its start");
    free(line);
    if (file != stdin)
        fclose(file);
    return is_ok;
}

json_t *collected_json(const struct collected_finding *finding)
{
    json_t *copy = json_copy(finding->first);
    json_object_set_new(copy, "count", json_integer((json_int_t)finding->count));
    json_object_set(copy, "processes", finding->processes);
    if (finding->known)
        json_object_set_new(copy, "known", json_string(known_words[finding->known]));
    return copy;
}

static void free_list(struct collected_finding *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free_one(&list[i]);
    free(list);
}

void collected_free(struct collected *collected)
{
    free_list(collected->findings, collected->count);
    free_list(collected->known, collected->known_count);
    json_decref(collected->runs);
    json_decref(collected->guarded);
    *collected = (struct collected){0};
}
