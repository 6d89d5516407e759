#include "cli/alloc_conf.h"
#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BENEATH "cudaMallocAsync" /* PyTorch's back end under cufence: it asks the driver for exact sizes */
#define BACKEND "backend:" BENEATH
#define PREFIX "cufence_"

/* A piece of the text; not NUL-terminated. */
struct piece {
    const char *start;
    size_t length;
};

static struct piece trim(struct piece piece)
{
    while (piece.length && isspace((unsigned char)piece.start[0])) {
        piece.start++;
        piece.length--;
    }
    while (piece.length && isspace((unsigned char)piece.start[piece.length - 1]))
        piece.length--;
    return piece;
}

/* Returns the rest of `piece` after `word`, ignoring blanks, which PyTorch skips. start is NULL if `piece` does not begin with
 * `word`. */
static struct piece behind(struct piece piece, const char *word)
{
    for (; *word; word++) {
        while (piece.length && isspace((unsigned char)piece.start[0])) {
            piece.start++;
            piece.length--;
        }
        if (!piece.length || piece.start[0] != *word)
            return (struct piece){NULL, 0};
        piece.start++;
        piece.length--;
    }
    return piece;
}

/* Returns the length of the entry at `at`, up to the next comma outside a list. Lists do not nest. */
static size_t entry_length(const char *at)
{
    size_t length = 0;
    for (int in_list = 0; at[length] && (in_list || at[length] != ','); length++) {
        if (at[length] == '[')
            in_list = 1;
        else if (at[length] == ']')
            in_list = 0;
    }
    return length;
}

/* Copies an entry without its blanks, which PyTorch skips. */
static void write_entry(FILE *out, struct piece entry)
{
    fputc(',', out);
    for (size_t i = 0; i < entry.length; i++)
        if (!isspace((unsigned char)entry.start[i]))
            fputc(entry.start[i], out);
}

/* ---- what is meant for cufence ---- */

/* A piece of the user's text, for messages. */
#define SHOWN(piece) (int)((piece).length < 200 ? (piece).length : 200), (piece).start

/* State of one rewrite. */
struct rewriting {
    const char *name; /* the variable's */
    FILE *text, *options;
    char *backend; /* owned; the last one so far */
};

static cufence_status no_memory(const char *name)
{
    return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no host memory for the settings of %s", name);
}

static cufence_status read_option(struct rewriting *rewriting, struct piece key, struct piece value)
{
    if (!key.length || !value.length)
        return error_set(CUFENCE_ERROR_OPTION,
                         "%s: '" PREFIX "%.*s:%.*s' is not of the form " PREFIX "KEY:value, for example " PREFIX "uaf:strict",
                         rewriting->name, SHOWN(key), SHOWN(value));
    if (memchr(value.start, ',', value.length))
        return error_set(CUFENCE_ERROR_OPTION,
                         "%s: " PREFIX "%.*s: the value '%.*s' holds a comma, which an option's value cannot", rewriting->name,
                         SHOWN(key), SHOWN(value));
    fprintf(rewriting->options, "%s%.*s=%.*s", ftell(rewriting->options) > 0 ? "," : "", (int)key.length, key.start,
            (int)value.length, value.start);
    return CUFENCE_OK;
}

static char *without_blanks(struct piece piece)
{
    char *copy = malloc(piece.length + 1);
    size_t length = 0;
    for (size_t i = 0; copy && i < piece.length; i++)
        if (!isspace((unsigned char)piece.start[i]))
            copy[length++] = piece.start[i];
    if (copy)
        copy[length] = '\0';
    return copy;
}

static int is_asking(const char *backend)
{
    return backend && !strcmp(backend, ALLOC_CONF_ASKED);
}

static cufence_status read_backend(struct rewriting *rewriting, struct piece value)
{
    char *before = rewriting->backend, *backend = without_blanks(value);
    cufence_status status = CUFENCE_OK;
    if (!backend)
        return no_memory(rewriting->name);
    if (!is_asking(backend) && !strncasecmp(backend, ALLOC_CONF_ASKED, strlen(ALLOC_CONF_ASKED)))
        status = error_set(CUFENCE_ERROR_OPTION, "%s: there is no back end '%.200s'; write backend:" ALLOC_CONF_ASKED,
                           rewriting->name, backend);
    else if (before && (is_asking(before) || is_asking(backend)))
        status = error_set(CUFENCE_ERROR_OPTION, "%s: the back end is named twice, '%.200s' and '%.200s'; name one",
                           rewriting->name, before, backend);
    rewriting->backend = backend;
    free(before);
    return status;
}

