#include "trace.h"

#include "analysis/trace/event.h"
#include "base/output.h"
#include "base/version.h"
#include "hashing.h"
#include "names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <uthash.h>

enum { SCALARS = TRACE_ARGUMENTS, BUFFERS = HASHING_RANGES, TEXT = 1 << 19 };

extern char *__cxa_demangle(const char *name, char *buffer, size_t *size, int *status);

/* A stream of the trace. */
struct counted {
    UT_hash_handle hh; /* by number */
    uint64_t number, events;
};

/* A kernel's name as in its source. */
struct kernel_name {
    UT_hash_handle hh; /* by function */
    const struct launch_function *function;
    char *name;
};

static struct {
    char path[1024];         /* constant after the start; "" if nothing is wanted */
    const char *options;     /* as the user wrote them; "" if there are none */
    FILE *file;              /* this and the rest: used by the visits' thread alone */
    int has_failed;          /* nothing is written any more */
    uint64_t events, missed; /* written; and those without hashes */
    struct counted *streams;
    struct kernel_name *kernels;
    struct trace_scalar scalars[SCALARS];
    struct trace_buffer buffers[BUFFERS];
    char text[TEXT]; /* of the event that is being written */
    size_t text_used;
} trace;

/* ---- the file ---- */

static void fail(const char *why)
{
    output_say("==%d== cufence: trace: cannot write %s: %s\n", (int)getpid(), trace.path, why);
    trace.has_failed = 1;
    if (trace.file)
        fclose(trace.file);
    trace.file = NULL;
}

static void read_command_line(char *out, size_t size)
{
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t length = file ? fread(out, 1, size - 1, file) : 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i + 1 < length; i++)
        out[i] = out[i] ? out[i] : ' ';
    out[length] = '\0';
}

static void put_header(int number)
{
    int major = 0, minor = 0;
    CUdevice device;
    struct trace_header header = {.driver = (uint32_t)driver->version};
    snprintf(header.cufence, sizeof header.cufence, "%s", VERSION_TEXT);
    snprintf(header.options, sizeof header.options, "%s", trace.options);
    read_command_line(header.program, sizeof header.program);
    if (driver->cuDeviceGet(&device, number) == CUDA_SUCCESS) {
        driver->cuDeviceGetName(header.device, sizeof header.device, device);
        driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
        driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    }
    header.compute = (uint32_t)(major * 10 + minor);
    trace_header_write(trace.file, &header);
}

/* Makes the file. Another process that writes to the same one keeps it. */
static void make_file(int device)
{
    int fd = open(trace.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        fail("another process writes its trace there; with %p in the name each has its own");
        return;
    }
    trace.file = fd >= 0 && ftruncate(fd, 0) == 0 ? fdopen(fd, "w") : NULL;
    if (!trace.file) {
        fail(strerror(errno));
        if (fd >= 0)
            close(fd);
        return;
    }
    put_header(device);
}

/* ---- an event ---- */

static const char *keep_text(const char *text)
{
    size_t length = strlen(text) + 1;
    if (length > TEXT - trace.text_used)
        return "?";
    char *kept = memcpy(trace.text + trace.text_used, text, length);
    trace.text_used += length;
    return kept;
}

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

/* Up to 8 bytes: a number. */
static const char *small_value(const uint8_t *bytes, uint32_t size)
{
    char text[24];
    uint64_t word = 0;
    memcpy(&word, bytes, size);
    if (size == 8 && is_address(word))
        return TRACE_ADDRESS;
    snprintf(text, sizeof text, "0x%" PRIx64, word);
    return keep_text(text);
}

/* More: the bytes, with those of pointers as dots. */
static const char *large_value(const struct visit *visit, int argument, const uint8_t *bytes, uint32_t size)
{
    static const char digits[] = "0123456789abcdef";
    size_t room = (size_t)size * 2 + 1;
    if (room > TEXT - trace.text_used)
        return "?";
    char *text = trace.text + trace.text_used;
    for (uint32_t at = 0; at < size; at++) {
        text[2 * at] = digits[bytes[at] >> 4];
        text[2 * at + 1] = digits[bytes[at] & 15];
    }
    for (uint32_t at = 0; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, bytes + at, 8);
        if (is_pointer(visit, argument, at) || is_address(word))
            memset(text + 2 * (size_t)at, '.', 16);
    }
    text[room - 1] = '\0';
    trace.text_used += room;
    return text;
}

