/* The finding about kernels that hang, from where their threads stand and what is known of the memory that they look at. */
#include "report.h"
#include "report_common.h"
#include "parts.h"

#include "analysis/verdict/launches.h"

#include <inttypes.h>
#include <string.h>

/* The higher, the more it tells. */
static int rank_of(const struct standing_wait *wait)
{
    return wait->address ? 3 : wait->kind == WAIT_BARRIER && wait->absent ? 2 : wait->kind == WAIT_POLL;
}

void stuck_evidence(struct stuck_fact *stuck, const struct evidence *of_dump)
{
    const struct standing *standing = stuck->standing;
    const struct standing_place *place = standing->places;
    for (size_t i = 1; i < standing->place_count; i++)
        if (rank_of(&standing->places[i].wait) > rank_of(&place->wait))
            place = &standing->places[i];
    const struct standing_grid *grid = place->grid;
    const struct location *at = place->wait.at ? place->wait.at : place->at;
    stuck->place = place;
    stuck->lane = (struct evidence_lane){.address = place->wait.address,
                                         .certainty = place->wait.address ? CERTAIN_DERIVED : CERTAIN_NOT};
    stuck->stop = (struct evidence_stop){.kernel = grid->at->kernel,
                                         .symbol = grid->at->symbol,
                                         .kernel_offset = at->symbol ? at->kernel_offset : UINT64_MAX,
                                         .error_pc = at->pc,
                                         .file = at->file,
                                         .line = at->line,
                                         .instruction = at->text,
                                         .access_bytes = at->access.bytes,
                                         .has_grid = grid->has_grid,
                                         .grid_id = grid->row.id,
                                         .shape = grid->row.shape,
                                         .parameters = grid->parameters.bytes,
                                         .parameter_bytes = grid->parameters.size,
                                         .is_warp_alive = 1,
                                         .lanes = &stuck->lane,
                                         .lane_count = 1};
    memcpy(stuck->lane.thread, place->thread, sizeof place->thread);
    memcpy(stuck->stop.block_index, place->block, sizeof place->block);
    stuck->evidence = *of_dump;
    stuck->evidence.stops = &stuck->stop;
    stuck->evidence.stop_count = 1;
}

/* Says where the address is, and sets *first and *last to the bounds of what it is part of. */
static void take_address(struct finding *finding, const struct stuck_fact *stuck, uint64_t *first, uint64_t *last)
{
    uint64_t address = stuck->lane.address;
    const cufence_buffer *buffer = word_buffer(stuck->memory, address, 0);
    struct address_fact *fact = &finding->address;
    *fact = (struct address_fact){.certainty = CERTAIN_DERIVED, .is_one = 1, .value = address};
    *first = address;
    *last = address + stuck->stop.access_bytes - 1;
    if (buffer && address < buffer->address + buffer->size) {
        part_inside(finding, buffer, stuck->memory->frames, address, CERTAIN_DERIVED);
        *first = buffer->address;
        *last = buffer->address + buffer->size - 1;
        part_add(fact->where, "byte %" PRIu64 " of buffer #%" PRIu64, address - buffer->address, buffer->id);
    } else if (stuck->host_bytes) {
        *first = stuck->host;
        *last = stuck->host + stuck->host_bytes - 1;
        part_add(fact->where, "byte %" PRIu64 " of pinned host memory", address - stuck->host);
    } else if (finding->launch.launch && finding->launch.launch->entry->is_cooperative) {
        part_add(fact->where, "perhaps where the blocks of this cooperative launch meet");
    }
    if (stuck->has_value)
        part_add(fact->where, "%sit holds %" PRIu64, fact->where[0] ? "; " : "", stuck->value);
}

/* What is known of the time is exact only among the launches of a thread. One that was captured runs when its graph does. */
static int is_newer(const struct launch_entry *entry, const struct launch_entry *than)
{
    return !entry->node && (entry->tid == than->tid ? entry->sequence > than->sequence : entry->time_ns > than->time_ns);
}

/* Launches that are newer than the kernel's: on its stream, and on others, which may have ended. */
struct newer {
    size_t behind;
    size_t given_behind, given_apart; /* those that are given the memory */
    int is_all;                       /* the kernel's is on record, and so are all newer ones */
};

