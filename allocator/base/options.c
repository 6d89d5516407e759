#include "options.h"
#include "error.h"
#include "option_value.h"
#include "filter.h"
#include "text.h"

#include <ctype.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define DAY_MS UINT64_C(86400000)

#define FIELD(name) offsetof(struct options, name)

#define IN(field) .offset = FIELD(field)
#define TEXT_IN(field) IN(field), .maximum = sizeof(((struct options *)0)->field)
#define RANGE(first, last) .minimum = (first), .maximum = (last)

/* What a value of a merged option says behind the joint. */
#define REST(type_, default_, ...)                                                                                             \
    .rest = &(const struct option_row)                                                                                         \
    {                                                                                                                          \
        .type = OPTION_##type_, .default_value = (default_), __VA_ARGS__                                                       \
    }

#define OPTION(name_, type_, allowed_, default_, ...)                                                                          \
    {                                                                                                                          \
        .name = (name_), .type = OPTION_##type_, .allowed = (allowed_), .default_value = (default_), __VA_ARGS__               \
    }

/* clang-format off */
static const struct option_row table[] = {
    OPTION("uaf", CHOICE, "off | adaptive | strict", "adaptive", IN(uaf),
           .help = "freed buffers to unmap, so that a use after free faults; strict: all; adaptive: of each place of allocation in turn, by a background thread; off: none"),
    OPTION("align", ALIGN, "auto | a power of two 1..2M", "16", IN(align), RANGE(1, 2 * MIB),
           .help = "alignment of buffers; auto: the largest that leaves no slack after the end of a buffer"),
    OPTION("side", CHOICE, "end | start | alternate", "end", IN(side),
           .help = "edge of the mapping that buffers are flush with; end: finds overruns; start: finds underruns; alternate: takes turns"),
    OPTION("on_fault", CHOICE, "error | abort | continue, VALUE/STATUS or /STATUS, up to 255", "error", IN(on_fault),
           .set = set_on_fault, .joint = "/", REST(NUMBER, "86", IN(exitcode), RANGE(0, 255)),
           .help = "after reporting a fault; error: fail with CUDA errors; abort: call abort(); continue: do nothing; STATUS: exit status after a finding, if the program would have exited 0; 86 if left out; 0: leave it unchanged"),
    OPTION("guard", BYTES, "MIN or MIN..MAX, each 2M..64G", "64M", IN(guard), RANGE(2 * MIB, 64 * GIB), .set = set_guard,
           .joint = "..", REST(BYTES, "4G", IN(guard_max), RANGE(2 * MIB, 64 * GIB)),
           .help = "minimum and maximum size of a guard; between them, a guard is as large as its buffer; less where address space is short"),
    OPTION("remember", NUMBER, "BUFFERS or BUFFERS/LAUNCHES, up to 16777216 and 65536", "65536", IN(history),
           RANGE(0, 16 * MIB), .joint = "/", REST(NUMBER, "4096", IN(launches), RANGE(0, 65536)),
           .help = "freed buffers to remember for reports, and kernel launches per thread and context (a quarter of that in programs without Python; 0.6 KiB each)"),
    OPTION("stacks", CHOICE, "on | python | off", "on", IN(stacks),
           .help = "record the stack of each allocation, and of each free that unmaps the buffer: Python's, or in programs without Python the native one (python: not that)"),
    OPTION("streams", CHOICE, "off | on | on+host", "off", IN(streams),
           .help = "report buffers that are freed or overwritten while a launch on another stream may still use them; +host: also pinned memory that is changed, freed or read while a copy may still use it (see docs/streams.md)"),
    OPTION("slack", SWITCH, "on | off", "on", IN(slack),
           .help = "fill the bytes around each buffer with a pattern and check it, to find writes before its start and into its slack"),
    OPTION("fill", FILL, "FRESH or FRESH/FREED, each off, nan or 0xNN", "off", IN(fill), .joint = "/",
           REST(FILL, "off", IN(poison)),
           .help = "set each byte of a fresh buffer, and of a freed one, to this value; nan: 0xff, which is NaN for all floating-point types"),
    OPTION("leaks", SWITCH, "on | off", "off", IN(leaks),
           .help = "report what is still allocated when the process ends, by place of allocation (not for PyTorch, whose tensors live on)"),
    OPTION("wait_ms", NUMBER, "EXIT or EXIT/RERUN, 0..86400000 and 100..600000", "1000", IN(exit_wait), RANGE(0, DAY_MS),
           .joint = "/", REST(NUMBER, "10000", IN(rerun_ms), RANGE(100, 600000)),
           .help = "max wait at exit for pending GPU work, in milliseconds, so that its faults are reported, and of a report for the re-run that explain= asks for"),
    OPTION("explain", CHOICE, "auto | off | dump | rerun", "auto", IN(explain),
           .help = "how a fault is explained; dump: by a GPU core dump; rerun: also by launching the kernel again, in another process; auto: rerun on a real GPU, where the dump leaves something open; off: no core dumps are armed"),
    OPTION("stuck", NUMBER, "0..86400", "0", IN(stuck), RANGE(0, 86400),
           .help = "seconds in which nothing is launched and nothing ends, after which the device's work, if there is any, is ended and reported; 0: never (see docs/explain.md)"),
    OPTION("peers", CHOICE, "auto | on | off", "auto", IN(peers),
           .help = "map buffers for peer devices; auto: follow the program's peer access (preload library only); on: all; off: only where a copy needs it"),
    OPTION("ipc", CHOICE, "refuse | driver", "refuse", IN(ipc),
           .help = "driver: leave cuMemAlloc to the driver, so that other processes can open the memory, which is then unguarded"),
    OPTION("skip", RULES, RULES_ALLOWED ", or smaller:BYTES; at most 16, 255 bytes", "", TEXT_IN(skip), .set = set_skip,
           REST(BYTES, "0", IN(min_size), RANGE(0, 64 * TIB)),
           .help = "do not guard the allocations that these rules name (see docs/memory.md); smaller:64K: buffers of fewer bytes"),
    OPTION("small", CHOICE, "auto | map | pack", "auto", IN(small),
           .help = "map: each small buffer has a page of its own; pack: small buffers share pages, with redzones that kernels check; auto: map at first, every second one packs when their pages take 128 MiB and a sixteenth of all mappings, nearly all when these take 5 per cent of a device or its memory is short"),
    OPTION("say", CHOICE, "normal | quiet | verbose", "normal", IN(say),
           .help = "quiet: omit the line at exit that says what was guarded and found, unless nothing was guarded; verbose: print the setup, and statistics at exit, to stderr; reports have C++ names in full"),
    OPTION("log", PATH, "a file name up to 255 bytes, with %p %r %h %%", "", TEXT_IN(log),
           .help = "file to append reports to, besides stderr; %p: process ID, %r: rank, %h: host name"),
    OPTION("json", PATH, "a file name up to 255 bytes, with %p %r %h %%", "", TEXT_IN(json),
           .help = "file to append each report to as one line of JSON (see docs/json.md); %p, %r, %h as in log"),
    OPTION("known", PATH, "a file to read, with a name up to 255 bytes", "", TEXT_IN(known),
           .help = "file of findings that are counted but not reported, and leave the exit status alone: their names, or the file of json= of an earlier run, so that what is reported is new (see docs/known-findings.md)"),
    OPTION("keep", PATH, "FOLDER, up to 255 bytes, with %p %r %h %%; also with ;BYTES", "", TEXT_IN(save),
           .set = set_keep, .joint = ";", REST(BYTES, "4G", IN(save_max), RANGE(0, 64 * TIB)),
           .help = "folder to keep each reported fault in, in a folder of its own: core dump and report for `cufence explain` and, if the kernel can be launched again, its code, arguments and the memory they reach, for `cufence replay`; BYTES: most of buffers to keep with a fault, otherwise 4G (the rest are listed as left out); %p, %r, %h as in log"),
    OPTION("save_values", FILTER, "LAUNCHES=FOLDER, such as *gemm*=saved, also with ;BYTES or ;BYTES/REPLAYED", "", TEXT_IN(save_values),
           .set = set_save_values, .joint = "=", REST(PATH, "", TEXT_IN(saved),
           .joint = ";", REST(BYTES, "4G", IN(saves_max), RANGE(0, 64 * TIB), .joint = "/", REST(NUMBER, "4", IN(save_replay), RANGE(0, 1000000)))),
           .help = "launches whose buffers are saved before and after, and where (see docs/values.md and docs/replay.md): *gemm*, #120, #new (once a shape), @train.py:41, label:NAME, A&B, A|B; %p, %r, %h as in log; BYTES: most to save in all, otherwise 4G; REPLAYED: launches of each kernel to keep for `cufence replay` too, otherwise 4"),
    OPTION("values", FILTER, "LAUNCHES or LAUNCHES=FILE; launches: *gemm*, #120, #10-20, @train.py:41, label:NAME, A&B, A|B; at most 16, 255 bytes",
           "", TEXT_IN(values), .joint = "=", REST(PATH, "", TEXT_IN(values_out)),
           .help = "show the arguments of these launches, and figures of what they point to, before and after (see docs/values.md); FILE: append them to it as lines of JSON, instead of stderr; %p, %r, %h as in log"),
    OPTION("nan", CHOICE, "off | report | stop | report+inf | stop+inf, also with /N", "off", IN(nan),
           .joint = "/", REST(NUMBER, "1", IN(every), RANGE(1, 1000000)),
           .help = "report the first launches that make a NaN of inputs without one; stop: also wait after each launch, and end the program there; +inf: infinities too, of which masks of attention are full; /N: look at one in N launches of each kernel, which costs less"),
};
/* clang-format on */

