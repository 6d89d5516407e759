/*
 * launch.json of save_values=: a line of JSON without addresses and handles, so that those of two runs can be compared.
 */
#include "bundles.h"

#include "base/text.h"
#include "lens/values/names.h"
#include "lens/values/types.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A string with its quotes. */
static void put_text(FILE *out, const char *text)
{
    json_t *string = text_to_json(text);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    fputs(quoted ? quoted : "\"?\"", out);
    free(quoted);
    json_decref(string);
}

static void put_member(FILE *out, const char *name, const char *text)
{
    if (!*text)
        return;
    fprintf(out, ",\"%s\":", name);
    put_text(out, text);
}

static void put_three(FILE *out, const char *name, const uint32_t three[3])
{
    fprintf(out, ",\"%s\":[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "]", name, three[0], three[1], three[2]);
}

/* ---- scalars ---- */

/* What differs from run to run and is no value: an address of this process, or of a buffer that is gone. The first byte of
 * host addresses is that of Linux on x86-64 and aarch64 programs, heaps and libraries. */
static int is_address(uint64_t word)
{
    uint64_t top = word >> 40;
    return heap_owns(word) || top == 0x55 || top == 0x56 || top == 0x7e || top == 0x7f || top == 0xaa || top == 0xff;
}

static int is_pointer(const struct visit *visit, int argument, uint32_t at)
{
    for (size_t i = 0; i < visit->reached_count; i++)
        if (visit->reached[i].argument == argument && visit->reached[i].at == at)
            return 1;
    return 0;
}

/* A number. */
static void put_small(FILE *out, const uint8_t *bytes, uint32_t size)
{
    uint64_t word = 0;
    memcpy(&word, bytes, size);
    if (size == 8 && is_address(word))
        fputs("\"address\"", out);
    else
        fprintf(out, "\"0x%" PRIx64 "\"", word);
}

/* More than 8 bytes: two digits for each, dots for those of pointers. */
static void put_large(FILE *out, const struct visit *visit, int argument, const uint8_t *bytes, uint32_t size)
{
    fputc('"', out);
    for (uint32_t at = 0; at < size; at++) {
        uint64_t word = 0;
        uint32_t first = at / 8 * 8;
        if (first + 8 <= size)
            memcpy(&word, bytes + first, 8);
        if (first + 8 <= size && (is_pointer(visit, argument, first) || is_address(word)))
            fputs("..", out);
        else
            fprintf(out, "%02x", bytes[at]);
    }
    fputc('"', out);
}

/* argument: -1: all arguments, their layout is unknown. */
static void put_scalar(FILE *out, const struct visit *visit, int argument, const uint8_t *bytes, uint32_t size)
{
    fputc('{', out);
    if (argument >= 0)
        fprintf(out, "\"argument\":%d,", argument);
    fprintf(out, "\"bytes\":%" PRIu32 ",\"value\":", size);
    if (argument >= 0 && size <= 8)
        put_small(out, bytes, size);
    else
        put_large(out, visit, argument, bytes, size);
    fputc('}', out);
}

static void put_scalars(FILE *out, const struct visit *visit)
{
    const struct launch_function *function = visit->function;
    const char *comma = "";
    if (!function->has_layout && visit->argument_bytes)
        put_scalar(out, visit, -1, visit->arguments, (uint32_t)visit->argument_bytes);
    for (uint32_t i = 0; function->has_layout && i < function->argument_count; i++) {
        struct launch_argument argument = function->arguments[i];
        if (argument.offset > visit->argument_bytes || argument.size > visit->argument_bytes - argument.offset ||
            (argument.size == 8 && is_pointer(visit, (int)i, 0)))
            continue;
        fputs(comma, out);
        put_scalar(out, visit, (int)i, visit->arguments + argument.offset, argument.size);
        comma = ",";
    }
}

/* ---- all of it ---- */

static void put_buffer(FILE *out, const struct reached *reached)
{
    char name[NAME_BYTES];
    names_buffer(reached->range.id, name);
    fputs("{\"buffer\":", out);
    put_text(out, name);
    if (reached->argument >= 0)
        fprintf(out, ",\"argument\":%d", reached->argument);
    if (reached->at)
        fprintf(out, ",\"at\":%" PRIu32, reached->at);
    fprintf(out, ",\"size\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", reached->range.size,
            reached->pointer - reached->range.address, reached->range.size);
}

void launch_file_write(FILE *out, const struct visit *visit)
{
    const struct kernel_names *names = types_names(visit->function);
    fprintf(out, "{\"event\":\"launch\",\"number\":%" PRIu64 ",\"launch\":%" PRIu64 ",\"stream\":%" PRIu64 ",\"device\":%d",
            visit->number, visit->number, names_stream(visit), visit->device);
    put_member(out, "name", names ? names->demangled : visit->function->name);
    put_member(out, "symbol", visit->function->name);
    put_member(out, "place", names_place(visit));
    put_three(out, "grid", visit->grid);
    put_three(out, "block", visit->block);
    fprintf(out, ",\"shared\":%" PRIu32 ",\"scalars\":[", visit->shared_bytes);
    put_scalars(out, visit);
    fputs("],\"buffers\":[", out);
    for (size_t i = 0; i < visit->reached_count; i++) {
        fputs(i ? "," : "", out);
        put_buffer(out, &visit->reached[i]);
    }
    fputs("]}\n", out);
}
