#include "collected.h"

#include "base/options.h"
#include "base/text.h"
#include "finding/json.h"
#include "finding/short_name.h"
#include "witness/tell.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST_ARGUMENTS 48 /* of a template */

/* ---- facts ---- */

static json_t *member_of(json_t *finding, const char *section, const char *member)
{
    return json_object_get(section ? json_object_get(finding, section) : finding, member);
}

const char *finding_text_of(json_t *finding, const char *section, const char *member)
{
    return json_string_value(member_of(finding, section, member));
}

long long finding_number_of(json_t *finding, const char *section, const char *member)
{
    return json_integer_value(member_of(finding, section, member));
}

/* The first frame of a stack: who called, or who allocated. */
static json_t *frame_of(json_t *holder)
{
    return json_array_get(json_object_get(holder, "frames"), 0);
}

static void put_frame(FILE *out, json_t *frame)
{
    const char *file = json_string_value(json_object_get(frame, "file"));
    const char *function = json_string_value(json_object_get(frame, "function"));
    long long line = json_integer_value(json_object_get(frame, "line"));
    if (file && line)
        fprintf(out, "%s:%lld", file, line);
    else if (file)
        fputs(file, out);
    char name[256];
    if (function && strchr(function, '(')) /* of C++ */
        short_name(function, LONGEST_ARGUMENTS, name, sizeof name);
    if (function)
        fprintf(out, "%s%s", file ? " in " : "in ", strchr(function, '(') ? name : function);
}

static void put_place(FILE *out, json_t *finding)
{
    char kernel[256];
    const struct evidence_site site = {.kernel = finding_text_of(finding, "kernel", "name"),
                                       .symbol = finding_text_of(finding, "kernel", "symbol")};
    const char *file = finding_text_of(finding, "kernel", "file");
    long long line = finding_number_of(finding, "kernel", "line");
    json_t *frame = frame_of(json_object_get(finding, "called"));
    finding_kernel(&site, kernel, sizeof kernel);
    if (file || (frame && json_object_get(frame, "file")))
        fputs("at ", out);
    if (!file && !kernel[0]) {
        put_frame(out, frame);
        return;
    }
    if (file && line)
        fprintf(out, "%s:%lld", file, line);
    else if (file)
        fputs(file, out);
    if (kernel[0])
        fprintf(out, "%s%s", file ? " in " : "in ", kernel);
}

/* Calls put() with a stream onto `out`, which gets what fits. */
static void print_into(char *out, size_t size, void (*put)(FILE *, json_t *), json_t *what)
{
    FILE *stream = fmemopen(out, size, "w");
    out[0] = '\0';
    if (!stream)
        return;
    put(stream, what);
    fclose(stream);
    out[size - 1] = '\0';
}

void finding_place(json_t *finding, char *out, size_t size)
{
    print_into(out, size, put_place, finding);
}

static void put_who(FILE *out, json_t *process)
{
    json_t *rank = json_object_get(process, "rank");
    const char *host = json_string_value(json_object_get(process, "host"));
    if (rank)
        fprintf(out, "rank %lld, ", json_integer_value(rank));
    fprintf(out, "pid %lld", json_integer_value(json_object_get(process, "pid")));
    if (host)
        fprintf(out, " on %s", host);
}

/* The first name of the tensor at the address, or of the first of the buffer's. */
static json_t *tensor_name(json_t *finding)
{
    long long id = finding_number_of(finding, "buffer", "id");
    json_t *buffers = json_object_get(json_object_get(finding, "names"), "buffers"), *buffer, *tensor, *name = NULL;
    size_t i, k;
    json_array_foreach(buffers, i, buffer)
    {
        if (!id || finding_number_of(buffer, NULL, "buffer") != id)
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

void finding_tensor(json_t *finding, char *out, size_t size)
{
    json_t *found = tensor_name(finding);
    const char *name = finding_text_of(found, NULL, "name"), *what = finding_text_of(found, NULL, "what");
    const char *where = finding_text_of(found, NULL, "where");
    out[0] = '\0';
    if (name && what && where && !strcmp(what, "local"))
        snprintf(out, size, "%s in %s", name, where);
    else if (name && what)
        snprintf(out, size, "%s (%s%s%s)", name, what, where ? !strcmp(what, "optimizer state") ? " of " : " in " : "",
                 where ? where : "");
}

void finding_who(json_t *process, char *out, size_t size)
{
    print_into(out, size, put_who, process);
}

/* ---- the same again ---- */

static void put_text(FILE *key, json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));
    fprintf(key, "%s|", text ? text : "");
}

