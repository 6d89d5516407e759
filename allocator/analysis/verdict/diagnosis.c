#include "diagnosis.h"

#include "base/reader.h"
#include "launches.h"
#include "owner.h"
#include "signature.h"

#include <string.h>

/* Buffers that the arguments of all fitting launches point to; a longer list would be of no use. */
#define MAX_SEEN 64
#define MAX_CANDIDATES (sizeof(((struct fault_candidates *)0)->list) / sizeof(((struct fault_candidates *)0)->list[0]))

/* A stop's best lane and the verdict on it; no lane if the warp had exited. */
struct finding {
    const struct evidence_stop *stop;
    const struct evidence_lane *lane;
    struct verdict verdict;
    int is_bystander;
};

/* Returns 1 if finding a explains more than b. Among lanes with equal rank, the distance decides: the first element out of
 * bounds says most about the bug. */
static int is_better(const struct finding *a, const struct finding *b)
{
    const struct evidence_lane *lane_a = a->lane, *lane_b = b->lane;
    if (a->verdict.rank != b->verdict.rank)
        return a->verdict.rank > b->verdict.rank;
    if (!lane_a != !lane_b)
        return lane_a != NULL;
    /* An error PC without a known function may belong to another process. */
    if (a->verdict.rank == RANK_SITE && !a->stop->symbol != !b->stop->symbol)
        return a->stop->symbol != NULL;
    if (!lane_a)
        return a->is_bystander < b->is_bystander;
    if (a->verdict.rank != RANK_SITE && lane_a->certainty != lane_b->certainty)
        return lane_a->certainty > lane_b->certainty;
    if (a->verdict.rank == RANK_OWNED)
        return a->verdict.distance < b->verdict.distance;
    return !!lane_a->has_exception > !!lane_b->has_exception;
}

static int is_same_place(const struct evidence_stop *a, const struct evidence_stop *b)
{
    if (a->error_pc != b->error_pc || !a->symbol != !b->symbol)
        return 0;
    return !a->symbol || !strcmp(a->symbol, b->symbol);
}

/* Counts further SMs with an error at this place whose warps had exited or are no evidence. Sites are in SM order. */
static void count_sms(const struct evidence *evidence, struct diagnosis *diagnosis)
{
    uint32_t own = diagnosis->stop->sm, last = own;
    for (size_t i = 0; i < evidence->stop_count; i++) {
        const struct evidence_stop *stop = &evidence->stops[i];
        if (stop->sm == own || stop->sm == last || !is_same_place(stop, diagnosis->stop))
            continue;
        diagnosis->access.other_stops++;
        last = stop->sm;
    }
}

/* Counts other warps and threads that faulted in the same way. Lanes without an address count if the dump marks them. */
static void count_others(const struct evidence *evidence, const struct fault_memory *memory, struct diagnosis *diagnosis)
{
    for (size_t i = 0; i < evidence->stop_count; i++) {
        const struct evidence_stop *stop = &evidence->stops[i];
        if (!is_same_place(stop, diagnosis->stop))
            continue;
        diagnosis->access.other_stops += stop != diagnosis->stop;
        for (size_t j = 0; stop->is_warp_alive && j < stop->lane_count; j++) {
            const struct evidence_lane *lane = &stop->lanes[j];
            enum exception_class class = stop->exception.class;
            uint64_t at;
            if (lane->may_be_apart && lane != diagnosis->access.lane)
                continue;
            int is_earlier_out =
                lane->is_earlier && is_told(memory, lane) && first_unmapped(memory, lane->address, access_bytes(stop), &at);
            if ((lane->certainty == CERTAIN_NOT && !is_earlier_out) || class == CLASS_OTHER || class == CLASS_NO_BUFFER)
                diagnosis->access.threads += lane->has_exception || lane == diagnosis->access.lane;
            else if (class == CLASS_MISALIGNED)
                diagnosis->access.threads += (size_t)is_misaligned(stop, lane);
            else
                diagnosis->access.threads += (size_t)first_unmapped(memory, lane->address, access_bytes(stop), &at);
        }
    }
}

struct fault_neighbours fault_neighbours(const struct diagnosis *diagnosis)
{
    const struct fault_memory *memory = diagnosis->memory;
    const cufence_buffer *owner = diagnosis->verdict.owner;
    uint64_t at = diagnosis->verdict.at;
    struct fault_neighbours found = {NULL, NULL};
    for (size_t i = 0; i < memory->near_count && diagnosis->access.certainty != CERTAIN_NOT; i++) {
        const cufence_buffer *buffer = &memory->near[i];
        if (buffer->freed_ns || (owner && buffer->device != owner->device))
            continue;
        if (buffer->mapping_end <= at && (!found.previous || buffer->mapping_end > found.previous->mapping_end))
            found.previous = buffer;
        if (buffer->mapping_start > at && (!found.next || buffer->mapping_start < found.next->mapping_start))
            found.next = buffer;
    }
    return found;
}