#define ROWS (sizeof table / sizeof table[0])

/* A text for messages: truncated, and without control characters. */
struct excerpt {
    char text[72];
};

static struct excerpt excerpt_of(struct option_text text)
{
    struct excerpt out;
    size_t room = sizeof out.text - 4;
    int is_long = text.length > room;
    snprintf(out.text, sizeof out.text, "%.*s%s", (int)(is_long ? room : text.length), text.start, is_long ? "..." : "");
    text_make_plain(out.text);
    return out;
}

static struct option_text trim(struct option_text text)
{
    while (text.length && isspace((unsigned char)text.start[0])) {
        text.start++;
        text.length--;
    }
    while (text.length && isspace((unsigned char)text.start[text.length - 1]))
        text.length--;
    return text;
}

const struct option_row *options_find(const char *name, size_t length, int *is_exact)
{
    size_t nearest = text_nearest(name, length, table, sizeof *table, ROWS, NULL);
    *is_exact = nearest < ROWS && strlen(table[nearest].name) == length && !memcmp(name, table[nearest].name, length);
    return nearest < ROWS ? &table[nearest] : NULL;
}

static cufence_status unknown_key(struct option_text key, const struct option_row *nearest, const char *source)
{
    return error_set(CUFENCE_ERROR_OPTION, "%s: unknown option '%s'%s%s%s `cufence options` lists all", source,
                     excerpt_of(key).text, nearest ? ", did you mean '" : ";", nearest ? nearest->name : "",
                     nearest ? "'?" : "");
}

