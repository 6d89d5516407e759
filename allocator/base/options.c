#include "options.h"
#include "error.h"
#include "option_value.h"
#include "rules.h"
#include "text.h"

#include <ctype.h>
#include <string.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define DAY_MS UINT64_C(86400000)

#define FIELD(name) offsetof(struct options, name)

/* The program's own output goes there, and might be mixed with ours, or overwritten. */
#define NOT_STANDARD_OUTPUT                                                                                                    \
    .refused = "-", .refusal = "standard output is the program's; give a name (./- is a file of that name)"

/* The second parts of merged options: what a value says behind the joint. */
static const struct option_row guard_max = {
    .type = OPTION_BYTES, .default_value = "4G", .offset = FIELD(guard_max), .minimum = 2 * MIB, .maximum = 64 * GIB};
static const struct option_row launches = {
    .type = OPTION_NUMBER, .default_value = "4096", .offset = FIELD(launches), .maximum = 65536};
static const struct option_row poison = {.type = OPTION_FILL, .default_value = "off", .offset = FIELD(poison)};
static const struct option_row witness_ms = {
    .type = OPTION_NUMBER, .default_value = "3000", .offset = FIELD(witness_ms), .minimum = 100, .maximum = 600000};
static const struct option_row save_replay = {
    .type = OPTION_NUMBER, .default_value = "4", .offset = FIELD(save_replay), .maximum = 1000000};

static const struct option_row min_size = {
    .type = OPTION_BYTES, .default_value = "0", .offset = FIELD(min_size), .maximum = 64 * TIB};
static const struct option_row save = {
    .type = OPTION_PATH, .default_value = "", .offset = FIELD(save), .maximum = sizeof(((struct options *)0)->save)};
static const struct option_row trace_filter = {.type = OPTION_FILTER,
                                               .default_value = "",
                                               .offset = FIELD(trace_filter),
                                               .maximum = sizeof(((struct options *)0)->trace_filter)};
static const struct option_row values_out = {.type = OPTION_PATH,
                                             .default_value = "",
                                             .offset = FIELD(values_out),
                                             .maximum = sizeof(((struct options *)0)->values_out)};