static void put_number(FILE *key, json_t *object, const char *member)
{
    fprintf(key, "%lld|", (long long)json_integer_value(json_object_get(object, member)));
}

/* By source line where it is known: a kernel's code may differ between processes, because Triton compiles for the alignment. */
static void put_code(FILE *key, json_t *code)
{
    put_text(key, code, "file");
    put_number(key, code, json_object_get(code, "file") ? "line" : "offset");
}

static void put_frames(FILE *key, json_t *frames)
{
    size_t i;
    json_t *each;
    json_array_foreach(frames, i, each)
    {
        put_text(key, each, "function");
        put_code(key, each);
    }
}

/* As witness/ compares them in one process (finding/identity.h): the kind, the place, and where the buffer was allocated, or
 * what one place allocates again and again. */
static char *key_of(json_t *finding)
{
    json_t *kernel = json_object_get(finding, "kernel"), *buffer = json_object_get(finding, "buffer");
    json_t *allocated = json_object_get(json_object_get(buffer, "allocated"), "frames");
    char *key = NULL;
    size_t size;
    FILE *out = open_memstream(&key, &size);
    if (!out)
        return NULL;
    put_text(out, finding, "kind");
    put_text(out, finding, "call");
    put_number(out, json_object_get(finding, "exception"), "number");
    put_text(out, kernel, "symbol");
    put_code(out, kernel);
    put_frames(out, json_object_get(json_object_get(finding, "called"), "frames"));
    put_text(out, buffer, "label");
    if (json_array_size(allocated))
        put_frames(out, allocated);
    else
        put_number(out, buffer, "size");
    return fclose(out) ? NULL : key;
}

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

/* Takes the key. Returns NULL when the host is out of memory. */
static struct collected_finding *append(struct collected_finding **list, size_t *count, json_t *first, char *key)
{
    struct collected_finding *grown = realloc(*list, (*count + 1) * sizeof *grown);
    if (!grown) {
        free(key);
        return NULL;
    }
    *list = grown;
    grown[*count] = (struct collected_finding){json_incref(first), key, 0, 0, json_array(), KNOWN_NOT};
    return &grown[(*count)++];
}

/* By the program's own options, or by the caller's lists. */
static enum known how_known(const struct collected *collected, json_t *finding)
{
    const char *word = finding_text_of(finding, NULL, "known");
    for (enum known as = KNOWN_SUPPRESSED; word && as <= KNOWN_BASELINE; as++)
        if (!strcmp(word, known_words[as]))
            return as;
    return collected->names ? known_as(collected->names, finding_text_of(finding, NULL, "finding_name")) : KNOWN_NOT;
}

static int add(struct collected *collected, json_t *finding)
{
    json_t *process = json_object_get(finding, "process");
    char *key = key_of(finding);
    enum known as = how_known(collected, finding);
    struct collected_finding **list = as ? &collected->known : &collected->findings;
    size_t *count = as ? &collected->known_count : &collected->count;
    struct collected_finding *found = key ? find(*list, *count, key) : NULL;
    if (found)
        free(key);
    else if (!key || (found = append(list, count, finding, key)) == NULL)
        return 0;
    found->count++;
    found->tags |= 1u << collected->tag;
    found->known = as;
    collected->reports += !as;
    return !process || has_equal(found->processes, process) || json_array_append(found->processes, process) == 0;
}

/* ---- what was run ---- */

static int add_line(json_t **lines, json_t *line)
{
    if (!*lines)
        *lines = json_array();
    return json_array_append(*lines, line) == 0;
}

void collected_begin(struct collected *collected, char *const *command)
{
    char time_text[32];
    process_open();
    struct finding_process process = process_now(time_text);
    const struct finding_origin origin = {.pid = (int)getpid(), .rank = options_rank(), .process = &process};
    char *line = json_of_run(&origin);
    json_t *run = line ? json_loads(line, 0, NULL) : NULL, *words = json_array();
    for (; command && *command; command++)
        json_array_append_new(words, text_to_json(*command));
    json_object_set(json_object_get(run, "process"), "command", words);
    add_line(&collected->runs, run);
    json_decref(words);
    json_decref(run);
    free(line);
}

struct collected_guarded collected_guarded(const struct collected *collected)
{
    struct collected_guarded all = {.is_known = json_array_size(collected->runs) || json_array_size(collected->guarded)};
    json_t *line;
    size_t i;
    json_array_foreach(collected->guarded, i, line)
    {
        long long allocations = finding_number_of(line, "guarded", "allocations");
        all.allocations += allocations;
        all.processes += allocations > 0;
    }
    return all;
}

