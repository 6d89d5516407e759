/* uninit=FILE: what a run has done, for `cufence hunt --uninit`. */
#include "lens/lens.h"

#include "base/env.h"
#include "base/files.h"
#include "base/output.h"
#include "events.h"
#include "lens/values/names.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static struct {
    const struct options *options; /* constant after the start, like the path */
    char path[1024];
    FILE *file;              /* this and the rest: used by the visits' thread alone */
    int has_failed;          /* nothing is written any more */
    uint64_t events, missed; /* written; and those without hashes */
} written;

/* ---- the file ---- */

static void fail(const char *why)
{
    output_note("uninit: cannot write %s: %s", written.path, why);
    written.has_failed = 1;
    if (written.file)
        fclose(written.file);
    written.file = NULL;
}

static void put_header(void)
{
    struct seen_header header = {.fill = ""};
    if (written.options->fill != FILL_OFF)
        snprintf(header.fill, sizeof header.fill, "0x%02x", (unsigned)written.options->fill);
    seen_header_write(written.file, &header);
}

/* Makes the file. Another process that writes to the same one keeps it. */
static void make_file(void)
{
    int fd = files_open_named(written.path, 0);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        fail("another process writes there");
        return;
    }
    written.file = fd >= 0 && ftruncate(fd, 0) == 0 ? fdopen(fd, "w") : NULL;
    if (!written.file) {
        fail(strerror(errno));
        if (fd >= 0)
            close(fd);
        return;
    }
    put_header();
}

static void put_event(const struct visit *visit, const struct hashing *hashing, const uint64_t *sums)
{
    struct seen_event event = events_make(visit, hashing, sums);
    event.number = names_count_event(visit);
    seen_event_write(written.file, &event);
    written.events++;
    written.missed += visit->reached_count && !sums;
    if (ferror(written.file))
        fail(strerror(errno));
}

/* ---- the user of visits ---- */

static int wants(const struct visit *visit)
{
    names_note(visit);
    return 1;
}

static size_t size(const struct visit *visit)
{
    const struct hashing *hashing = hashing_plan(visit);
    return (visit->copy ? 1 : 2) * hashing->sums * HASHING_KINDS * sizeof(uint64_t);
}

static void before(struct visit_part *part)
{
    hashing_submit(hashing_plan(part->visit), part, 0, (uint64_t *)(void *)part->memory);
}

static void after(struct visit_part *part)
{
    const struct hashing *hashing = hashing_plan(part->visit);
    hashing_submit(hashing, part, 0,
                   (uint64_t *)(void *)part->memory + (part->visit->copy ? 0 : hashing->sums * HASHING_KINDS));
}

static void finished(const struct visit *visit, uint8_t *results, size_t bytes, enum visit_end how)
{
    const uint64_t *sums = (const uint64_t *)(const void *)results;
    (void)bytes;
    if (written.has_failed || (how == VISIT_FAILED && visit->result != CUDA_SUCCESS))
        return;
    if (!written.file)
        make_file();
    if (!written.has_failed)
        put_event(visit, hashing_plan(visit), sums);
}

/* What is written is there if the program ends without exit handlers. */
static void rests(void)
{
    if (written.file)
        fflush(written.file);
}

static void closed(void)
{
    const struct seen_event end = {.kind = SEEN_END, .number = written.events, .missed = written.missed};
    if (written.has_failed)
        return;
    if (!written.file) {
        output_note("uninit: %s was not written: no launch was seen", written.path);
        return;
    }
    seen_event_write(written.file, &end);
    int is_written = !ferror(written.file);
    if (fclose(written.file) != 0 || !is_written)
        output_note("uninit: cannot write %s: %s", written.path, strerror(errno));
    written.file = NULL;
    written.has_failed = 1;
    if (written.missed)
        output_note("uninit: %" PRIu64 " of %" PRIu64 " launches have no hashes: the device was faster, or has faulted",
                    written.missed, written.events);
}

cufence_status uninit_open(const struct options *options)
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
    cufence_status status = options_expand_path(options->uninit, written.path, sizeof written.path);
    if (status != CUFENCE_OK || !written.path[0])
        return status;
    written.options = options;
    user.ptx = hash_kernel_ptx;
    visits_add(&user);
    return CUFENCE_OK;
}
