/* The finding about kernels that hang, from where their threads stand and what is known of the memory that they look at. */
#include "parts.h"
#include "report.h"
#include "report_common.h"

#include "analysis/verdict/launches.h"

#include <inttypes.h>
#include <string.h>

/* ---- what the dump shows, as evidence ---- */

/* The higher, the more it tells. */
static int rank_of(const struct standing_place *place)
{
    const struct standing_wait *wait = &place->wait;
    return wait->kind == WAIT_POLL && wait->address ? 3 : wait->kind == WAIT_BARRIER && wait->absent ? 2 : wait->kind == WAIT_POLL;
}

static struct evidence_stop stop_of(const struct standing_grid *grid, const struct standing_place *place)
{
    const struct location *at = !place ? grid->at : place->wait.at ? place->wait.at : place->at;
    struct evidence_stop stop = {.kernel = grid->at->kernel,
                                 .symbol = grid->at->symbol,
                                 .kernel_start = at->kernel_start,
                                 .kernel_offset = at->kernel_offset,
                                 .error_pc = at->pc,
                                 .file = at->file,
                                 .line = at->line,
                                 .instruction = at->text,
                                 .access = at->has_access ? at->access.kind : ACCESS_UNKNOWN,
                                 .access_bytes = at->has_access ? at->access.bytes : 0,
                                 .has_grid = 1,
                                 .grid_id = grid->row.id,
                                 .parameters = grid->parameters.bytes,
                                 .parameter_bytes = grid->parameters.size};
    stop.shape = grid->row.shape;
    return stop;
}

void stuck_evidence(struct stuck_fact *stuck, const struct evidence *of_dump)
{
    const struct standing *standing = stuck->standing;
    stuck->evidence = *of_dump;
    stuck->evidence.stops = stuck->stops;
    stuck->place = standing->places;
    for (size_t i = 1; i < standing->place_count; i++)
        if (rank_of(&standing->places[i]) > rank_of(stuck->place))
            stuck->place = &standing->places[i];
    size_t count = 1;
    for (size_t i = 0; i < standing->grid_count && count < STUCK_KERNELS; i++) {
        const struct standing_grid *grid = &standing->grids[i];
        int is_first = grid->row.id == stuck->place->grid_id;
        if (grid->threads)
            stuck->stops[is_first ? 0 : count++] = stop_of(grid, is_first ? stuck->place : NULL);
    }
    struct evidence_stop *stop = &stuck->stops[0];
    memcpy(stuck->lane.thread, stuck->place->thread, sizeof stuck->lane.thread);
    memcpy(stop->block_index, stuck->place->block, sizeof stop->block_index);
    stuck->lane.address = stuck->place->wait.address;
    stuck->lane.certainty = stuck->lane.address ? CERTAIN_DERIVED : CERTAIN_NOT;
    stop->is_warp_alive = 1;
    stop->lanes = &stuck->lane;
    stop->lane_count = 1;
    stuck->evidence.stop_count = count;
}

/* ---- what is polled, and who may write it ---- */

struct range {
    uint64_t first, last;
};

/* Says where the address is, and returns the range of what it is part of. */
static struct range take_address(struct finding *finding, const struct stuck_fact *stuck)
{
    uint64_t address = stuck->lane.address, bytes = stuck->stops[0].access_bytes;
    const cufence_buffer *buffer = word_buffer(stuck->memory, address, 0);
    struct range range = {address, address + bytes - 1};
    finding->address = (struct address_fact){.certainty = CERTAIN_DERIVED, .is_one = 1, .value = address};
    if (buffer && address < buffer->address + buffer->size) {
        finding->buffer = part_buffer(buffer, stuck->memory->frames);
        finding->buffer.certainty = CERTAIN_DERIVED;
        finding->buffer.from = FROM_START;
        finding->buffer.distance = address - buffer->address;
        finding->address.is_in_arena = 1;
        range = (struct range){buffer->address, buffer->address + buffer->size - 1};
        part_add(finding->address.where, "byte %" PRIu64 " of buffer #%" PRIu64, finding->buffer.distance, buffer->id);
    } else if (stuck->host_bytes) {
        range = (struct range){stuck->host, stuck->host + stuck->host_bytes - 1};
        part_add(finding->address.where, "byte %" PRIu64 " of %s of pinned host memory", address - stuck->host,
                 bytes_of(stuck->host_bytes).text);
    } else {
        part_add(finding->address.where, "not in a guarded buffer");
    }
    if (stuck->has_value)
        part_add(finding->address.where, "; it holds %" PRIu64, stuck->value);
    return range;
}

static void add_kernel(char *text, size_t size, const char *symbol)
{
    char name[256];
    finding_kernel_of(symbol ? symbol : "", name, sizeof name);
    part_append(text, size, "%s", name[0] ? name : "a kernel");
}

