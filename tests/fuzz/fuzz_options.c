/* Hostile option strings: an accepted string must be the same after it is written back and parsed again. */
#include "fuzz.h"

#include "base/error.h"
#include "base/options.h"
#include "../support/option_text.h"

static void round_trip(const struct options *options)
{
    size_t count, used = 0;
    const struct option_row *rows = options_table(&count);
    char text[2048] = "";
    struct options again = *options; /* what merged options and internal ones have set */
    for (size_t i = 0; i < count; i++) {
        if (rows[i].set || rows[i].rest)
            continue;
        require(option_set(&rows[i], rows[i].default_value, strlen(rows[i].default_value), &again));
        char value[sizeof options->log];
        option_text(options, &rows[i], value, sizeof value);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s=%s,", rows[i].name, value);
    }
    require(used < sizeof text);
    require(options_parse(&again, text, "fuzz") == CUFENCE_OK);
    require(!memcmp(&again, options, offsetof(struct options, log)) && !strcmp(again.log, options->log));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = text_of(bytes, size), path[300];
    struct options options;
    options_default(&options);
    if (options_parse(&options, text, "fuzz") == CUFENCE_OK)
        round_trip(&options);
    else
        require(error_detail()[0] != '\0');
    if (options_expand_path(text, path, sizeof path) == CUFENCE_OK)
        require(strlen(path) < sizeof path);
    free(text);
    return 0;
}