/* Which buffers become candidates. */
struct choice {
    int is_writable; /* only buffers that the kernel may write */
    const cufence_buffer *seen[MAX_SEEN];
    size_t seen_count;
};

/* Returns 0 if the buffer was already seen. */
static int see(struct choice *choice, const cufence_buffer *buffer)
{
    for (size_t i = 0; i < choice->seen_count; i++)
        if (choice->seen[i]->id == buffer->id)
            return 0;
    if (choice->seen_count == MAX_SEEN)
        return 0;
    choice->seen[choice->seen_count++] = buffer;
    return 1;
}

static void add_candidate(struct fault_candidates *candidates, const cufence_buffer *buffer, int word)
{
    candidates->total++;
    if (candidates->count == MAX_CANDIDATES)
        return;
    candidates->list[candidates->count] = buffer;
    candidates->parameter[candidates->count++] = word;
}

/* Returns 1 if the code shows which words the address comes from. If it is a sum of a loaded value and a word, either may be
 * the pointer. */
static int is_traceable(const struct evidence_stop *stop)
{
    return stop->source.is_known && !stop->source.is_loaded;
}

/* Returns 1, and notes why, if the buffer that parameter word `word` points to is not a candidate. */
static int is_left_out(struct diagnosis *diagnosis, const struct choice *choice, size_t word)
{
    const struct evidence_stop *stop = fault_stop(diagnosis);
    const struct launch_function *layout = diagnosis->arguments.layout;
    uint32_t offset;
    int argument = launch_argument_of(layout, word, &offset);
    if (is_traceable(stop)) {
        diagnosis->candidates.excluded = EXCLUDED_BY_CODE;
        return !parameter_may_be_used(stop, word);
    }
    if (choice->is_writable && argument >= 0 && signature_is_const(stop->kernel, layout->argument_count, (size_t)argument)) {
        diagnosis->candidates.excluded = EXCLUDED_CONST;
        return 1;
    }
    return 0;
}

/* Adds the buffers that parameter bytes point to. */
static void add_pointers(struct diagnosis *diagnosis, struct choice *choice, const uint8_t *bytes, size_t count,
                         uint64_t time_ns)
{
    const struct launch_function *layout = diagnosis->arguments.layout;
    for (size_t i = 0; i < count / sizeof(uint64_t); i++) {
        uint32_t offset;
        uint64_t word = load_u64(bytes + i * sizeof word);
        const cufence_buffer *buffer =
            !layout || launch_argument_of(layout, i, &offset) >= 0 ? word_buffer(diagnosis->memory, word, time_ns) : NULL;
        if (buffer && !is_left_out(diagnosis, choice, i) && see(choice, buffer))
            add_candidate(&diagnosis->candidates, buffer, (int)i);
    }
}

/* Adds candidates from the kernel's arguments: those in the dump, otherwise those of fitting launches, newest first. A
 * launch that was still running precedes those that may have ended. */
static void add_arguments(struct diagnosis *diagnosis, int is_writable)
{
    const struct fault_memory *memory = diagnosis->memory;
    const struct evidence_stop *stop = fault_stop(diagnosis);
    struct choice choice = {.is_writable = is_writable};
    diagnosis->candidates = (struct fault_candidates){.certainty = CERTAIN_CANDIDATE};
    if (diagnosis->stop->parameters)
        add_pointers(diagnosis, &choice, diagnosis->stop->parameters, diagnosis->stop->parameter_bytes, 0);
    for (size_t i = 0; !stop->parameters && diagnosis->origin.fits && i < memory->launch_count; i++) {
        const struct launch_entry *launch = memory->launches[i].entry;
        if (launch_fits(launch, stop))
            add_pointers(diagnosis, &choice, launch->bytes, launch->kept_bytes, launch->time_ns);
    }
}

static enum candidate_source source_of_arguments(const struct diagnosis *diagnosis)
{
    if (fault_stop(diagnosis)->parameters)
        return CANDIDATES_ARGUMENTS;
    return diagnosis->origin.fits ? CANDIDATES_LAUNCHES : CANDIDATES_RUNNING;
}

/* Returns 1 if the arguments are certainly those of the faulting launch, and complete. */
static int is_sure_of_arguments(const struct diagnosis *diagnosis)
{
    const struct launch_match *origin = &diagnosis->origin;
    if (diagnosis->candidates.source == CANDIDATES_ARGUMENTS)
        return !fault_stop(diagnosis)->is_grid_borrowed || launches_of_kernel(diagnosis->memory, diagnosis->stop) == 1;
    return diagnosis->candidates.source == CANDIDATES_LAUNCHES && origin->fits == 1 &&
           launches_of_kernel(diagnosis->memory, diagnosis->stop) == 1 &&
           origin->launch->entry->kept_bytes == origin->launch->entry->argument_bytes;
}

