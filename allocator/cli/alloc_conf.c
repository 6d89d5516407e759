#include "cli/alloc_conf.h"
#include "base/error.h"
#include "base/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BENEATH "cudaMallocAsync" /* PyTorch's back end under cufence: it asks the driver for exact sizes */
#define BACKEND "backend:" BENEATH
#define PREFIX "cufence_"

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

/* Returns a copy without blanks, which PyTorch skips, or without those at both ends. The caller frees it. */
static char *without_blanks(const char *text, size_t length, int is_inner_kept)
{
    char *copy = malloc(length + 1);
    size_t used = 0;
    while (length && isspace((unsigned char)*text)) {
        text++;
        length--;
    }
    while (length && isspace((unsigned char)text[length - 1]))
        length--;
    for (size_t i = 0; copy && i < length; i++)
        if (is_inner_kept || !isspace((unsigned char)text[i]))
            copy[used++] = text[i];
    if (copy)
        copy[used] = '\0';
    return copy;
}

/* ---- what is meant for cufence ---- */

struct rewriting {
    const char *name; /* the variable's */
    FILE *text, *options;
    char *backend; /* owned; the last one so far */
};

static cufence_status no_memory(const char *name)
{
    return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no host memory for the settings of %s", name);
}

static cufence_status read_option(struct rewriting *rewriting, const char *key, const char *value)
{
    if (!*key || !*value)
        return error_set(CUFENCE_ERROR_OPTION,
                         "%s: '" PREFIX "%.200s:%.200s' is not of the form " PREFIX "KEY:value, for example " PREFIX
                         "uaf:strict",
                         rewriting->name, key, value);
    if (strchr(value, ','))
        return error_set(CUFENCE_ERROR_OPTION,
                         "%s: " PREFIX "%.200s: the value '%.200s' holds a comma, which an option's value cannot",
                         rewriting->name, key, value);
    fprintf(rewriting->options, "%s%s=%s", ftell(rewriting->options) > 0 ? "," : "", key, value);
    return CUFENCE_OK;
}

static int is_asking(const char *backend)
{
    return backend && !strcmp(backend, ALLOC_CONF_ASKED);
}

static cufence_status read_backend(struct rewriting *rewriting, const char *backend)
{
    const char *before = rewriting->backend;
    if (!is_asking(backend) && !strncasecmp(backend, ALLOC_CONF_ASKED, strlen(ALLOC_CONF_ASKED)))
        return error_set(CUFENCE_ERROR_OPTION, "%s: there is no back end '%.200s'; write backend:" ALLOC_CONF_ASKED,
                         rewriting->name, backend);
    if (before && (is_asking(before) || is_asking(backend)))
        return error_set(CUFENCE_ERROR_OPTION, "%s: the back end is named twice, '%.200s' and '%.200s'; name one",
                         rewriting->name, before, backend);
    free(rewriting->backend);
    rewriting->backend = strdup(backend);
    return rewriting->backend ? CUFENCE_OK : no_memory(rewriting->name);
}

/* plain: the entry without blanks; value: behind its colon, with those inside of it. */
static cufence_status read_entry(struct rewriting *rewriting, char *plain, const char *value)
{
    size_t key = strcspn(plain, ":");
    if (key == strlen("backend") && !strncmp(plain, "backend", key))
        return read_backend(rewriting, plain + key + (plain[key] == ':'));
    if (!strncmp(plain, PREFIX, strlen(PREFIX))) {
        plain[key] = '\0';
        return read_option(rewriting, plain + strlen(PREFIX), value);
    }
    if (key == strlen(ALLOC_CONF_ASKED) && !strncmp(plain, ALLOC_CONF_ASKED, key))
        return error_set(CUFENCE_ERROR_OPTION,
                         "%s: '%.200s' is not understood; write backend:" ALLOC_CONF_ASKED ", and its options as " PREFIX
                         "KEY:value",
                         rewriting->name, plain);
    int is_option = 0;
    options_find(plain, key, &is_option);
    if (is_option)
        return error_set(CUFENCE_ERROR_OPTION, "%s: %.*s is an option of cufence; write " PREFIX "%.200s", rewriting->name,
                         (int)key, plain, plain);
    if (*plain)
        fprintf(rewriting->text, ",%s", plain);
    return CUFENCE_OK;
}

static cufence_status rewrite_entries(struct rewriting *rewriting, const char *at)
{
    cufence_status status = CUFENCE_OK;
    fputs(BACKEND, rewriting->text);
    for (size_t length; *at && status == CUFENCE_OK; at += length + (at[length] == ',')) {
        length = entry_length(at);
        const char *colon = memchr(at, ':', length), *behind = colon ? colon + 1 : at + length;
        char *plain = without_blanks(at, length, 0), *value = without_blanks(behind, (size_t)(at + length - behind), 1);
        status = plain && value ? read_entry(rewriting, plain, value) : no_memory(rewriting->name);
        free(plain);
        free(value);
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

cufence_status alloc_conf_rewrite_both(const char *(*lookup)(const char *name), struct alloc_conf confs[ALLOC_CONFS])
{
    cufence_status status = CUFENCE_OK;
    memset(confs, 0, ALLOC_CONFS * sizeof *confs);
    for (int i = 0; i < ALLOC_CONFS && status == CUFENCE_OK; i++)
        status = alloc_conf_rewrite(lookup(alloc_conf_names[i]), alloc_conf_names[i], &confs[i]);
    if (status == CUFENCE_OK)
        status = check_agreement(confs);
    for (int i = 0; i < ALLOC_CONFS && status == CUFENCE_OK; i++) {
        if (lookup(alloc_conf_names[i]))
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