void collected_say_guarded(const struct collected *collected, char *out, size_t size)
{
    const struct collected_guarded all = collected_guarded(collected);
    out[0] = '\0';
    if (all.allocations)
        snprintf(out, size, "; %lld allocation%s guarded by %lld process%s", all.allocations, all.allocations == 1 ? "" : "s",
                 all.processes, all.processes == 1 ? "" : "es");
    else if (collected->count || collected->known_count) /* of a process that was killed before it could say what it guarded */
        return;
    else if (json_array_size(collected->guarded))
        snprintf(out, size, "; NOTHING WAS GUARDED: every allocation was left to the driver, or there was none");
    else if (all.is_known)
        snprintf(out, size, "; NOTHING WAS GUARDED: no process that used CUDA has ended");
}

/* What Python knows of a finding's tensors follows in a line of its own. Another report of the same finding may have been the
 * first: then its names stay, if it has some. Returns 0 if the host is out of memory. */
static int add_names(struct collected *collected, json_t *of, json_t *names)
{
    for (size_t i = 0; i < collected->count; i++) {
        json_t *first = collected->findings[i].first;
        if (finding_number_of(first, "process", "pid") == finding_number_of(of, "process", "pid") &&
            json_equal(json_object_get(first, "time"), json_object_get(of, "time")) &&
            json_equal(json_object_get(first, "headline"), json_object_get(of, "headline")))
            return json_object_set(first, "names", names) == 0;
    }
    return 1;
}

/* ---- files ---- */

static int complain(const char *command, const char *path, size_t line, const char *why)
{
    if (!command)
        return 0;
    if (line)
        fprintf(stderr, "cufence %s: %s:%zu: %s\n", command, path, line, why);
    else
        fprintf(stderr, "cufence %s: %s: %s\n", command, path, why);
    return 0;
}

static int read_line(struct collected *collected, const char *command, const char *path, size_t number, const char *line)
{
    json_error_t error;
    json_t *finding = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    int is_well = 1;
    if (!finding)
        return complain(command, path, number, error.text);
    const char *kind = finding_text_of(finding, NULL, "kind");
    long long schema = finding_number_of(finding, NULL, "schema");
    if (!json_is_object(finding) || !schema)
        is_well = complain(command, path, number, "not a finding of cufence: it has no member \"schema\"");
    else if (schema > JSON_SCHEMA)
        is_well = complain(command, path, number, "it was written by a newer cufence: this one reads schemas up to 2");
    else if (json_is_object(json_object_get(finding, "names_of")) && json_is_object(json_object_get(finding, "names")))
        is_well = add_names(collected, json_object_get(finding, "names_of"), json_object_get(finding, "names")) ||
                  complain(command, path, number, "the host is out of memory");
    else if (kind && !strcmp(kind, KIND_RUN))
        is_well = add_line(&collected->runs, finding) || complain(command, path, number, "the host is out of memory");
    else if (kind && !strcmp(kind, KIND_GUARDED))
        is_well = add_line(&collected->guarded, finding) || complain(command, path, number, "the host is out of memory");
    else if (kind && strcmp(kind, "use") != 0)
        is_well = add(collected, finding) || complain(command, path, number, "the host is out of memory");
    json_decref(finding);
    return is_well;
}

int collected_read(struct collected *collected, const char *command, const char *path)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "re") : stdin;
    char *line = NULL;
    size_t capacity = 0, number = 0, lines = 0;
    int is_well = 1;
    if (!file)
        return complain(command, path, 0, strerror(errno));
    errno = 0;
    while (getline(&line, &capacity, file) >= 0) {
        number++;
        int is_blank = !line[strspn(line, " \t\r\n")];
        lines += !is_blank;
        if (!is_blank && !read_line(collected, command, path, number, line)) {
            collected->unreadable++;
            is_well = 0;
        }
        errno = 0;
    }
    if (ferror(file))
        is_well = complain(command, path, 0, strerror(errno ? errno : EIO));
    else if (!lines && !json_array_size(collected->runs))
        is_well = complain(command, path, 0, "it is empty; a run under cufence would have written a line at its start");
    free(line);
    if (file != stdin)
        fclose(file);
    return is_well;
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
    for (size_t i = 0; i < count; i++) {
        json_decref(list[i].first);
        json_decref(list[i].processes);
        free(list[i].key);
    }
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