static void find_candidates(const struct fault_memory *memory, struct diagnosis *diagnosis)
{
    const struct evidence_stop *stop = fault_stop(diagnosis);
    struct fault_candidates *candidates = &diagnosis->candidates;
    add_arguments(diagnosis, stop->access == ACCESS_WRITE || stop->access == ACCESS_ATOMIC);
    if (!candidates->count && candidates->excluded == EXCLUDED_CONST)
        add_arguments(diagnosis, 0);
    if (candidates->count) {
        candidates->source = source_of_arguments(diagnosis);
        if (candidates->total == 1 && candidates->excluded == EXCLUDED_BY_CODE && is_sure_of_arguments(diagnosis))
            candidates->certainty = CERTAIN_DERIVED;
    } else if (diagnosis->verdict.kind == FAULT_ILLEGAL_ACCESS && candidates->excluded != EXCLUDED_BY_CODE) {
        for (size_t i = 0; i < memory->live_count; i++)
            add_candidate(candidates, &memory->live[i], -1);
        candidates->total = memory->live_total;
    }
}

void diagnosis_find_parameter(struct diagnosis *diagnosis)
{
    const struct fault_arguments *arguments = &diagnosis->arguments;
    const cufence_buffer *owner = diagnosis->verdict.owner;
    for (size_t i = 0; arguments->layout && i < arguments->count / sizeof(uint64_t) && diagnosis->verdict.parameter < 0; i++) {
        uint32_t offset;
        uint64_t word = load_u64(arguments->bytes + i * sizeof word);
        if (word >= owner->address && word - owner->address <= owner->size &&
            launch_argument_of(arguments->layout, i, &offset) >= 0)
            diagnosis->verdict.parameter = (int)i;
    }
}

/* Returns the best of a stop's lanes, except those in bounds. */
static struct finding find_lane(const struct fault_memory *memory, const struct evidence_stop *stop)
{
    struct finding best = {stop, NULL, owner_judge(memory, stop, NULL), 0};
    size_t lanes = stop->is_warp_alive ? stop->lane_count : 0;
    for (size_t i = 0; i < lanes; i++) {
        struct finding found = {stop, &stop->lanes[i], owner_judge(memory, stop, &stop->lanes[i]), 0};
        if (found.verdict.rank != RANK_INNOCENT && (!best.lane || is_better(&found, &best)))
            best = found;
    }
    best.is_bystander = lanes > 0 && !best.lane;
    return best;
}

static int is_in_same_kernel(const struct evidence_stop *a, const struct evidence_stop *b)
{
    return a->symbol && b->symbol && !strcmp(a->symbol, b->symbol) && a->is_in_driver == b->is_in_driver;
}

static int is_place(const struct evidence_stop *other, const struct evidence_stop *place)
{
    return is_in_same_kernel(other, place) && other->kernel_offset == place->kernel_offset;
}

int diagnosis_is_copy(const struct evidence_stop *other, const struct evidence_stop *place)
{
    int is_same_line = other->file && place->file && other->line == place->line && !strcmp(other->file, place->file);
    int is_same_access =
        other->access != ACCESS_UNKNOWN && other->access == place->access && other->access_bytes == place->access_bytes;
    return is_place(other, place) || (is_in_same_kernel(other, place) && is_same_line && is_same_access);
}

/* Sets the stop and the lane that explain most, and returns the verdict on them. place: only alive warps there, NULL: all. */
static struct verdict choose(const struct evidence *evidence, const struct fault_memory *memory,
                             const struct evidence_stop *place, int with_copies, struct diagnosis *diagnosis)
{
    struct finding best = {.verdict = {.kind = FAULT_OTHER, .parameter = -1}};
    for (size_t i = 0; i < evidence->stop_count; i++) {
        const struct evidence_stop *stop = &evidence->stops[i];
        if (place && !(stop->is_warp_alive && (with_copies ? diagnosis_is_copy : is_place)(stop, place)))
            continue;
        struct finding found = find_lane(memory, stop);
        if (!best.stop || is_better(&found, &best))
            best = found;
    }
    diagnosis->stop = best.stop;
    diagnosis->access.lane = best.lane;
    diagnosis->is_bystander = best.is_bystander;
    return best.verdict;
}

const struct evidence_stop *fault_stop(const struct diagnosis *diagnosis)
{
    return diagnosis->stop ? &diagnosis->view : NULL;
}

int fault_has_exited(const struct diagnosis *diagnosis)
{
    const struct evidence_stop *stop = diagnosis->stop;
    return diagnosis->is_bystander || stop->is_grid_borrowed || !stop->is_warp_alive;
}

