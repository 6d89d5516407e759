#include "collected.h"

#include "finding/finding.h"
#include "finding/short_name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static struct collected_finding *find(struct collected *collected, const char *key)
{
    for (size_t i = 0; i < collected->count; i++)
        if (!strcmp(collected->findings[i].key, key))
            return &collected->findings[i];
    return NULL;
}

/* Takes the key. Returns NULL when the host is out of memory. */
static struct collected_finding *append(struct collected *collected, json_t *first, char *key)
{
    struct collected_finding *grown = realloc(collected->findings, (collected->count + 1) * sizeof *grown);
    if (!grown) {
        free(key);
        return NULL;
    }
    collected->findings = grown;
    grown[collected->count] = (struct collected_finding){json_incref(first), key, 0, 0, json_array()};
    return &grown[collected->count++];
}

static int add(struct collected *collected, json_t *finding)
{
    json_t *process = json_object_get(finding, "process");
    char *key = key_of(finding);
    struct collected_finding *known = key ? find(collected, key) : NULL;
    if (known)
        free(key);
    else if (!key || (known = append(collected, finding, key)) == NULL)
        return 0;
    known->count++;
    known->tags |= 1u << collected->tag;
    collected->reports++;
    return !process || has_equal(known->processes, process) || json_array_append(known->processes, process) == 0;
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
    long long schema = finding_number_of(finding, NULL, "schema");
    if (!json_is_object(finding) || !schema)
        is_well = complain(command, path, number, "it is no finding of cufence's (it has no member \"schema\")");
    else if (schema != 1)
        is_well = complain(command, path, number, "it is of a newer cufence: this one knows schema 1");
    else if (json_is_object(json_object_get(finding, "names_of")) && json_is_object(json_object_get(finding, "names")))
        is_well = add_names(collected, json_object_get(finding, "names_of"), json_object_get(finding, "names")) ||
                  complain(command, path, number, "the host is out of memory");
    else if (finding_text_of(finding, NULL, "kind") && strcmp(finding_text_of(finding, NULL, "kind"), "use") != 0)
        is_well = add(collected, finding) || complain(command, path, number, "the host is out of memory");
    json_decref(finding);
    return is_well;
}

int collected_read(struct collected *collected, const char *command, const char *path)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "re") : stdin;
    char *line = NULL;
    size_t capacity = 0, number = 0;
    int is_well = 1;
    if (!file)
        return complain(command, path, 0, strerror(errno));
    errno = 0;
    while (getline(&line, &capacity, file) >= 0) {
        number++;
        if (line[strspn(line, " \t\r\n")])
            if (!read_line(collected, command, path, number, line)) {
                collected->unreadable++;
                is_well = 0;
            }
        errno = 0;
    }
    if (ferror(file))
        is_well = complain(command, path, 0, strerror(errno ? errno : EIO));
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
    return copy;
}

void collected_free(struct collected *collected)
{
    for (size_t i = 0; i < collected->count; i++) {
        json_decref(collected->findings[i].first);
        json_decref(collected->findings[i].processes);
        free(collected->findings[i].key);
    }
    free(collected->findings);
    *collected = (struct collected){0};
}
