#include "option_value.h"

#include <string.h>

static size_t begins_with(const char *value, size_t length, const char *word)
{
    size_t of_word = strlen(word);
    return length >= of_word && !memcmp(value, word, of_word) ? of_word : 0;
}

int set_guard(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    if (!option_set_parts(row, value, length, options))
        return 0;
    if (options->guard_max < options->guard && !memmem(value, length, row->joint, strlen(row->joint)))
        options->guard_max = options->guard;
    return options->guard_max >= options->guard;
}

int set_skip(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    static const char smaller[] = "smaller:";
    char rules[sizeof options->skip] = "";
    const char *bytes = row->rest->default_value;
    size_t used = 0, of_bytes = strlen(bytes), part;
    for (size_t at = 0; at < length; at += part + 1) {
        const char *semicolon = memchr(value + at, ';', length - at);
        part = semicolon ? (size_t)(semicolon - value) - at : length - at;
        if (begins_with(value + at, part, smaller)) {
            bytes = value + at + strlen(smaller);
            of_bytes = part - strlen(smaller);
        } else {
            if (used + part + 2 > sizeof rules)
                return 0;
            used += (size_t)snprintf(rules + used, sizeof rules - used, "%s%.*s", used ? ";" : "", (int)part, value + at);
        }
    }
    return option_set_field(row->rest, bytes, of_bytes, options) && option_set_field(row, rules, used, options);
}

int set_on_fault(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    return *row->joint == *value && length ? option_set(row->rest, value + 1, length - 1, options)
                                           : option_set_parts(row, value, length, options);
}

/* ---- with a file's name ---- */

static const char only_dump[] = "dump=", only_replay[] = "replay=";

int set_keep(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    size_t dump = begins_with(value, length, only_dump), replay = begins_with(value, length, only_replay);
    const char *folder = value + dump + replay;
    size_t left = length - dump - replay;
    const char *limit = memchr(folder, ';', left);
    size_t of_name = limit ? (size_t)(limit - folder) : left;
    if (of_name == 0 && length > 0)
        return 0;
    return option_set_field(row, folder, replay ? 0 : of_name, options) && option_set(row->rest, folder, left, options) &&
           (!dump || option_set_field(row->rest, "", 0, options));
}

int set_save_values(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    return option_set_parts(row, value, length, options) && !*options->save_values == !*options->saved;
}

const char *option_path_in(const struct option_row *row, const char *value)
{
    const char *equals = strchr(value, '=');
    if (row->set == set_keep)
        return value + begins_with(value, strlen(value), only_dump) + begins_with(value, strlen(value), only_replay);
    return row->type == OPTION_PATH ? value : row->type == OPTION_FILTER && equals ? equals + 1 : NULL;
}
