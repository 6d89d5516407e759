/* `cufence replay --exact`: which threads access rows that are free, by emulation alone; no GPU is needed. */
#include "arguments.h"
#include "replay.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/search.h"
#include "base/clock.h"
#include "finding/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A buffer of the bundle, as the launch began with it. */
struct held {
    const struct bundle_buffer *buffer;
    void *file; /* mapped; NULL: zeros */
    size_t mapped;
    const uint8_t *bytes; /* in it */
};

struct exact {
    struct replay *replay;
    const struct bundle *bundle;
    struct cubin_kernel kernel;
    struct emulate_launch launch;
    struct emulate_memory memory;
    struct held *held;
    size_t held_count;
    uint64_t end_ns;
    uint64_t accesses, found, lost, unread; /* instructions; `unread` have no address in registers */
    uint64_t lost_at;                       /* of the first one that is lost: where its way ends */
    int is_late;
    /* Of the last one that was told; the same line's next accesses to this row are counted alone. */
    const struct bundle_row *told_row;
    int told_line;
};

#define complain(...) arguments_complain("replay", STATUS_NO_VERDICT, __VA_ARGS__)

/* ---- the memory ---- */

static void hold(struct exact *exact, const struct bundle_buffer *buffer)
{
    struct held *held = &exact->held[exact->held_count++];
    struct rerun_message question = {.type = MESSAGE_NEED, .address = buffer->mapping_start}, answer = {.type = MESSAGE_NONE};
    int file = opened_answer(&exact->replay->opened, &question, &answer);
    *held = (struct held){.buffer = buffer, .mapped = answer.number + buffer->size};
    if (file < 0)
        return;
    held->file = mmap(NULL, held->mapped, PROT_READ, MAP_PRIVATE, file, 0);
    held->file = held->file == MAP_FAILED ? NULL : held->file;
    held->bytes = held->file ? (const uint8_t *)held->file + answer.number : NULL;
    close(file);
}

static const struct held *find_held(const struct exact *exact, uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < exact->held_count; i++) {
        const struct bundle_buffer *buffer = exact->held[i].buffer;
        if (address - buffer->address < buffer->size && bytes <= buffer->size - (address - buffer->address))
            return &exact->held[i];
    }
    return NULL;
}

/* What was left out of the bundle is not known. */
static int read_memory(void *user, uint64_t address, void *bytes, size_t size)
{
    const struct held *held = find_held(user, address, size);
    if (!held || !held->bytes)
        return 0;
    memcpy(bytes, held->bytes + (address - held->buffer->address), size);
    return 1;
}

/* The free row that has one of these bytes. */
static const struct bundle_row *find_row(const struct bundle *bundle, uint64_t address, uint64_t bytes)
{
    size_t low = 0, high = bundle->row_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bundle->rows[middle].address + bundle->rows[middle].size <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < bundle->row_count && bundle->rows[low].address < address + bytes ? &bundle->rows[low] : NULL;
}

/* For a search, which stops at what is outside: that is the free rows alone. */
static enum search_region region_of(void *user, uint64_t address, uint64_t bytes)
{
    const struct exact *exact = user;
    return find_row(exact->bundle, address, bytes ? bytes : 1) ? SEARCH_OUTSIDE : SEARCH_INSIDE;
}

static int is_over(void *user)
{
    return monotonic_ns() >= ((const struct exact *)user)->end_ns;
}

/* ---- what is found ---- */

/* "attend+0x80, /src/paged.cu:12". Returns the line, 0 if it is not known. */
static int place_of(const struct exact *exact, uint64_t offset, struct cubin_line *line, char *out, size_t size)
{
    const struct rerun_input *input = &exact->replay->input;
    char kernel[256];
    finding_kernel_of(exact->bundle->symbol, kernel, sizeof kernel);
    int used = snprintf(out, size, "%s+0x%" PRIx64, kernel, offset);
    if (!cubin_find_kernel_line((struct span){input->image, input->image_bytes}, exact->bundle->symbol, offset, line))
        return 0;
    snprintf(out + used, size - (size_t)used, ", %.255s:%d", line->file, line->line);
    return line->line;
}

static void tell(struct exact *exact, const struct search *found)
{
    const struct evidence_lane *first = &found->lanes[0];
    const struct bundle_row *row = find_row(exact->bundle, first->address, found->access->bytes ? found->access->bytes : 1);
    struct evidence_site site = {.symbol = exact->bundle->symbol,
                                 .kernel_offset = found->access_pc,
                                 .instruction = found->access->text,
                                 .access = found->access->kind,
                                 .access_bytes = found->access->bytes};
    const char *does = found->access->kind == ACCESS_READ    ? "read of"
                       : found->access->kind == ACCESS_WRITE ? "write to"
                                                             : "atomic to";
    char reason[400], more[32] = "", place[600];
    struct cubin_line line;
    site.line = place_of(exact, site.kernel_offset, &line, place, sizeof place);
    site.file = site.line ? line.file : NULL;
    if (site.line && site.line == exact->told_line && row == exact->told_row)
        return;
    exact->told_line = site.line;
    exact->told_row = row;
    memcpy(site.block_index, found->block, sizeof site.block_index);
    if (found->lane_count > 1)
        snprintf(more, sizeof more, " and %zu more", found->lane_count - 1);
    snprintf(reason, sizeof reason, "%u bytes, from byte %" PRIu64 " of %s on, by block (%u,%u,%u) thread (%u,%u,%u)%s",
             site.access_bytes, first->address > row->address ? first->address - row->address : 0, row->text, found->block[0],
             found->block[1], found->block[2], first->thread[0], first->thread[1], first->thread[2], more);
    struct finding finding = {.origin = {.pid = (int)getpid(), .rank = -1, .device = -1},
                              .kind = found->access->kind == ACCESS_READ ? "read of a free region" : "write to a free region",
                              .reason = reason,
                              .access = {.is_known = 1, .kind = site.access, .bytes = site.access_bytes, .source = NO_ARGUMENT},
                              .address = {.certainty = CERTAIN_DERIVED, .is_one = 1, .value = first->address, .is_in_arena = 1},
                              .where = {.is_known = 1,
                                        .has_kernel = 1,
                                        .certainty = CERTAIN_DERIVED,
                                        .site = site,
                                        .lane = first,
                                        .is_warp_emulated = 1,
                                        .threads = found->lane_count}};
    snprintf(finding.headline, sizeof finding.headline, "%s a free region: %s", does, reason);
    char *json = exact->replay->is_json ? finding_json(&finding) : NULL;
    if (json)
        fputs(json, stdout);
    else
        printf("cufence replay: %s\ncufence replay:   %s at %s (derived)\n", finding.headline, site.instruction, place);
    free(json);
}

