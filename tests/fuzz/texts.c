/* Targets that read a user's text, and names; and the writer of all text. */
#include "fuzz.h"

#include "../support/option_text.h"
#include "analysis/verdict/signature.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "cli/alloc_conf.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>

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
        require(option_set(&rows[i], (struct option_text){rows[i].default_value, strlen(rows[i].default_value)}, &again));
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

/* ---- text ---- */

/* By another way than the writer's: jansson knows UTF-8, and these sequences are controls, directions and zero widths. */
static int is_plain(const char *text)
{
    static const char *const hidden[] = {"\x7f",         "\xc2\xad",     "\xd8\x9c",     "\xe2\x80\x8b", "\xe2\x80\x8f",
                                         "\xe2\x80\xa8", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9", "\xef\xbb\xbf"};
    json_t *string = json_string(text);
    int is_ok = string != NULL;
    json_decref(string);
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        is_ok &= !strstr(text, hidden[i]);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        is_ok &= *at >= ' ' && !(at[0] == 0xc2 && at[1] < 0xa0);
    return is_ok;
}

/* Whatever a name holds: a terminal gets what is plain, JSON means the same, and is plain. The input: how many bytes there
 * are for the text, and the text. */
FUZZ(text)
{
    if (size < 1)
        return 0;
    char *text = text_of(data + 1, size - 1), *plain = strdup(text), *put = NULL, cut[256] = "";
    size_t room = data[0] + 1u, length;
    FILE *out = open_memstream(&put, &length);
    require(plain && out);
    text_make_plain(plain);
    text_put(out, text);
    require(fclose(out) == 0 && !strcmp(put, plain) && is_plain(plain) && strlen(plain) <= strlen(text));
    text_make_plain(put);
    require(!strcmp(put, plain));
    require(text_format(cut, room, "%s", plain) == strlen(cut) && is_plain(cut));
    require(!strncmp(cut, plain, strlen(cut)) && (strlen(cut) + 4 > room - 1 || !strcmp(cut, plain)));
    json_t *string = text_to_json(text), *again;
    char *json = text_of_json(json_incref(string), JSON_ENCODE_ANY);
    for (const char *at = json; *at; at++)
        require(*at != '\n' || !at[1]);
    again = json_loads(json, JSON_DECODE_ANY, NULL);
    require(json_equal(string, again));
    json[strlen(json) - 1] = '\0';
    require(is_plain(json));
    json_decref(string);
    json_decref(again);
    free(json);
    free(text);
    free(plain);
    free(put);
    return 0;
}