static size_t take_scalars(const struct visit *visit)
{
    size_t count = 0;
    const struct launch_function *function = visit->function;
    if (function && !function->has_layout && visit->argument_bytes) {
        uint32_t size = (uint32_t)visit->argument_bytes;
        trace.scalars[0] = (struct trace_scalar){-1, size, large_value(visit, -1, visit->arguments, size)};
        return 1;
    }
    for (uint32_t i = 0; function && i < function->argument_count && count < SCALARS; i++) {
        struct launch_argument argument = function->arguments[i];
        if (argument.offset > visit->argument_bytes || argument.size > visit->argument_bytes - argument.offset ||
            (argument.size == 8 && is_pointer(visit, (int)i, 0)))
            continue;
        const uint8_t *bytes = visit->arguments + argument.offset;
        const char *value =
            argument.size <= 8 ? small_value(bytes, argument.size) : large_value(visit, (int)i, bytes, argument.size);
        trace.scalars[count++] = (struct trace_scalar){(int)i, argument.size, value};
    }
    return count;
}

/* sums: of before, then of after; of a copy, after alone. What a copy reads has been the same before. */
static void take_hashes(const struct visit *visit, size_t index, const struct hashing *hashing, const uint64_t *sums,
                        struct trace_buffer *buffer)
{
    int is_read = visit->copy && index >= visit->written_count;
    if (!visit->copy || is_read)
        buffer->has_before = hashing_result(hashing, visit, index, sums, &buffer->before);
    if (!is_read)
        buffer->has_after = hashing_result(hashing, visit, index, sums + (visit->copy ? 0 : hashing->sums), &buffer->after);
}

/* sums: NULL if there are none. */
static size_t take_buffers(const struct visit *visit, const struct hashing *hashing, const uint64_t *sums)
{
    size_t count = visit->reached_count < BUFFERS ? visit->reached_count : BUFFERS;
    for (size_t i = 0; i < count; i++) {
        const struct reached *reached = &visit->reached[i];
        struct trace_buffer *buffer = &trace.buffers[i];
        char name[NAME_BYTES];
        names_buffer(reached->range.id, name);
        *buffer = (struct trace_buffer){.argument = reached->argument,
                                        .at = reached->at,
                                        .name = keep_text(name),
                                        .size = reached->range.size,
                                        .offset = reached->pointer - reached->range.address,
                                        .bytes = visit->copy ? reached->bytes : reached->range.size};
        if (sums)
            take_hashes(visit, i, hashing, sums, buffer);
    }
    return count;
}

/* Demangled, once a kernel. */
static const char *name_of(const struct launch_function *function)
{
    struct kernel_name *known;
    int status;
    HASH_FIND_PTR(trace.kernels, &function, known);
    if (known || !(known = calloc(1, sizeof *known)))
        return known ? known->name : function->name;
    known->function = function;
    known->name = strncmp(function->name, "_Z", 2) == 0 ? __cxa_demangle(function->name, NULL, NULL, &status) : NULL;
    if (!known->name)
        known->name = (char *)function->name; /* never freed either */
    HASH_ADD_PTR(trace.kernels, function, known);
    return known->name;
}

/* The event's number in its stream. */
static uint64_t count_event(uint64_t stream)
{
    struct counted *counted;
    HASH_FIND(hh, trace.streams, &stream, sizeof stream, counted);
    if (!counted && (counted = calloc(1, sizeof *counted)) != NULL) {
        counted->number = stream;
        HASH_ADD(hh, trace.streams, number, sizeof counted->number, counted);
    }
    return counted ? ++counted->events : trace.events + 1;
}

static enum trace_kind kind_of(const struct visit *visit)
{
    if (visit->copy)
        return strncmp(visit->copy, "cuMemset", strlen("cuMemset")) == 0 ? TRACE_SET : TRACE_COPY;
    return visit->function ? TRACE_LAUNCH : TRACE_GRAPH;
}