/*
 * Removes data that may belong to another launch from the stop of an exited warp. The dump contains running launches; if there
 * were several of one kernel, as in a graph, the faulting one may have ended before.
 */
static void set_view(const struct fault_memory *memory, struct diagnosis *diagnosis)
{
    const struct evidence_stop *stop = diagnosis->stop;
    struct evidence_stop *view = &diagnosis->view;
    *view = *stop;
    if (!diagnosis->is_bystander && !stop->is_grid_borrowed)
        return;
    size_t launches = launches_of_kernel(memory, stop);
    view->is_warp_alive = 0;
    view->is_grid_borrowed = 1;
    view->lanes = NULL;
    view->lane_count = 0;
    if (launches == 1 || (launches == 0 && !diagnosis->is_bystander))
        return;
    view->has_grid = 0;
    view->parameters = NULL;
    view->parameter_bytes = 0;
}

void diagnosis_of_place(const struct evidence *evidence, const struct fault_memory *memory, const struct evidence_stop *place,
                        int with_copies, struct diagnosis *diagnosis)
{
    *diagnosis = (struct diagnosis){.evidence = evidence, .memory = memory};
    memory_meet(memory, evidence);
    diagnosis->verdict = choose(evidence, memory, place, with_copies, diagnosis);
    const struct verdict *verdict = &diagnosis->verdict;
    const struct evidence_lane *lane = diagnosis->access.lane;
    if (!diagnosis->stop)
        return;
    set_view(memory, diagnosis);

    /* Of a lower rank, the address may be known, but the lane did not fault there. */
    if (lane && verdict->rank > RANK_SITE && verdict->kind != FAULT_OTHER) {
        diagnosis->access.address = lane->address;
        diagnosis->access.certainty = lane->is_earlier ? CERTAIN_DERIVED : lane->certainty;
    }
    if (fault_stop(diagnosis)->is_warp_alive)
        count_others(evidence, memory, diagnosis);
    else
        count_sms(evidence, diagnosis);
    diagnosis->origin = launches_match(memory, fault_stop(diagnosis));
    diagnosis->arguments = launches_arguments(memory, fault_stop(diagnosis), &diagnosis->origin);
    if (diagnosis->verdict.owner && !diagnosis->stop->parameters && diagnosis->arguments.certainty == CERTAIN_EXACT)
        diagnosis_find_parameter(diagnosis);
    if (!diagnosis->verdict.owner && (verdict->kind == FAULT_ILLEGAL_ACCESS || verdict->kind == FAULT_WILD))
        find_candidates(memory, diagnosis);
}

void fault_diagnose(const struct evidence *evidence, const struct fault_memory *memory, struct diagnosis *diagnosis)
{
    diagnosis_of_place(evidence, memory, NULL, 0, diagnosis);
}

int fault_is_address_sure(const struct diagnosis *diagnosis)
{
    const struct evidence_lane *lane = diagnosis->access.lane;
    enum certainty certainty = diagnosis->access.certainty;
    return certainty > CERTAIN_DERIVED || (certainty == CERTAIN_DERIVED && lane && (lane->is_replayed || lane->is_earlier));
}

int fault_source_word(const struct diagnosis *diagnosis)
{
    const struct address_source *source = &diagnosis->stop->source;
    int is_one = is_traceable(diagnosis->stop) && source->words && (source->words & (source->words - 1)) == 0;
    return is_one ? __builtin_ctz(source->words) : -1;
}

int fault_is_loaded(const struct diagnosis *diagnosis)
{
    const struct address_source *source = &diagnosis->stop->source;
    return source->is_known && source->is_loaded && !source->words;
}

size_t fault_other_places(const struct diagnosis *diagnosis, const struct evidence_stop *places[FAULT_PLACES])
{
    const struct evidence *evidence = diagnosis->evidence;
    size_t count = 0;
    for (size_t i = 0; i < evidence->stop_count && count < FAULT_PLACES; i++) {
        const struct evidence_stop *stop = &evidence->stops[i];
        int is_known = is_same_place(stop, diagnosis->stop);
        for (size_t k = 0; k < count && !is_known; k++)
            is_known = is_same_place(stop, places[k]);
        if (!is_known)
            places[count++] = stop;
    }
    return count;
}

const char *const fault_kind_names[] = {
    [FAULT_OVERRUN] = "overrun",
    [FAULT_UNDERRUN] = "underrun",
    [FAULT_USE_AFTER_FREE] = "use-after-free",
    [FAULT_WILD] = "wild address",
    [FAULT_NULL] = "null pointer",
    [FAULT_HOST_POINTER] = "host pointer",
    [FAULT_MISALIGNED] = "misaligned access",
    [FAULT_ILLEGAL_ACCESS] = "illegal access",
    [FAULT_OTHER] = "exception",
};
