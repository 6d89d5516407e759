/*
 * The library's options as a command line gives them: --set key=value, --KEY VALUE and --preset NAME, merged into one text.
 *
 * The functions that return an int return 0, or the exit status after a message on stderr that begins with the sub-command.
 * Thread safety: none needed; nothing global.
 */
#pragma once

#include "command_line.h"
#include "base/options.h"

struct setting {
    char source[32]; /* names it in messages: "--set", "CUFENCE_OPTIONS" */
    char *text;      /* "key=value,...", owned */
};

struct settings {
    const char *command; /* the sub-command's name, for messages */
    struct setting *all; /* in order: the last one wins */
    size_t count;
    size_t presets; /* the index behind the inherited settings and the presets, which all others follow */
};

/* Puts `text` at that place as it is; NULL is the same as "". */
int settings_insert(struct settings *settings, size_t place, const char *source, const char *text);

/* As takers of arguments and of rows of options_table(); the field is a struct settings. */
int settings_take_row(void *settings, size_t row, const char *value);
argument_taker settings_take_set, settings_take_key, settings_take_status, settings_take_preset;

/* The options of every sub-command that takes the library's. */
#define SETTINGS_SET "set", "key=value", "options that `cufence options` lists; several with commas", .take = settings_take_set
#define SETTINGS_PRESET "preset", "NAME", "options for a purpose; --KEY and --set win over them", .take = settings_take_preset
#define SETTINGS_ROWS(type) .take_row = settings_take_row, .settings = offsetof(type, settings)

/* Lists the presets, for --help. */
void settings_print_presets(FILE *out);

/* All settings as one text, to be freed; NULL without memory. */
char *settings_text(const struct settings *settings);

/* Fills in *options, which holds the defaults, as the program will. The message names the setting that is wrong. */
int settings_check(const struct settings *settings, struct options *options);

void settings_free(struct settings *settings);
