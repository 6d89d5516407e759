/* The reports of several processes and modes, each finding once. */
#include "hunt.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- which are the same ---- */

static void put_text(FILE *key, const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));
    fprintf(key, "%s|", text ? text : "");
}

static void put_number(FILE *key, const json_t *object, const char *member)
{
    fprintf(key, "%lld|", (long long)json_integer_value(json_object_get(object, member)));
}

static void put_frames(FILE *key, const json_t *frames)
{
    size_t i;
    json_t *frame;
    json_array_foreach(frames, i, frame)
    {
        put_text(key, frame, "function");
        put_text(key, frame, "file");
        put_number(key, frame, json_object_get(frame, "file") ? "line" : "offset");
    }
}

/* The source line if there is one: the code may differ between the modes, because Triton compiles for the alignment. */
static void put_kernel(FILE *key, const json_t *kernel)
{
    put_text(key, kernel, "symbol");
    put_text(key, kernel, "file");
    put_number(key, kernel, json_object_get(kernel, "file") ? "line" : "offset");
}

/* Where the buffer was allocated; without a stack, what one place allocates again and again. */
static void put_buffer(FILE *key, const json_t *buffer)
{
    const json_t *frames = json_object_get(json_object_get(buffer, "allocated"), "frames");
    put_text(key, buffer, "label");
    if (json_array_size(frames))
        put_frames(key, frames);
    else
        put_number(key, buffer, "size");
}

/* The same words for the same finding; NULL without memory. */
static char *key_of(const json_t *report)
{
    char *key = NULL;
    size_t size;
    FILE *out = open_memstream(&key, &size);
    if (!out)
        return NULL;
    put_text(out, report, "kind");
    put_text(out, report, "call");
    put_number(out, json_object_get(report, "exception"), "number");
    put_kernel(out, json_object_get(report, "kernel"));
    put_frames(out, json_object_get(json_object_get(report, "called"), "frames"));
    put_buffer(out, json_object_get(report, "buffer"));
    if (fclose(out) == 0)
        return key;
    free(key);
    return NULL;
}

/* Takes `report` over. Returns 0 without memory. */
static int add(struct merged *merged, json_t *report, unsigned mode)
{
    char *key = key_of(report);
    struct merged_finding *grown = key ? realloc(merged->all, (merged->count + 1) * sizeof *grown) : NULL;
    if (grown)
        merged->all = grown;
    for (size_t i = 0; grown && i < merged->count; i++) {
        struct merged_finding *known = &merged->all[i];
        if (strcmp(known->key, key) != 0)
            continue;
        known->modes |= 1u << mode;
        known->reports++;
        json_decref(report);
        free(key);
        return 1;
    }
    if (!grown) {
        json_decref(report);
        free(key);
        return 0;
    }
    merged->all[merged->count++] = (struct merged_finding){key, report, 1u << mode, 1};
    return 1;
}

/* ---- files ---- */

/* "end.4242.json" */
static int is_of_mode(const char *name, unsigned mode)
{
    static const char end[] = ".json";
    size_t length = strlen(name), prefix = strlen(modes[mode].name);
    return length > prefix + sizeof end && !strncmp(name, modes[mode].name, prefix) && name[prefix] == '.' &&
           !strcmp(name + length - strlen(end), end);
}

static int read_lines(struct merged *merged, FILE *file, unsigned mode)
{
    char *line = NULL;
    size_t capacity = 0;
    int is_well = 1;
    while (is_well && getline(&line, &capacity, file) >= 0) {
        if (line[0] == '\n') /* the library begins anew after a line that the disk cut short */
            continue;
        json_t *report = json_loads(line, 0, NULL);
        if (json_is_string(json_object_get(report, "kind"))) {
            is_well = add(merged, report, mode);
        } else {
            json_decref(report);
            merged->unreadable++;
        }
    }
    free(line);
    return is_well;
}

int merged_read(struct merged *merged, const char *folder, unsigned mode)
{
    struct dirent **entries;
    int is_well = 1, count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX + 256];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        FILE *file = is_of_mode(entries[i]->d_name, mode) ? fopen(path, "re") : NULL;
        if (file) {
            is_well = is_well && read_lines(merged, file, mode);
            fclose(file);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return is_well;
}

int merged_is_any(const char *folder, unsigned mode, int is_filled)
{
    struct stat found;
    int is_any = 0;
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && !is_any && (entry = readdir(entries));)
        is_any = is_of_mode(entry->d_name, mode) &&
                 (!is_filled || (fstatat(dirfd(entries), entry->d_name, &found, 0) == 0 && found.st_size > 0));
    if (entries)
        closedir(entries);
    return is_any;
}

/* ---- the list ---- */

size_t merged_by(const struct merged *merged, unsigned mode)
{
    size_t count = 0;
    for (size_t i = 0; i < merged->count; i++)
        count += (merged->all[i].modes >> mode) & 1;
    return count;
}

void merged_free(struct merged *merged)
{
    for (size_t i = 0; i < merged->count; i++) {
        free(merged->all[i].key);
        json_decref(merged->all[i].report);
    }
    free(merged->all);
    *merged = (struct merged){0};
}
