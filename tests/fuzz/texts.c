/* Targets that read a user's text, and names. */
#include "fuzz.h"

#include "../support/option_text.h"
#include "analysis/verdict/signature.h"
#include "base/error.h"
#include "base/options.h"
#include "cli/alloc_conf.h"

#include <ctype.h>

/* ---- alloc_conf ---- */

/* PYTORCH_CUDA_ALLOC_CONF as typed by a user. Wrong entries for cufence are refused with a sentence. Otherwise the output
 * has no blanks, begins with the back end, and is unchanged by a second pass; the options go to the option parser, as in
 * `cufence run`. */
#define BEGINNING "backend:cudaMallocAsync"

FUZZ(alloc_conf)
{
    struct alloc_conf conf, again;
    struct options options;
    char *text = text_of(data, size);
    if (alloc_conf_rewrite(text, "fuzz", &conf) != CUFENCE_OK) {
        require(strncmp(error_detail(), "fuzz: ", strlen("fuzz: ")) == 0 && !conf.text);
        free(text);
        return 0;
    }
    require(strncmp(conf.text, BEGINNING, strlen(BEGINNING)) == 0 && conf.options);
    for (const char *at = conf.text; *at; at++)
        require(!isspace((unsigned char)*at));
    require(alloc_conf_rewrite(conf.text, "fuzz", &again) == CUFENCE_OK);
    require(strcmp(again.text, conf.text) == 0 && !*again.options && strcmp(again.backend, "cudaMallocAsync") == 0);
    options_default(&options);
    (void)options_parse(&options, conf.options, "fuzz");
    alloc_conf_free(&conf);
    alloc_conf_free(&again);
    free(text);
    return 0;
}

/* ---- options ---- */

/* Hostile option strings: an accepted string must be the same after it is written back and parsed again. */
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

FUZZ(options)
{
    char *text = text_of(data, size), path[300];
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

/* ---- signature ---- */

/* A kernel name from a cubin's symbol table, demangled or not: its argument list. The input: the number of arguments, and
 * the name. */
FUZZ(signature)
{
    if (size < 1)
        return 0;
    size_t count = data[0] % 16u;
    char *name = text_of(data + 1, size - 1);
    int last = 0;
    for (size_t i = 0; i <= count; i++)
        last = signature_is_const(name, count, i);
    require(!last); /* there is no such argument */
    free(name);
    return 0;
}