static struct newer find_newer(const struct finding *finding, const struct stuck_fact *stuck, uint64_t first, uint64_t last)
{
    const struct launch_entry *own = finding->launch.launch ? finding->launch.launch->entry : NULL;
    struct newer newer = {0};
    for (size_t i = 0; own && i < stuck->memory->recent_count; i++) {
        const struct launch_entry *entry = &stuck->memory->recent[i];
        int is_behind = entry->stream == own->stream;
        newer.is_all |= finding->launch.fits == 1 && entry->tid == own->tid && entry->sequence == own->sequence;
        if (!is_newer(entry, own))
            continue;
        newer.behind += is_behind ? 1 : 0;
        if (last && has_word(entry->bytes, entry->kept_bytes, first, last))
            ++*(is_behind ? &newer.given_behind : &newer.given_apart);
    }
    return newer;
}

/* Says who may write memory from `first` to `last` (0: none is known), and how many launches wait for the kernel to end. */
static void add_writers(struct finding *finding, const struct stuck_fact *stuck, uint64_t first, uint64_t last)
{
    const struct newer newer = find_newer(finding, stuck, first, last);
    char name[256];
    struct note_fact *note = &finding->notes.list[finding->notes.count++];
    note->certainty = last ? CERTAIN_CANDIDATE : CERTAIN_DERIVED;
    if (last)
        part_add(note->text, "may write it: other threads of the kernel");
    for (size_t i = 0; last && i < stuck->standing->grid_count; i++) {
        const struct standing_grid *grid = &stuck->standing->grids[i];
        finding_kernel_of(grid->at->symbol ? grid->at->symbol : "", name, sizeof name);
        if (grid->threads && grid != stuck->place->grid && has_word(grid->parameters.bytes, grid->parameters.size, first, last))
            part_add(note->text, ", %s, which is under way", name[0] ? name : "a kernel");
    }
    if (stuck->host_bytes && !finding->buffer.buffer)
        part_add(note->text, ", the host");
    if (newer.given_behind + newer.given_apart)
        part_add(note->text, ", newer launches that are given it: ");
    if (newer.given_behind)
        part_add(note->text, "%zu behind the kernel%s", newer.given_behind, newer.given_apart ? ", " : "");
    if (newer.given_apart)
        part_add(note->text, "%zu on other streams, which may have ended", newer.given_apart);
    if (newer.behind)
        part_add(note->text, "%s%s%zu launch%s behind the kernel on its stream", last ? "; " : "",
                 newer.is_all ? "" : "at least ", newer.behind, newer.behind == 1 ? " waits" : "es wait");
    finding->notes.count -= !note->text[0];
}

void finding_of_stuck(struct finding *finding, struct stuck_fact *stuck, const struct finding_source *origin)
{
    const struct standing_place *place = stuck->place;
    uint64_t first = 0, last = 0;
    *finding = (struct finding){.origin = *origin,
                                .device = {.architecture = stuck->evidence.sm_type},
                                .kind = FINDING_STUCK,
                                .what = FINDING_STUCK,
                                .stuck = stuck,
                                .reason = stuck->reason,
                                .access = {.source = unnamed_argument},
                                .buffer = {.argument = unnamed_argument},
                                .where = {.is_known = 1,
                                          .certainty = CERTAIN_EXACT,
                                          .stop = stuck->stop,
                                          .has_kernel = 1,
                                          .lane = &stuck->lane,
                                          .threads = place->threads,
                                          .warps = 1},
                                .launch = launches_match(stuck->memory, &stuck->stop),
                                .now_ns = stuck->memory->now_ns};
    if (!origin->device_name)
        finding->origin.device_name = stuck->evidence.device_name;
    part_add(finding->device.driver, "%" PRIu32 ".%" PRIu32, stuck->evidence.driver_major, stuck->evidence.driver_minor);
    if (stuck->silent_ns)
        part_add(stuck->reason, "for %s nothing was launched and nothing has ended; ", age_of(stuck->silent_ns).text);
    if (stuck->standing->is_stuck)
        part_add(stuck->reason, "all %zu threads wait", stuck->standing->threads);
    else
        part_add(stuck->reason, "%zu of %zu threads are known to wait", stuck->standing->waiting, stuck->standing->threads);
    if (!stuck->memory->is_unknown)
        part_add(stuck->reason, ". With its dump the driver has ended them");
    part_add(finding->headline, FINDING_STUCK ": %zu thread%s ", place->threads, plural(place->threads));
    standing_add_wait(place, finding->headline, sizeof finding->headline);
    if (stuck->lane.address)
        take_address(finding, stuck, &first, &last);
    add_writers(finding, stuck, first, last);
    finding_complete(finding);
}