/* clang-format off */
static const struct option_row table[] = {
    {.name = "uaf", .is_common = 1, .type = OPTION_CHOICE, .allowed = "off | adaptive | strict", .default_value = "adaptive",
     .offset = FIELD(uaf),
     .help = "freed buffers to unmap, so that a use after free faults; strict: all; adaptive: of each place of allocation in turn, by a background thread; off: none"},
    {.name = "align", .is_common = 1, .type = OPTION_ALIGN, .allowed = "auto | a power of two 1..2M", .default_value = "16",
     .offset = FIELD(align), .minimum = 1, .maximum = 2 * MIB,
     .help = "alignment of buffers; auto: the largest that leaves no slack after the end of a buffer"},
    {.name = "side", .is_common = 1, .type = OPTION_CHOICE, .allowed = "end | start | alternate", .default_value = "end",
     .offset = FIELD(side),
     .help = "edge of the mapping that buffers are flush with; end: finds overruns; start: finds underruns; alternate: takes turns"},
    {.name = "on_fault", .type = OPTION_CHOICE, .allowed = "error | abort | continue", .default_value = "error",
     .offset = FIELD(on_fault),
     .help = "after reporting a fault; error: fail with CUDA errors; abort: call abort(); continue: do nothing"},
    {.name = "exitcode", .is_common = 1, .type = OPTION_NUMBER, .allowed = "0..255", .default_value = "86",
     .offset = FIELD(exitcode), .maximum = 255,
     .help = "exit status after a reported fault, if the program would have exited 0; 0: leave it unchanged"},
    {.name = "max_reports", .type = OPTION_NUMBER, .allowed = "1..1000000", .default_value = "100",
     .offset = FIELD(max_reports), .minimum = 1, .maximum = 1000000,
     .help = "findings to report, each once; the rest are counted, and the count is printed at exit"},
    {.name = "guard", .type = OPTION_BYTES, .allowed = "MIN or MIN..MAX, each 2M..64G", .default_value = "64M",
     .offset = FIELD(guard), .minimum = 2 * MIB, .maximum = 64 * GIB, .set = set_guard, .joint = "..", .rest = &guard_max,
     .help = "minimum and maximum size of a guard; between them, a guard is as large as its buffer; less where address space is short"},
    {.name = "remember", .type = OPTION_NUMBER, .allowed = "BUFFERS or BUFFERS/LAUNCHES, up to 16777216 and 65536", .default_value = "65536",
     .offset = FIELD(history), .maximum = 16 * MIB, .joint = "/", .rest = &launches,
     .help = "freed buffers to remember for reports, and kernel launches per thread and context (a quarter of that in programs without Python; 1.7 KiB each)"},
    {.name = "stacks", .type = OPTION_CHOICE, .allowed = "on | python | off", .default_value = "on", .offset = FIELD(stacks),
     .help = "record the stack of each allocation, and of each free that unmaps the buffer: Python's, or in programs without Python the native one (python: not that)"},
    {.name = "streams", .is_common = 1, .type = OPTION_SWITCH, .allowed = "on | off", .default_value = "off", .offset = FIELD(streams),
     .help = "report buffers that are freed or overwritten while a launch on another stream may still use them (`cufence docs streams`)"},
    {.name = "slack", .is_common = 1, .type = OPTION_SWITCH, .allowed = "on | off", .default_value = "on", .offset = FIELD(slack),
     .help = "fill the bytes around each buffer with a pattern and check it, to find writes before its start and into its slack"},
    {.name = "fill", .type = OPTION_FILL, .allowed = "FRESH or FRESH/FREED, each off, nan or 0xNN", .default_value = "off",
     .offset = FIELD(fill), .joint = "/", .rest = &poison,
     .help = "set each byte of a fresh buffer, and of a freed one, to this value; nan: 0xff, which is NaN for all floating-point types"},
    {.name = "wait_ms", .type = OPTION_NUMBER, .allowed = "EXIT or EXIT/RERUN, 0..86400000 and 100..600000", .default_value = "1000",
     .offset = FIELD(exit_wait), .maximum = DAY_MS, .joint = "/", .rest = &witness_ms,
     .help = "max wait at exit for pending GPU work, in milliseconds, so that its faults are reported, and of a report for the re-run that explain= asks for"},
    {.name = "explain", .type = OPTION_CHOICE, .allowed = "auto | off | dump | rerun", .default_value = "auto", .set = set_explain,
     .help = "how a fault is explained; dump: by a GPU core dump; rerun: also by launching the kernel again, in another process; auto: rerun on a real GPU, where the dump leaves something open; off: no core dumps are armed"},
    {.name = "peers", .type = OPTION_CHOICE, .allowed = "auto | on | off", .default_value = "auto", .offset = FIELD(peers),
     .help = "map buffers for peer devices; auto: follow the program's peer access (preload library only); on: all; off: none"},
    {.name = "ipc", .type = OPTION_CHOICE, .allowed = "refuse | driver", .default_value = "refuse", .offset = FIELD(ipc),
     .help = "driver: leave cuMemAlloc to the driver, so that other processes can open the memory, which is then unguarded"},
    {.name = "only", .is_common = 1, .type = OPTION_RULES, .allowed = RULES_ALLOWED, .default_value = "", .offset = FIELD(only),
     .maximum = sizeof(((struct options *)0)->only),
     .help = "guard only the allocations that these rules name (`cufence docs memory`); empty: all"},
    {.name = "skip", .is_common = 1, .type = OPTION_RULES, .allowed = RULES_ALLOWED ", or smaller:BYTES", .default_value = "", .offset = FIELD(skip),
     .maximum = sizeof(((struct options *)0)->skip), .set = set_skip, .rest = &min_size,
     .help = "do not guard the allocations that these rules name; wins over only; smaller:64K: buffers of fewer bytes"},
    {.name = "sample", .type = OPTION_SAMPLE, .allowed = "1/N, N up to 1000000", .default_value = "1/1",
     .offset = FIELD(sample), .minimum = 1, .maximum = 1000000,
     .help = "guard one allocation in N, chosen at random, but the same ones in each run"},
    {.name = "max_guarded", .type = OPTION_BYTES, .allowed = "0..64T", .default_value = "0",
     .offset = FIELD(max_guarded), .maximum = 64 * TIB,
     .help = "memory that live guarded buffers may take, with their pages, per device; 0: no limit"},
    {.name = "small", .type = OPTION_CHOICE, .allowed = "auto | map | pack", .default_value = "auto", .offset = FIELD(small),
     .help = "map: each small buffer has a page of its own; pack: small buffers share pages, with redzones that kernels check; auto: map at first, and pack when their pages take 5 per cent of a device, or its memory is short"},
    {.name = "fallback", .type = OPTION_SWITCH, .allowed = "on | off", .default_value = "on", .offset = FIELD(fallback),
     .help = "leave a buffer to the driver, unguarded, where the pages for a guarded one no longer fit"},
    {.name = "live", .type = OPTION_TEXT, .allowed = "off | usr1 | exit | leaks, or several such as usr1+exit", .default_value = "off",
     .set = set_live,
     .help = "what is allocated, by place of allocation; usr1: is printed at each SIGUSR1, unless the program handles that signal itself; exit: is printed when the process ends; leaks: is a finding then (not for PyTorch, whose tensors live on)"},
    {.name = "say", .type = OPTION_CHOICE, .allowed = "normal | quiet | verbose", .default_value = "normal", .set = set_say,
     .help = "quiet: omit the line at exit that says what was guarded and found, unless nothing was guarded; verbose: print the setup, and statistics at exit, to stderr; reports have C++ names in full"},
    {.name = "log", .is_common = 1, .type = OPTION_PATH, .allowed = "a file name up to 255 bytes, with %p %r %h %%", .default_value = "",
     .offset = FIELD(log), .maximum = sizeof(((struct options *)0)->log),
     .help = "file to append reports to, besides stderr; %p: process ID, %r: rank, %h: host name", NOT_STANDARD_OUTPUT},
    {.name = "json", .is_common = 1, .type = OPTION_PATH, .allowed = "a file name up to 255 bytes, with %p %r %h %%", .default_value = "",
     .offset = FIELD(json), .maximum = sizeof(((struct options *)0)->json),
     .help = "file to append each report to as one line of JSON (`cufence docs json`); %p, %r, %h as in log", NOT_STANDARD_OUTPUT},
    {.name = "known", .type = OPTION_PATH, .allowed = "a file to read, with a name up to 255 bytes", .default_value = "",
     .offset = FIELD(known), .maximum = sizeof(((struct options *)0)->known),
     .help = "file of findings that are counted but not reported, and leave the exit status alone: their names, or the file of json= of an earlier run, so that what is reported is new (`cufence docs known-findings`)", NOT_STANDARD_OUTPUT},
    {.name = "keep", .is_common = 1, .type = OPTION_PATH, .allowed = "FOLDER, dump=FOLDER or replay=FOLDER, up to 255 bytes, with %p %r %h %%",
     .default_value = "", .offset = FIELD(record), .maximum = sizeof(((struct options *)0)->record), .set = set_keep, .rest = &save,
     .help = "folder to keep each reported fault in: with its arguments and the memory they reach, for `cufence replay` and `cufence explain`, or if it can't be launched again its core dump and snapshot, for `cufence explain`; dump=: only those; replay=: only what can be launched again; %p, %r, %h as in log", NOT_STANDARD_OUTPUT},
    {.name = "save_max", .type = OPTION_BYTES, .allowed = "BYTES or BYTES/LAUNCHES, up to 64T and 1000000", .default_value = "4G",
     .offset = FIELD(save_max), .maximum = 64 * TIB, .joint = "/", .rest = &save_replay,
     .help = "bytes of buffers that are saved with a kernel, and by save_values in all (those beyond it are listed as left out), and launches of each kernel that save_values also keeps for `cufence replay`"},
    {.name = "save_values", .type = OPTION_FILTER_PATH, .allowed = "LAUNCHES=FOLDER, such as *gemm*=saved", .default_value = "",
     .offset = FIELD(save_values), .maximum = sizeof(((struct options *)0)->save_values),
     .help = "launches whose buffers are saved before and after, up to save_max bytes, and where (`cufence docs diff`, `cufence docs replay`): *gemm*, #120, @train.py:41, label:NAME, A&B, A|B; %p, %r, %h as in log"},
    {.name = "trace", .type = OPTION_PATH, .allowed = "FILE or LAUNCHES=FILE, such as *gemm*=a.jsonl, up to 255 bytes, with %p %r %h %%",
     .default_value = "", .offset = FIELD(trace), .maximum = sizeof(((struct options *)0)->trace), .set = set_trace, .joint = "=", .rest = &trace_filter,
     .help = "file for a line for each launch, or for those launches, copies and sets that LAUNCHES names as in values, with hashes of its buffers before and after, for `cufence diff` (`cufence docs diff`); %p, %r, %h as in log", NOT_STANDARD_OUTPUT},
    {.name = "every", .type = OPTION_NUMBER, .allowed = "1..1000000", .default_value = "1", .offset = FIELD(every),
     .minimum = 1, .maximum = 1000000,
     .help = "with trace and nan: look at one in N launches of each kernel, which costs less"},
    {.name = "values", .type = OPTION_FILTER, .allowed = "LAUNCHES or LAUNCHES=FILE; launches: *gemm*, #120, #10-20, @train.py:41, label:NAME, A&B, A|B",
     .default_value = "", .offset = FIELD(values), .maximum = sizeof(((struct options *)0)->values), .joint = "=", .rest = &values_out,
     .help = "show the arguments of these launches, and figures of what they point to, before and after (`cufence docs values`); FILE: append them to it as lines of JSON, instead of stderr; %p, %r, %h as in log"},
    {.name = "values_type", .type = OPTION_TEXT, .allowed = "[KERNEL[/ARGUMENT]:]TYPE, such as *gemm*/2:float16, joined by +",
     .default_value = "", .offset = FIELD(values_type), .maximum = sizeof(((struct options *)0)->values_type),
     .help = "types of what the kernels' pointers point to, where neither signature nor guess knows them"},
    {.name = "nan", .is_common = 1, .type = OPTION_CHOICE, .allowed = "off | report | stop | report+inf | stop+inf", .default_value = "off", .set = set_nan,
     .help = "report the first launches that make a NaN of inputs without one; stop: also wait after each launch, and end the program there; +inf: infinities too, of which masks of attention are full"},
    {.name = "graphs", .type = OPTION_SWITCH, .allowed = "on | off", .default_value = "on", .offset = FIELD(graphs),
     .help = "off: torch.compile and torch.cuda.make_graphed_callables run without CUDA graphs, so that each launch has its own values; other captures stay graphs"},
};

