/*
 * The library's options as a command line gives them: --set key=value, --KEY VALUE and --preset NAME, merged into one text.
 *
 * The functions that return an int return 0, or the exit status after a message on stderr that begins with the sub-command.
 * Thread safety: none needed; nothing global.
 */
#ifndef CUFENCE_CLI_SETTINGS_H
#define CUFENCE_CLI_SETTINGS_H

#include "base/options.h"

struct setting {
    char source[32]; /* names it in messages: "--set", "CUFENCE_OPTIONS" */
    char *text;      /* "key=value,...", owned; NULL if the source gives none */
};

struct settings {
    const char *command; /* the sub-command's name, for messages */
    struct setting *all; /* in order: the last one wins */
    size_t count;
};

/* Sets of options by name. */
struct preset {
    const char *name;
    const char *options;
    const char *help; /* what it is for */
};
extern const struct preset presets[];
enum { PRESETS = 3 };
#define PRESET_NAMES "fast thorough production"

/* Appends `text` as it is; NULL is fine. */
int settings_add(struct settings *settings, const char *source, const char *text);

/* Appends key=value, as `source` (--KEY) gives it. A file's name is made whole, because the program may change its folder, but
 * is left as it is if the whole name would be too long or hold a comma or a percent sign of the folder's. */
int settings_take(struct settings *settings, const char *source, const char *key, const char *value);

/* Appends what an option of arguments_next() says that stands for row `row` of options_table(), with its value. */
int settings_take_row(struct settings *settings, size_t row, const char *value);

/* Puts the options of a preset in front of all settings from `place` on. Errors: an unknown name. */
int settings_preset(struct settings *settings, size_t place, const char *name);

/* All settings as one text, to be freed; NULL without memory. */
char *settings_text(const struct settings *settings);

/* Fills in *options, which holds the defaults, as the program will. The message names the setting that is wrong. */
int settings_check(const struct settings *settings, struct options *options);

void settings_free(struct settings *settings);

#endif