/* The launches on its stream behind it, which begin only after it. Returns how many of all newer launches are given the memory. */
static size_t add_queue(struct finding *finding, const struct stuck_fact *stuck, struct range range)
{
    const struct launch_entry *own = finding->launch.launch ? finding->launch.launch->entry : NULL;
    const struct launch_entry *first = NULL;
    size_t behind = 0, given = 0, elsewhere = 0;
    for (size_t i = 0; own && i < stuck->memory->recent_count; i++) {
        const struct launch_entry *entry = &stuck->memory->recent[i];
        int is_newer = entry->time_ns > own->time_ns || (entry->tid == own->tid && entry->sequence > own->sequence);
        int has_it = range.last && has_word(entry->bytes, entry->kept_bytes, range.first, range.last);
        if (!is_newer || entry->stream != own->stream) {
            elsewhere += has_it && is_newer ? 1 : 0;
            continue;
        }
        behind++;
        given += has_it ? 1 : 0;
        first = !first || entry->sequence < first->sequence ? entry : first;
    }
    if (!behind)
        return elsewhere;
    struct note_fact *note = &finding->notes.list[finding->notes.count++];
    note->certainty = CERTAIN_DERIVED;
    part_add(note->text, "%zu launch%s behind it on its stream, the first of ", behind, behind == 1 ? " waits" : "es wait");
    add_kernel(note->text, sizeof note->text, first->function ? first->function->name : NULL);
    if (given)
        part_add(note->text, "; %zu of them %s given the memory that it looks at, and cannot begin", given,
                 given == 1 ? "is" : "are");
    return given + elsewhere;
}

static void add_writers(struct finding *finding, const struct stuck_fact *stuck, struct range range, size_t launches)
{
    size_t running = 0;
    struct note_fact *note = &finding->notes.list[finding->notes.count++];
    note->certainty = CERTAIN_DERIVED;
    part_add(note->text, "the value may come from ");
    for (size_t i = 1; i < stuck->evidence.stop_count; i++) {
        const struct evidence_stop *stop = &stuck->stops[i];
        if (!has_word(stop->parameters, stop->parameter_bytes, range.first, range.last))
            continue;
        part_add(note->text, "%s", running++ ? ", " : "");
        add_kernel(note->text, sizeof note->text, stop->symbol);
    }
    if (running)
        part_add(note->text, ", which hang%s too, ", running == 1 ? "s" : "");
    part_add(note->text, "%sother threads of the kernel%s%s", running ? "or " : "",
             launches ? " or launches behind it" : "", stuck->host_bytes && finding->buffer.buffer == NULL ? ", or the host" : "");
    if (!running && !launches)
        part_add(note->text, "; no other kernel under way, and none of the newer launches on record, is given its address");
}

void finding_of_stuck(struct finding *finding, struct stuck_fact *stuck, const struct finding_source *origin)
{
    char wait[160];
    struct range range = {0, 0};
    const struct standing_place *place = stuck->place;
    *finding = (struct finding){.origin = *origin,
                                .device = {.architecture = stuck->evidence.sm_type},
                                .kind = FINDING_STUCK,
                                .stuck = stuck,
                                .reason = stuck->reason,
                                .access = {.source = unnamed_argument},
                                .buffer = {.argument = unnamed_argument},
                                .now_ns = stuck->memory->now_ns};
    finding->where = (struct where_fact){.is_known = 1,
                                         .certainty = CERTAIN_EXACT,
                                         .stop = stuck->stops[0],
                                         .has_kernel = 1,
                                         .lane = &stuck->lane,
                                         .threads = place->threads,
                                         .warps = 1};
    if (!finding->where.stop.symbol)
        finding->where.stop.kernel_offset = UINT64_MAX;
    if (stuck->evidence.driver_major)
        part_add(finding->device.driver, "%" PRIu32 ".%" PRIu32, stuck->evidence.driver_major, stuck->evidence.driver_minor);
    finding->launch = launches_match(stuck->memory, &stuck->stops[0]);
    stuck->reason[0] = '\0';
    if (stuck->silent_ns)
        part_add(stuck->reason, "nothing was launched for %s, and the device still works; ", age_of(stuck->silent_ns).text);
    part_add(stuck->reason, "all %zu threads of %zu kernel%s wait", stuck->standing->threads, stuck->evidence.stop_count,
             plural(stuck->evidence.stop_count));
    standing_wait_text(place, wait, sizeof wait);
    part_add(finding->what, FINDING_STUCK);
    part_add(finding->headline, FINDING_STUCK ": %zu thread%s %s %s", place->threads, plural(place->threads),
             place->threads == 1 ? "is" : "are", wait);
    if (stuck->lane.address)
        range = take_address(finding, stuck);
    size_t launches = add_queue(finding, stuck, range);
    if (range.last)
        add_writers(finding, stuck, range, launches);
    finding_complete(finding);
}