/* Not for users: cufence sets them well by itself, or a sub-command does. Tests and figures set them; --set takes them. */
static const struct option_row internal[] = {
    {.name = "uaf_share", .type = OPTION_NUMBER, .allowed = "1..100", .default_value = "20", .offset = FIELD(uaf_share),
     .minimum = 1, .maximum = 100,
     .help = "uaf=adaptive: most per cent of the time that a background thread spends in driver calls for it while places of allocation are new; a twentieth of that later"},
    {.name = "arena", .type = OPTION_BYTES, .allowed = "1G..64T", .default_value = "64T",
     .offset = FIELD(arena), .minimum = GIB, .maximum = 64 * TIB,
     .help = "address space to reserve; halved until the driver accepts it. Within a limit (ulimit -v): a quarter of what is left"},
    {.name = "waste", .type = OPTION_NUMBER, .allowed = "0..100", .default_value = "12",
     .offset = FIELD(waste), .maximum = 100,
     .help = "percent by which a reused mapping may be larger than needed"},
    {.name = "idle_age", .type = OPTION_NUMBER, .allowed = "0..86400000", .default_value = "30000",
     .offset = FIELD(idle_age), .maximum = DAY_MS,
     .help = "release mappings that are idle for this many milliseconds; 0: never"},
    {.name = "idle_max", .type = OPTION_BYTES, .allowed = "0..64T", .default_value = "0",
     .offset = FIELD(idle_max), .maximum = 64 * TIB,
     .help = "bytes of idle mappings to keep, the oldest are released first; 0: three quarters of the device's memory"},
    {.name = "cache_max", .type = OPTION_BYTES, .allowed = "0..64T", .default_value = "1G",
     .offset = FIELD(cache_max), .maximum = 64 * TIB,
     .help = "physical memory to keep without a mapping, per device"},
    {.name = "slack_reach", .type = OPTION_BYTES, .allowed = "16..2M", .default_value = "4K",
     .offset = FIELD(slack_reach), .minimum = 16, .maximum = 2 * MIB,
     .help = "bytes on each side of a buffer that are watched, as far as its mapping reaches"},
    {.name = "slack_every", .type = OPTION_NUMBER, .allowed = "1..128", .default_value = "128",
     .offset = FIELD(slack_every), .minimum = 1, .maximum = 128,
     .help = "check freed buffers in one launch after this many frees on a stream; 1: each at its free"},
    {.name = "max_overhead", .type = OPTION_NUMBER, .allowed = "1..100", .default_value = "5",
     .offset = FIELD(max_overhead), .minimum = 1, .maximum = 100,
     .help = "small=auto: pack once the pages of small buffers take this many per cent of a device's memory"},
    {.name = "estimate", .type = OPTION_SWITCH, .allowed = "on | off", .default_value = "off", .offset = FIELD(estimate),
     .help = "guard nothing; print at exit what the program would take guarded (cufence run --estimate)"},
    {.name = "color", .type = OPTION_CHOICE, .allowed = "auto | on | off", .default_value = "auto", .offset = FIELD(color),
     .help = "color the reports on stderr; auto: on a terminal, unless NO_COLOR is set"},
};
/* clang-format on */