static void note(struct exact *exact, const struct search *found)
{
    exact->is_late |= found->is_over_before;
    if (found->lost && !found->lane_count && !exact->lost++)
        exact->lost_at = found->lost_at;
    exact->found += found->lane_count != 0;
    if (found->lane_count)
        tell(exact, found);
}

/* Follows all threads to their accesses. Returns 0 if the host has no memory. */
static int look_at_all(struct exact *exact)
{
    uint64_t count = exact->kernel.code.size / SASS_INSTRUCTION_BYTES;
    struct search *searches = calloc(count + 1, sizeof *searches);
    struct sass_access *accesses = calloc(count + 1, sizeof *accesses);
    enum access_kind kind;
    for (uint64_t i = 0; i < count && searches && accesses; i++) {
        struct sass_instruction instruction = sass_load(exact->kernel.code.bytes + i * SASS_INSTRUCTION_BYTES);
        if (!sass_decode(instruction, exact->kernel.sm, &accesses[exact->accesses])) {
            exact->unread += sass_class(instruction, &kind) != NULL;
            continue;
        }
        searches[exact->accesses] = (struct search){.launch = &exact->launch,
                                                    .access = &accesses[exact->accesses],
                                                    .access_pc = i * SASS_INSTRUCTION_BYTES,
                                                    .region = region_of,
                                                    .is_over = is_over,
                                                    .user = exact};
        exact->accesses++;
    }
    int is_done = searches && accesses && search_all(searches, exact->accesses);
    for (uint64_t i = 0; i < exact->accesses && is_done; i++)
        note(exact, &searches[i]);
    free(searches);
    free(accesses);
    return is_done;
}

/* Says what it comes to, and what could not be decided. */
static int conclude(const struct exact *exact, int faulted)
{
    FILE *out = exact->replay->is_json ? stderr : stdout;
    struct cubin_line line;
    char place[600];
    fprintf(out, "cufence replay: %" PRIu64 " of %" PRIu64 " accesses in the kernel's code lead%s to one of %zu free rows\n",
            exact->found, exact->accesses, exact->found == 1 ? "s" : "", exact->bundle->row_count);
    if (exact->is_late)
        complain("not all of them were followed: time ran out (--seconds)");
    place_of(exact, exact->lost_at, &line, place, sizeof place);
    if (exact->lost)
        complain("%" PRIu64 " of them are not decided for all threads: their way or address depends on values that are not "
                 "known, first at %s",
                 exact->lost, place);
    if (exact->unread)
        complain("%" PRIu64 " more are bulk copies, textures or surfaces, which are not followed", exact->unread);
    if (exact->bundle->has_more_rows)
        complain("more rows were free than the bundle has");
    int is_partial = exact->is_late || exact->lost || exact->unread || exact->bundle->has_more_rows;
    return exact->found ? faulted : is_partial ? STATUS_NO_VERDICT : 0;
}

/* ---- all of it ---- */

static int prepare(struct exact *exact)
{
    const struct rerun_input *input = &exact->replay->input;
    const struct rerun_launch *launch = &exact->replay->opened.launches[0];
    const struct bundle *bundle = exact->bundle;
    if (!cubin_find_kernel((struct span){input->image, input->image_bytes}, bundle->symbol, &exact->kernel))
        return complain("%s: the kernel's code is not a cubin, or calls code outside of it", exact->replay->folder);
    exact->held = calloc(bundle->buffer_count + bundle->pinned_count + 1, sizeof *exact->held);
    if (!exact->held)
        return complain("the host has no memory");
    for (size_t i = 0; i < bundle->buffer_count; i++)
        hold(exact, &bundle->buffers[i]);
    for (size_t i = 0; i < bundle->pinned_count; i++)
        hold(exact, &bundle->pinned[i]);
    exact->memory = (struct emulate_memory){read_memory, exact};
    exact->launch = emulate_launch_of(&exact->kernel, launch, &exact->memory);
    exact->end_ns = monotonic_ns() + exact->replay->seconds * 1000000000;
    return 0;
}

int replay_exact(struct replay *replay, int faulted)
{
    struct exact exact = {.replay = replay, .bundle = replay->opened.bundle};
    if (!exact.bundle->row_count)
        return complain("%s: no row of its buffers was free at the launch, or none was divided with cufence_region()",
                        replay->folder);
    int status = prepare(&exact);
    if (status == 0) {
        status = look_at_all(&exact) ? conclude(&exact, faulted) : complain("the host has no memory");
    }
    for (size_t i = 0; i < exact.held_count; i++)
        if (exact.held[i].file)
            munmap(exact.held[i].file, exact.held[i].mapped);
    free(exact.held);
    return status;
}
