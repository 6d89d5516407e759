#include "cli/alloc_conf.h"
#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKEND "backend:cudaMallocAsync"
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

/* What stands behind `word`, whatever blanks there are within it, since PyTorch skips those; start is NULL if `piece` does not
 * begin with it. */
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

/* The length of the entry at `at`: up to a comma outside of a list. Lists do not nest. */
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

/* The entry without its blanks, which PyTorch skips wherever they are. */
static void write_entry(FILE *out, struct piece entry)
{
    fputc(',', out);
    for (size_t i = 0; i < entry.length; i++)
        if (!isspace((unsigned char)entry.start[i]))
            fputc(entry.start[i], out);
}

static void write_option(FILE *out, struct piece key, struct piece value, int has_value)
{
    fprintf(out, "%s%.*s", ftell(out) > 0 ? "," : "", (int)key.length, key.start);
    if (has_value)
        fprintf(out, "=%.*s", (int)value.length, value.start);
}

static void rewrite_entry(struct piece entry, FILE *text, FILE *options, struct piece *backend)
{
    const char *colon = memchr(entry.start, ':', entry.length);
    size_t key_length = colon ? (size_t)(colon - entry.start) : entry.length;
    struct piece key = trim((struct piece){entry.start, key_length}), value = {"", 0};
    if (colon)
        value = trim((struct piece){colon + 1, entry.length - key_length - 1});
    struct piece of_backend = behind(key, "backend"), option = behind(key, PREFIX);
    if (of_backend.start && !of_backend.length)
        *backend = value;
    else if (option.start)
        write_option(options, trim(option), value, colon != NULL);
    else
        write_entry(text, entry);
}

cufence_status alloc_conf_rewrite(const char *text, struct alloc_conf *conf)
{
    size_t text_size, options_size;
    struct piece backend = {NULL, 0};

    memset(conf, 0, sizeof *conf);
    FILE *out = open_memstream(&conf->text, &text_size);
    FILE *options = open_memstream(&conf->options, &options_size);
    int is_written = out && options;
    if (is_written)
        fputs(BACKEND, out);
    for (const char *at = text ? text : ""; is_written && *at;) {
        size_t length = entry_length(at);
        struct piece entry = trim((struct piece){at, length});
        if (entry.length)
            rewrite_entry(entry, out, options, &backend);
        at += length + (at[length] == ',');
    }
    if (out && fclose(out))
        is_written = 0;
    if (options && fclose(options))
        is_written = 0;
    if (is_written && backend.start)
        conf->backend = strndup(backend.start, backend.length);
    if (is_written && (conf->backend || !backend.start))
        return CUFENCE_OK;
    alloc_conf_free(conf);
    return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no host memory for the allocator configuration '%.60s'", text ? text : "");
}

void alloc_conf_free(struct alloc_conf *conf)
{
    free(conf->text);
    free(conf->options);
    free(conf->backend);
    memset(conf, 0, sizeof *conf);
}
