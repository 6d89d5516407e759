#include "lens/lens.h"

#include "base/lock.h"
#include "base/env.h"
#include "base/files.h"
#include "base/output.h"
#include "base/text.h"
#include "base/hash.h"
#include "events.h"
#include "lens/values/names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The launches of a kernel on a stream so far, for every=. */
struct turns {
    UT_hash_handle hh;
    struct turns_key {
        const void *what; /* the function, the name of a copy's; NULL: graphs */
        struct stream_ref stream;
    } key;
    uint64_t count;
};

static struct {
    const struct options *options; /* constant after the start, like the next two */
    char path[1024];
    struct filter filter;    /* of no terms: all */
    FILE *file;              /* this and the rest: used by the visits' thread alone */
    int has_failed;          /* nothing is written any more */
    uint64_t events, missed; /* written; and those without hashes */
    struct lock turns_lock;  /* taken while a thread launches, with nothing else under it */
    struct turns *turns;
} trace = {.turns_lock = LOCK(RANK_LEAF)};

/* ---- the file ---- */

static void fail(const char *why)
{
    output_note("trace: cannot write %s: %s", trace.path, why);
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

/* Whether fresh memory has one of the two fills that `cufence hunt --uninit` compares. */
static int has_fill(const struct options *options)
{
    return options->fill == 0 || options->fill == HASH_FOLDED;
}

static void put_header(int number)
{
    struct trace_header header = {.driver = (uint32_t)driver->version, .every = trace.options->every};
    const char *written = env_get("CUFENCE_OPTIONS");
    snprintf(header.filter, sizeof header.filter, "%s", trace.options->trace_filter);
    snprintf(header.cufence, sizeof header.cufence, "%s", VERSION_TEXT);
    snprintf(header.options, sizeof header.options, "%s", written ? written : "");
    if (has_fill(trace.options))
        snprintf(header.fill, sizeof header.fill, "0x%02x", (unsigned)trace.options->fill);
    read_command_line(header.program, sizeof header.program);
    header.compute = driver_describe(number, header.device, sizeof header.device);
    trace_header_write(trace.file, &header);
}

/* Makes the file. Another process that writes to the same one keeps it. */
static void make_file(int device)
{
    int fd = files_open_named(trace.path, 0);
    if (fd < 0 && errno == ENXIO) {
        fail("a trace needs a regular file");
        return;
    }
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

static void put_event(const struct visit *visit, const struct hashing *hashing, const uint64_t *sums)
{
    struct trace_event event = events_make(visit, hashing, sums);
    event.number = names_count_event(visit);
    trace_event_write(trace.file, &event);
    trace.events++;
    trace.missed += visit->reached_count && !sums;
    if (ferror(trace.file))
        fail(strerror(errno));
}

/* ---- the user of visits ---- */

/* Every launch is counted exactly, by kernel and stream: the same ones must have their turn in another run. Without host memory
 * all have. */
static int has_turn(const struct visit *visit)
{
    struct turns_key key;
    struct turns *turns;
    memset(&key, 0, sizeof key);
    key.what = visit->function ? (const void *)visit->function : visit->copy;
    key.stream = visit->stream;
    HOLD(&trace.turns_lock);
    HASH_FIND(hh, trace.turns, &key, sizeof key, turns);
    if (!turns && (turns = calloc(1, sizeof *turns)) != NULL) {
        turns->key = key;
        HASH_ADD(hh, trace.turns, key, sizeof turns->key, turns);
        turns = HASH_KEPT(turns);
    }
    return !turns || turns->count++ % trace.options->every == 0;
}

static int wants(const struct visit *visit)
{
    if (trace.options->every > 1 && !has_turn(visit))
        return 0;
    names_note(visit);
    return 1;
}

static size_t size(const struct visit *visit)
{
    const struct hashing *hashing = hashing_plan(visit);
    return (visit->copy ? 1 : 2) * hashing->sums * hashing->kinds * sizeof(uint64_t);
}

static void before(struct visit_part *part)
{
    hashing_submit(hashing_plan(part->visit), part, 0, (uint64_t *)(void *)part->memory);
}

static void after(struct visit_part *part)
{
    const struct hashing *hashing = hashing_plan(part->visit);
    hashing_submit(hashing, part, 0,
                   (uint64_t *)(void *)part->memory + (part->visit->copy ? 0 : hashing->sums * hashing->kinds));
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

/* What is written is there if the program ends without exit handlers. */
static void rests(void)
{
    if (trace.file)
        fflush(trace.file);
}

static void closed(void)
{
    const struct trace_event end = {.kind = TRACE_END, .number = trace.events, .missed = trace.missed};
    if (trace.has_failed)
        return;
    if (!trace.file) {
        output_note("trace: %s was not written: no launch was seen", trace.path);
        return;
    }
    trace_event_write(trace.file, &end);
    int is_written = !ferror(trace.file);
    if (fclose(trace.file) != 0 || !is_written)
        output_note("trace: cannot write %s: %s", trace.path, strerror(errno));
    trace.file = NULL;
    trace.has_failed = 1;
    if (trace.missed)
        output_note("trace: %" PRIu64 " of %" PRIu64 " launches have no hashes: the device was faster than the "
                    "trace, or has faulted",
                    trace.missed, trace.events);
}

cufence_status trace_open(const struct options *options)
{
    static struct visit_user user = {.kernels = {HASH_KERNEL},
                                     .looks_at_all = 1,
                                     .sees_copies = 1,
                                     .wants_graphs = 1,
                                     .wants = wants,
                                     .size = size,
                                     .before = before,
                                     .after = after,
                                     .finished = finished,
                                     .rests = rests,
                                     .closed = closed};
    cufence_status status = options_expand_path(options->trace, trace.path, sizeof trace.path)
                                ?: visits_choose(&trace.filter, options->trace_filter, "trace");
    if (status != CUFENCE_OK || !trace.path[0])
        return status;
    trace.options = options;
    if (has_fill(options))
        hashing_fold();
    user.filter = trace.filter.count ? &trace.filter : NULL;
    user.ptx = hash_kernel_ptx;
    visits_add(&user);
    return CUFENCE_OK;
}