#define ROWS (sizeof table / sizeof table[0])
#define INTERNAL (sizeof internal / sizeof internal[0])

/* Options of earlier versions, and what to use now. */
static const struct {
    const char *name, *instead;
} gone[] = {
    {"stats", "call cufence_get_stats(), cufence_get_streams() or, in Python, cufence.stats()"},
    {"stats_ms", "call cufence_get_stats(), cufence_get_streams() or, in Python, cufence.stats()"},
    {"guard_max", "write guard=MIN..MAX"},
    {"history", "write remember=BUFFERS"},
    {"launches", "write remember=BUFFERS/LAUNCHES, such as remember=65536/16384"},
    {"poison", "write fill=FRESH/FREED, such as fill=off/nan"},
    {"exit_wait", "write wait_ms=EXIT"},
    {"witness_ms", "write wait_ms=EXIT/RERUN, such as wait_ms=1000/60000"},
    {"coredump", "write explain=off"},
    {"witness", "write explain=auto, explain=dump or explain=rerun"},
    {"usr1", "write live=usr1"},
    {"at_exit", "write live=exit"},
    {"leaks", "write live=leaks"},
    {"quiet", "write say=quiet"},
    {"verbose", "write say=verbose"},
    {"record", "write keep=FOLDER, or keep=dump=FOLDER without the memory"},
    {"save", "write keep=FOLDER"},
    {"trace_filter", "write trace=LAUNCHES=FILE"},
    {"trace_every", "write every=N"},
    {"nan_every", "write every=N"},
    {"values_out", "write values=LAUNCHES=FILE"},
    {"inf", "write nan=report+inf"},
    {"min_size", "write skip=smaller:BYTES"},
    {"suppress", "write known=FILE"},
    {"baseline", "write known=FILE"},
    {"save_replay", "write save_max=BYTES/LAUNCHES, such as save_max=4G/0"},
};