/* Returns the word of row->allowed that `value` is probably a misspelling of, "" if none. */
static struct excerpt choice_nearest(const struct option_row *row, struct option_text value)
{
    struct excerpt nearest = {""}, word;
    size_t best = SIZE_MAX, length;
    const char *at = row->type == OPTION_CHOICE ? row->allowed : NULL;
    for (; at; at = at[length] == ' ' ? at + length + strlen(" | ") : NULL) {
        length = strcspn(at, " ,");
        word = excerpt_of((struct option_text){at, length});
        size_t far = text_slip(value.start, value.length, word.text);
        nearest = far < best ? word : nearest;
        best = far < best ? far : best;
    }
    return nearest;
}

static cufence_status parse_item(struct option_text item, const char *source, struct options *options)
{
    const char *equals = memchr(item.start, '=', item.length);
    size_t key_length = equals ? (size_t)(equals - item.start) : item.length;
    struct option_text key = trim((struct option_text){item.start, key_length});
    int is_known;
    const struct option_row *row = options_find(key.start, key.length, &is_known);

    if (key.length == 0)
        return error_set(CUFENCE_ERROR_OPTION, "%s: '%s' has no key; write key=value,key=value", source, excerpt_of(item).text);
    if (!is_known)
        return unknown_key(key, row, source);
    if (!equals)
        return error_set(CUFENCE_ERROR_OPTION, "%s: option %s has no value; write %s=VALUE, with %s", source, row->name,
                         row->name, row->allowed);
    struct option_text value = trim((struct option_text){equals + 1, item.length - key_length - 1});
    if (option_set(row, value, options))
        return CUFENCE_OK;
    if (row->type == OPTION_PATH && value.length == 1 && *value.start == '-') /* our text might be mixed with the program's */
        return error_set(CUFENCE_ERROR_OPTION,
                         "%s: %s=-: standard output is the program's; give a name (./- is a file of that name)", source,
                         row->name);
    const struct excerpt nearest = choice_nearest(row, value);
    return error_set(CUFENCE_ERROR_OPTION, "%s: %s=%s is not allowed; use %s%s%s%s", source, row->name, excerpt_of(value).text,
                     row->allowed, *nearest.text ? "; did you mean " : "", nearest.text, *nearest.text ? "?" : "");
}

cufence_status options_parse(struct options *options, const char *text, const char *source)
{
    struct options parsed = *options;
    const char *at = text ? text : "";

    while (*at) {
        size_t length = strcspn(at, ",");
        struct option_text item = trim((struct option_text){at, length});
        int is_last = at[length] == '\0';
        if (item.length > 0 || !is_last) {
            cufence_status status = parse_item(item, source, &parsed);
            if (status)
                return status;
        }
        at += length + !is_last;
    }
    *options = parsed;
    return CUFENCE_OK;
}

const struct option_row *options_table(size_t *count)
{
    *count = ROWS;
    return table;
}

void options_default(struct options *options)
{
    memset(options, 0, sizeof *options);
    for (size_t i = 0; i < ROWS; i++)
        option_set(&table[i], (struct option_text){table[i].default_value, strlen(table[i].default_value)}, options);
}