static cufence_status rewrite_entry(struct rewriting *rewriting, struct piece entry)
{
    const char *colon = memchr(entry.start, ':', entry.length);
    size_t key_length = colon ? (size_t)(colon - entry.start) : entry.length;
    struct piece key = trim((struct piece){entry.start, key_length}), value = {"", 0};
    if (colon)
        value = trim((struct piece){colon + 1, entry.length - key_length - 1});
    struct piece of_backend = behind(key, "backend"), option = behind(key, PREFIX), bare = behind(key, ALLOC_CONF_ASKED);
    if (of_backend.start && !of_backend.length)
        return read_backend(rewriting, value);
    if (option.start)
        return read_option(rewriting, trim(option), value);
    if (bare.start && !bare.length)
        return error_set(CUFENCE_ERROR_OPTION,
                         "%s: '%.*s' is not understood; write backend:" ALLOC_CONF_ASKED ", and its options as " PREFIX
                         "KEY:value",
                         rewriting->name, SHOWN(entry));
    write_entry(rewriting->text, entry);
    return CUFENCE_OK;
}

static cufence_status rewrite_entries(struct rewriting *rewriting, const char *text)
{
    cufence_status status = CUFENCE_OK;
    fputs(BACKEND, rewriting->text);
    for (const char *at = text; *at && status == CUFENCE_OK;) {
        size_t length = entry_length(at);
        struct piece entry = trim((struct piece){at, length});
        if (entry.length)
            status = rewrite_entry(rewriting, entry);
        at += length + (at[length] == ',');
    }
    return status;
}

/* ---- one variable, and both ---- */

const char *const alloc_conf_names[ALLOC_CONFS] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};

cufence_status alloc_conf_rewrite(const char *text, const char *name, struct alloc_conf *conf)
{
    size_t text_size, options_size;
    memset(conf, 0, sizeof *conf);
    struct rewriting rewriting = {name, open_memstream(&conf->text, &text_size), open_memstream(&conf->options, &options_size),
                                  NULL};
    int is_written = rewriting.text && rewriting.options;
    cufence_status status = is_written ? rewrite_entries(&rewriting, text ? text : "") : CUFENCE_OK;
    if (rewriting.text && fclose(rewriting.text))
        is_written = 0;
    if (rewriting.options && fclose(rewriting.options))
        is_written = 0;
    conf->backend = rewriting.backend;
    if (status == CUFENCE_OK && !is_written)
        status = no_memory(name);
    if (status != CUFENCE_OK)
        alloc_conf_free(conf);
    return status;
}

/* Refuses two variables of which one asks for cufence and the other for another back end. */
static cufence_status check_agreement(const struct alloc_conf confs[ALLOC_CONFS])
{
    for (int i = 0; i < ALLOC_CONFS; i++) {
        const char *other = confs[!i].backend;
        if (is_asking(confs[i].backend) && other && !is_asking(other) && strcmp(other, BENEATH) != 0)
            return error_set(CUFENCE_ERROR_OPTION,
                             "%s names backend:" ALLOC_CONF_ASKED ", but %s names backend:%.200s; name one",
                             alloc_conf_names[i], alloc_conf_names[!i], other);
    }
    return CUFENCE_OK;
}

cufence_status alloc_conf_rewrite_both(const char *const texts[ALLOC_CONFS], struct alloc_conf confs[ALLOC_CONFS])
{
    cufence_status status = CUFENCE_OK;
    memset(confs, 0, ALLOC_CONFS * sizeof *confs);
    for (int i = 0; i < ALLOC_CONFS && status == CUFENCE_OK; i++)
        status = alloc_conf_rewrite(texts[i], alloc_conf_names[i], &confs[i]);
    if (status == CUFENCE_OK)
        status = check_agreement(confs);
    for (int i = 0; i < ALLOC_CONFS && status == CUFENCE_OK; i++) {
        if (texts[i] || !texts[!i])
            continue;
        free(confs[i].text);
        confs[i].text = strdup(confs[!i].text);
        if (!confs[i].text)
            status = no_memory(alloc_conf_names[i]);
    }
    for (int i = 0; i < ALLOC_CONFS && status != CUFENCE_OK; i++)
        alloc_conf_free(&confs[i]);
    return status;
}

const char *alloc_conf_asking(const struct alloc_conf confs[ALLOC_CONFS])
{
    for (int i = ALLOC_CONFS - 1; i >= 0; i--)
        if (is_asking(confs[i].backend))
            return alloc_conf_names[i];
    return NULL;
}

void alloc_conf_free(struct alloc_conf *conf)
{
    free(conf->text);
    free(conf->options);
    free(conf->backend);
    memset(conf, 0, sizeof *conf);
}