/* A part of the text being parsed; not NUL-terminated. */
struct span {
    const char *start;
    size_t length;
};

/* A span for messages: truncated, and without control characters. */
struct excerpt {
    char text[72];
};

static struct excerpt excerpt_of(struct span span)
{
    struct excerpt out;
    size_t room = sizeof out.text - 4;
    size_t length = span.length < room ? span.length : room;
    for (size_t i = 0; i < length; i++)
        out.text[i] = iscntrl((unsigned char)span.start[i]) ? '?' : span.start[i];
    snprintf(out.text + length, sizeof out.text - length, "%s", span.length > room ? "..." : "");
    return out;
}

static struct span trim(struct span span)
{
    while (span.length && isspace((unsigned char)span.start[0])) {
        span.start++;
        span.length--;
    }
    while (span.length && isspace((unsigned char)span.start[span.length - 1]))
        span.length--;
    return span;
}

static const struct option_row *row_find(struct span key)
{
    for (size_t i = 0; i < ROWS + INTERNAL; i++) {
        const struct option_row *row = i < ROWS ? &table[i] : &internal[i - ROWS];
        if (strlen(row->name) == key.length && !memcmp(key.start, row->name, key.length))
            return row;
    }
    return NULL;
}

const char *options_gone(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        if (strlen(gone[i].name) == length && !memcmp(name, gone[i].name, length))
            return gone[i].instead;
    return NULL;
}