static void put_event(const struct visit *visit, const struct hashing *hashing, const uint64_t *sums)
{
    uint64_t stream = names_stream(visit);
    struct trace_event event = {.kind = kind_of(visit),
                                .number = count_event(stream),
                                .stream = stream,
                                .device = visit->device,
                                .name = visit->copy       ? visit->copy
                                        : visit->function ? name_of(visit->function)
                                                          : "",
                                .symbol = visit->function ? visit->function->name : "",
                                .place = names_place(visit),
                                .shared = visit->shared_bytes,
                                .buffers = trace.buffers,
                                .scalars = trace.scalars};
    trace.text_used = 0;
    memcpy(event.grid, visit->grid, sizeof event.grid);
    memcpy(event.block, visit->block, sizeof event.block);
    event.buffer_count = take_buffers(visit, hashing, sums);
    event.scalar_count = take_scalars(visit);
    trace_event_write(trace.file, &event);
    trace.events++;
    trace.missed += visit->reached_count && !sums;
    if (ferror(trace.file))
        fail(strerror(errno));
}

/* ---- the user of visits ---- */

static int wants_function(const struct launch_function *function)
{
    (void)function;
    return 1;
}

static int wants_graph(CUgraphExec graph)
{
    (void)graph;
    return 1;
}

static int wants(const struct visit *visit)
{
    names_note(visit);
    return 1;
}

static size_t size(const struct visit *visit)
{
    return (visit->copy ? 1 : 2) * hashing_plan(visit)->sums * sizeof(uint64_t);
}

static void before(struct visit_part *part)
{
    hashing_submit(hashing_plan(part->visit), part, 0, (uint64_t *)(void *)part->memory);
}

static void after(struct visit_part *part)
{
    const struct hashing *hashing = hashing_plan(part->visit);
    hashing_submit(hashing, part, 0, (uint64_t *)(void *)part->memory + (part->visit->copy ? 0 : hashing->sums));
}

static void finished(const struct visit *visit, uint8_t *results, size_t bytes, enum visit_end how)
{
    const uint64_t *sums = (const uint64_t *)(const void *)results;
    (void)bytes;
    if (trace.has_failed || (how == VISIT_FAILED && visit->result != CUDA_SUCCESS))
        return;
    if (!trace.file)
        make_file(visit->device);
    if (!trace.has_failed)
        put_event(visit, hashing_plan(visit), sums);
}

static void closed(void)
{
    const struct trace_event end = {.kind = TRACE_END, .number = trace.events, .missed = trace.missed};
    if (trace.has_failed)
        return;
    if (!trace.file) {
        output_say("==%d== cufence: trace: %s was not written: no launch was seen\n", (int)getpid(), trace.path);
        return;
    }
    trace_event_write(trace.file, &end);
    int is_well = !ferror(trace.file);
    if (fclose(trace.file) != 0 || !is_well)
        output_say("==%d== cufence: trace: cannot write %s: %s\n", (int)getpid(), trace.path, strerror(errno));
    trace.file = NULL;
    trace.has_failed = 1;
    if (trace.missed)
        output_say("==%d== cufence: trace: %" PRIu64 " of %" PRIu64 " launches have no hashes: the device was faster than the "
                   "trace, or has faulted\n",
                   (int)getpid(), trace.missed, trace.events);
}

cufence_status trace_open(const struct options *options)
{
    static struct visit_user user = {.kernels = {HASH_KERNEL},
                                     .looks_at_all = 1,
                                     .sees_copies = 1,
                                     .wants_function = wants_function,
                                     .wants_graph = wants_graph,
                                     .wants = wants,
                                     .size = size,
                                     .before = before,
                                     .after = after,
                                     .finished = finished,
                                     .closed = closed};
    static int is_added; /* the start may be tried again */
    const char *written = getenv("CUFENCE_OPTIONS");
    cufence_status status = options_expand_path(options->trace, trace.path, sizeof trace.path);
    if (status != CUFENCE_OK || !trace.path[0] || is_added)
        return status;
    trace.options = written ? written : "";
    user.ptx = hash_kernel_ptx;
    visits_add(&user);
    is_added = 1;
    return CUFENCE_OK;
}
