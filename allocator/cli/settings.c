#include "settings.h"
#include "command_line.h"
#include "base/error.h"
#include "base/list.h"
#include "base/option_value.h"
#include "base/text.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* docs/run.md says what each is for and costs. */
static const struct preset {
    const char *name;
    const char *options;
    const char *help; /* what it is for */
} presets[] = {
    {"fast", "uaf=adaptive,align=16,side=end,stacks=on,slack=on",
     "the defaults: ends of buffers and some frees, at nearly the program's own speed"},
    {"thorough", "uaf=strict,align=auto,slack=on,remember=262144/16384,wait_ms=60000",
     "finds more: every byte and every use after free; slower, and remembers more for reports"},
    {"production", "uaf=off,slack=off,align=16,on_fault=error/0,wait_ms=1000,say=quiet",
     "for services: the program keeps its exit status and exits fast; few messages"},
};

static int no_memory(const struct settings *settings)
{
    return arguments_complain(settings->command, STATUS_UNFIT, "no host memory");
}

/* Takes `text` over. */
static int insert(struct settings *settings, size_t place, const char *source, char *text)
{
    if (!list_make_room(&settings->all, settings->count, sizeof *settings->all)) {
        free(text);
        return no_memory(settings);
    }
    struct setting *at = settings->all + place;
    memmove(at + 1, at, (settings->count++ - place) * sizeof *at);
    snprintf(at->source, sizeof at->source, "%s", source);
    at->text = text;
    return 0;
}

int settings_insert(struct settings *settings, size_t place, const char *source, const char *text)
{
    char *copy = strdup(text ? text : "");
    return copy ? insert(settings, place, source, copy) : no_memory(settings);
}

/* Appends key=value, as --NAME gives it. A file's name is made whole, because the program may change its folder, but
 * is left as it is if the whole name would be too long or hold a comma or a percent sign of the folder's. */
static int take(struct settings *settings, const char *name, const char *key, const char *value)
{
    char source[sizeof settings->all->source], folder[PATH_MAX] = "", *text = NULL;
    int is_exact;
    const struct option_row *row = options_find(key, strlen(key), &is_exact);
    const char *path = is_exact ? option_path_in(row, value) : NULL;
    int is_path = path != NULL;
    snprintf(source, sizeof source, "--%s", name);
    if (strchr(value, ',') || (is_path && !*value))
        return arguments_complain(settings->command, STATUS_USAGE, "%s: the %s \"%s\" is %s", source,
                                  is_path ? "file name" : "value", value, *value ? "not possible: it holds a comma" : "empty");
    if (is_path && *path && path[0] != '/' && strcmp(path, "-") != 0 &&
        (!getcwd(folder, sizeof folder) || strlen(folder) + strlen(value) + 2 > row->maximum || strpbrk(folder, ",%")))
        folder[0] = '\0';
    if (asprintf(&text, "%s=%.*s%s%s%s", key, path ? (int)(path - value) : 0, value, folder, folder[0] ? "/" : "",
                 path ? path : value) < 0)
        return no_memory(settings);
    return insert(settings, settings->count, source, text);
}

int settings_take_row(void *settings, size_t row, const char *value)
{
    size_t rows;
    const char *key = options_table(&rows)[row].name;
    return take(settings, key, key, value);
}

int settings_take_set(const struct given *given, void *field)
{
    struct settings *settings = field;
    return settings_insert(settings, settings->count, "--set", given->value);
}

int settings_take_key(const struct given *given, void *field)
{
    return take(field, given->argument->name, given->argument->key, given->value);
}

int settings_take_status(const struct given *given, void *field)
{
    char value[32];
    snprintf(value, sizeof value, "/%s", given->value);
    return take(field, given->argument->name, "on_fault", value);
}

int settings_take_preset(const struct given *given, void *field)
{
    struct settings *settings = field;
    size_t edits, count = sizeof presets / sizeof *presets;
    size_t nearest = text_nearest(given->value, strlen(given->value), presets, sizeof *presets, count, &edits);
    if (edits == 0)
        return settings_insert(settings, settings->presets++, "--preset", presets[nearest].options);
    arguments_complain(settings->command, 0, "--preset: \"%s\" is not allowed;%s%s%s one of", given->value,
                       nearest < count ? " did you mean " : "", nearest < count ? presets[nearest].name : "",
                       nearest < count ? "? Use" : " use");
    settings_print_presets(stderr);
    return STATUS_USAGE;
}

void settings_print_presets(FILE *out)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        int indent = fprintf(out, "  %-10s  ", presets[i].name);
        words_print_within(out, presets[i].help, (size_t)indent, WORDS_HELP);
    }
}

/* The length of an option text without the trailing comma that options_parse() allows. */
static size_t length_of(const char *text)
{
    size_t length = text ? strlen(text) : 0;
    while (length && strchr(", \t", text[length - 1]))
        length--;
    return length;
}

char *settings_text(const struct settings *settings)
{
    char *merged = NULL;
    size_t size;
    FILE *out = open_memstream(&merged, &size);
    if (!out)
        return NULL;
    for (size_t i = 0; i < settings->count; i++) {
        const char *text = settings->all[i].text;
        int length = (int)length_of(text);
        if (length > 0)
            fprintf(out, "%s%.*s", ftell(out) > 0 ? "," : "", length, text);
    }
    if (fclose(out) == 0)
        return merged;
    free(merged);
    return NULL;
}

int settings_check(const struct settings *settings, struct options *options)
{
    struct stat known;
    for (size_t i = 0; i < settings->count; i++)
        if (options_parse(options, settings->all[i].text, settings->all[i].source) != CUFENCE_OK)
            return arguments_complain(settings->command, STATUS_USAGE, "%s", error_detail());
    if (options->known[0] && stat(options->known, &known) == 0 && S_ISFIFO(known.st_mode))
        return arguments_complain(settings->command, STATUS_USAGE,
                                  "known=%s: it is a pipe, which can be read once, and each process reads it; name a file",
                                  options->known);
    return 0;
}

void settings_free(struct settings *settings)
{
    for (size_t i = 0; i < settings->count; i++)
        free(settings->all[i].text);
    free(settings->all);
    *settings = (struct settings){0};
}
