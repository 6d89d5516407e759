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

static struct evidence_stop stop_of(const struct standing_grid *grid, const struct location *at)
{
    const uint32_t *size = grid->row.grid;
    return (struct evidence_stop){.kernel = grid->at->kernel,
                                  .symbol = grid->at->symbol,
                                  .kernel_offset = at->symbol ? at->kernel_offset : UINT64_MAX,
                                  .error_pc = at->pc,
                                  .file = at->file,
                                  .line = at->line,
                                  .instruction = at->text,
                                  .access_bytes = at->access.bytes,
                                  .has_grid = grid->blocks <= (uint64_t)size[0] * size[1] * size[2], /* else: cooperative */
                                  .grid_id = grid->row.id,
                                  .shape = grid->row.shape,
                                  .parameters = grid->parameters.bytes,
                                  .parameter_bytes = grid->parameters.size};
}

void stuck_evidence(struct stuck_fact *stuck, const struct evidence *of_dump)
{
    const struct standing *standing = stuck->standing;
    const struct standing_place *first = stuck->place = standing->places;
    struct evidence_stop *stop = stuck->stops;
    size_t count = 1;
    for (size_t i = 1; i < standing->place_count; i++)
        if (rank_of(&standing->places[i].wait) > rank_of(&first->wait))
            first = stuck->place = &standing->places[i];
    for (size_t i = 0; i < standing->grid_count && count < STUCK_KERNELS; i++) {
        const struct standing_grid *grid = &standing->grids[i];
        if (grid->row.id == first->grid_id)
            *stop = stop_of(grid, first->wait.at ? first->wait.at : first->at);
        else if (grid->threads)
            stop[count++] = stop_of(grid, grid->at);
    }
    stuck->lane = (struct evidence_lane){.address = first->wait.address,
                                         .certainty = first->wait.address ? CERTAIN_DERIVED : CERTAIN_NOT};
    memcpy(stuck->lane.thread, first->thread, sizeof first->thread);
    memcpy(stop->block_index, first->block, sizeof first->block);
    stop->is_warp_alive = 1;
    stop->lanes = &stuck->lane;
    stop->lane_count = 1;
    stuck->evidence = *of_dump;
    stuck->evidence.stops = stop;
    stuck->evidence.stop_count = count;
}

/* Says where the address is, and sets *first and *last to the bounds of what it is part of. */
static void take_address(struct finding *finding, const struct stuck_fact *stuck, uint64_t *first, uint64_t *last)
{
    uint64_t address = stuck->lane.address;
    const cufence_buffer *buffer = word_buffer(stuck->memory, address, 0);
    struct address_fact *fact = &finding->address;
    *fact = (struct address_fact){.certainty = CERTAIN_DERIVED, .is_one = 1, .value = address};
    *first = address;
    *last = address + finding->where.stop.access_bytes - 1;
    if (buffer && address < buffer->address + buffer->size) {
        finding->buffer = part_buffer(buffer, stuck->memory->frames);
        finding->buffer.certainty = CERTAIN_DERIVED;
        finding->buffer.from = FROM_START;
        finding->buffer.distance = address - buffer->address;
        fact->is_in_arena = 1;
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

/* Says which kernels are given memory from `first` to `last`, and how many launches wait for the kernel to end. */
static void add_writers(struct finding *finding, const struct stuck_fact *stuck, uint64_t first, uint64_t last)
{
    const struct launch_entry *own = finding->launch.launch ? finding->launch.launch->entry : NULL;
    size_t behind = 0, given = 0, elsewhere = 0;
    char name[256];
    struct note_fact *note = &finding->notes.list[finding->notes.count++];
    for (size_t i = 0; own && i < stuck->memory->recent_count; i++) {
        const struct launch_entry *entry = &stuck->memory->recent[i];
        int is_behind = entry->stream == own->stream && entry->sequence > own->sequence;
        int has_it = last && has_word(entry->bytes, entry->kept_bytes, first, last);
        behind += is_behind ? 1 : 0;
        given += is_behind && has_it ? 1 : 0;
        elsewhere += !is_behind && has_it && entry->time_ns > own->time_ns ? 1 : 0;
    }
    note->certainty = CERTAIN_DERIVED;
    if (last) {
        part_add(note->text, "may write it: other threads of the kernel");
        for (size_t i = 1; i < stuck->evidence.stop_count; i++) {
            const struct evidence_stop *stop = &stuck->stops[i];
            finding_kernel_of(stop->symbol ? stop->symbol : "", name, sizeof name);
            if (has_word(stop->parameters, stop->parameter_bytes, first, last))
                part_add(note->text, ", %s, which is under way", name[0] ? name : "a kernel");
        }
        part_add(note->text, "%s", finding->buffer.buffer || !stuck->host_bytes ? "" : ", the host");
    }
    if (last && given + elsewhere)
        part_add(note->text, ", newer launches that are given it: %zu behind the kernel, %zu on other streams", given,
                 elsewhere);
    if (behind)
        part_add(note->text, "%s%zu launch%s behind the kernel on its stream", last ? "; " : "", behind,
                 behind == 1 ? " waits" : "es wait");
    finding->notes.count -= !note->text[0];
}

void finding_of_stuck(struct finding *finding, struct stuck_fact *stuck, const struct finding_source *origin)
{
    const struct standing_place *place = stuck->place;
    const struct evidence *evidence = &stuck->evidence;
    uint64_t first = 0, last = 0;
    char wait[160];
    *finding = (struct finding){.origin = *origin,
                                .device = {.architecture = evidence->sm_type},
                                .kind = FINDING_STUCK,
                                .stuck = stuck,
                                .reason = stuck->reason,
                                .access = {.source = unnamed_argument},
                                .buffer = {.argument = unnamed_argument},
                                .where = {.is_known = 1,
                                          .certainty = CERTAIN_EXACT,
                                          .stop = stuck->stops[0],
                                          .has_kernel = 1,
                                          .lane = &stuck->lane,
                                          .threads = place->threads,
                                          .warps = 1},
                                .launch = launches_match(stuck->memory, &stuck->stops[0]),
                                .now_ns = stuck->memory->now_ns};
    part_add(finding->device.driver, "%" PRIu32 ".%" PRIu32, evidence->driver_major, evidence->driver_minor);
    stuck->reason[0] = '\0';
    if (stuck->silent_ns)
        part_add(stuck->reason, "nothing was launched for %s, and the device still worked; ", age_of(stuck->silent_ns).text);
    part_add(stuck->reason, "%s %zu threads of %zu kernel%s wait. With its dump the driver has ended them",
             standing_is_stuck(stuck->standing) ? "all" : "not all", stuck->standing->threads, evidence->stop_count,
             plural(evidence->stop_count));
    standing_wait_text(place, wait, sizeof wait);
    part_add(finding->what, FINDING_STUCK);
    part_add(finding->headline, FINDING_STUCK ": %zu thread%s %s", place->threads, plural(place->threads),
             wait[0] ? wait : "at work");
    if (stuck->lane.address)
        take_address(finding, stuck, &first, &last);
    add_writers(finding, stuck, first, last);
    finding_complete(finding);
}