/* Returns the row that `key` is probably a misspelling of, NULL if none. */
static const struct option_row *row_nearest(struct span key)
{
    const struct option_row *nearest = NULL;
    size_t best = SIZE_MAX;
    if (options_gone(key.start, key.length))
        return NULL;
    for (size_t i = 0; i < ROWS; i++) {
        size_t edits = text_slip(key.start, key.length, table[i].name);
        if (edits < best) {
            best = edits;
            nearest = &table[i];
        }
    }
    return nearest;
}

const struct option_row *options_find(const char *name, size_t length, int *is_exact)
{
    const struct span key = {name, length};
    const struct option_row *row = row_find(key);
    *is_exact = row != NULL;
    return row ? row : row_nearest(key);
}

static cufence_status unknown_key(struct span key, const char *source)
{
    char names[1024] = "";
    const struct option_row *nearest = row_nearest(key);
    const char *instead = options_gone(key.start, key.length);
    if (instead)
        return error_set(CUFENCE_ERROR_OPTION, "%s: the option '%s' is gone; %s", source, excerpt_of(key).text, instead);
    if (nearest)
        return error_set(CUFENCE_ERROR_OPTION, "%s: unknown option '%s', did you mean '%s'? `cufence options --all` lists all",
                         source, excerpt_of(key).text, nearest->name);
    for (size_t i = 0; i < ROWS; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", table[i].name);
    }
    return error_set(CUFENCE_ERROR_OPTION, "%s: unknown option '%s' (known: %s)", source, excerpt_of(key).text, names);
}

static cufence_status parse_item(struct span item, const char *source, struct options *options)
{
    const char *equals = memchr(item.start, '=', item.length);
    size_t key_length = equals ? (size_t)(equals - item.start) : item.length;
    struct span key = trim((struct span){item.start, key_length});
    const struct option_row *row = row_find(key);

    if (key.length == 0)
        return error_set(CUFENCE_ERROR_OPTION, "%s: '%s' has no key; write key=value,key=value", source, excerpt_of(item).text);
    if (!row)
        return unknown_key(key, source);
    if (!equals)
        return error_set(CUFENCE_ERROR_OPTION, "%s: option %s has no value; write %s=VALUE, with %s", source, row->name,
                         row->name, row->allowed);
    struct span value = trim((struct span){equals + 1, item.length - key_length - 1});
    if (option_set(row, value.start, value.length, options))
        return CUFENCE_OK;
    if (row->refused && strlen(row->refused) == value.length && !memcmp(value.start, row->refused, value.length))
        return error_set(CUFENCE_ERROR_OPTION, "%s: %s=%s: %s", source, row->name, row->refused, row->refusal);
    return error_set(CUFENCE_ERROR_OPTION, "%s: %s=%s is not allowed; use %s", source, row->name, excerpt_of(value).text,
                     row->allowed);
}

cufence_status options_parse(struct options *options, const char *text, const char *source)
{
    struct options parsed = *options;
    const char *at = text ? text : "";

    while (*at) {
        size_t length = strcspn(at, ",");
        struct span item = trim((struct span){at, length});
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
        option_set(&table[i], table[i].default_value, strlen(table[i].default_value), options);
    for (size_t i = 0; i < INTERNAL; i++)
        option_set(&internal[i], internal[i].default_value, strlen(internal[i].default_value), options);
}

void options_print(FILE *out, int is_all)
{
    int name = 0, allowed = 0, value = (int)strlen("default");
    for (size_t i = 0; i < ROWS; i++) {
        int lengths[] = {(int)strlen(table[i].name), (int)strlen(table[i].allowed), (int)strlen(table[i].default_value)};
        if (!is_all && !table[i].is_common)
            continue;
        name = lengths[0] > name ? lengths[0] : name;
        allowed = lengths[1] > allowed ? lengths[1] : allowed;
        value = lengths[2] > value ? lengths[2] : value;
    }
    fprintf(out, "%-*s  %-*s  %-*s\n", name, "option", allowed, "allowed", value, "default");
    for (size_t i = 0; i < ROWS; i++)
        if (is_all || table[i].is_common)
            fprintf(out, "%-*s  %-*s  %-*s  %s\n", name, table[i].name, allowed, table[i].allowed, value,
                    table[i].default_value, table[i].help);
}
