#include "diagnosis.h"

#include "arguments.h"
#include "complete.h"
#include "launches.h"
#include "owner.h"
#include "signature.h"

#include <string.h>

/* Buffers that the arguments of all launches that fit point to; there is no more to be said of so many. */
#define MAX_SEEN 64
#define MAX_CANDIDATES (sizeof(((struct diagnosis *)0)->candidates) / sizeof(((struct diagnosis *)0)->candidates[0]))

/* Whether a lane explains more than another. Distances decide between lanes that are equally well known: the first element
 * out of bounds says most about the bug. */
static int is_better(const struct verdict *a, const struct evidence_lane *lane_a, const struct verdict *b,
                     const struct evidence_lane *lane_b)
{
    if (a->rank != b->rank)
        return a->rank > b->rank;
    if (!lane_a || !lane_b)
        return lane_a && !lane_b;
    if (lane_a->certainty != lane_b->certainty)
        return lane_a->certainty > lane_b->certainty;
    if (a->rank == RANK_OWNED)
        return a->distance < b->distance;
    return !!lane_a->has_exception > !!lane_b->has_exception;
}

static int is_same_place(const struct evidence_site *a, const struct evidence_site *b)
{
    if (a->error_pc != b->error_pc || !a->symbol != !b->symbol)
        return 0;
    return !a->symbol || !strcmp(a->symbol, b->symbol);
}

/* Counts what else faulted in the same way. Lanes without an address count if the dump marks them. */
static void count_others(const struct evidence *evidence, const struct fault_memory *memory,
                         const struct completion *completion, struct diagnosis *diagnosis)
{
    for (size_t i = 0; i < evidence->site_count; i++) {
        const struct evidence_site *site = &evidence->sites[i];
        if (!is_same_place(site, diagnosis->site))
            continue;
        diagnosis->other_sites += site != diagnosis->site;
        for (size_t j = 0; site->is_warp_alive && j < site->lane_count; j++) {
            struct evidence_lane lane = completion->buffer ? complete_lane(completion, &site->lanes[j]) : site->lanes[j];
            enum exception_class class = exception_class_of(site->exception);
            uint64_t at;
            if (lane.certainty == CERTAIN_NOT || class == CLASS_OTHER)
                diagnosis->faulting_threads += lane.has_exception || &site->lanes[j] == diagnosis->lane;
            else if (class == CLASS_MISALIGNED)
                diagnosis->faulting_threads += (size_t)is_misaligned(site, &lane);
            else
                diagnosis->faulting_threads += (size_t)first_unmapped(memory, lane.address, access_bytes(site), &at);
        }
    }
}

/* The live buffers on both sides of the fault, of the owner's device where there is an owner. */
static void find_surroundings(const struct fault_memory *memory, uint64_t at, struct diagnosis *diagnosis)
{
    for (size_t i = 0; i < memory->near_count; i++) {
        const cufence_buffer *buffer = &memory->near[i];
        if (buffer->freed_ns || (diagnosis->owner && buffer->device != diagnosis->owner->device))
            continue;
        if (buffer->mapping_end <= at && (!diagnosis->previous || buffer->mapping_end > diagnosis->previous->mapping_end))
            diagnosis->previous = buffer;
        if (buffer->mapping_start > at && (!diagnosis->next || buffer->mapping_start < diagnosis->next->mapping_start))
            diagnosis->next = buffer;
    }
}

/* What is taken for candidates. */
struct choice {
    int is_narrowed; /* by the high half of the address */
    int is_writable; /* not what the kernel promises to read only */
    const cufence_buffer *seen[MAX_SEEN];
    size_t seen_count;
};

/* 0 if it is there already. */
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

static void add_candidate(struct diagnosis *diagnosis, const cufence_buffer *buffer, int word)
{
    diagnosis->candidate_total++;
    if (diagnosis->candidate_count == MAX_CANDIDATES)
        return;
    diagnosis->candidates[diagnosis->candidate_count] = buffer;
    diagnosis->candidate_parameter[diagnosis->candidate_count++] = word;
}

/* Whether the choice leaves a buffer that word `word` of the parameters points to out, and says so. */
static int is_left_out(struct diagnosis *diagnosis, const struct choice *choice, const cufence_buffer *buffer, size_t word)
{
    const struct evidence_site *site = diagnosis->site;
    const struct launch_function *layout = diagnosis->arguments.layout;
    uint32_t offset;
    int is_asked = 0, is_allowed = complete_allows(site, buffer, &is_asked);
    int argument = launch_argument_of(layout, word, &offset);
    if (choice->is_narrowed && is_asked && !is_allowed) {
        diagnosis->is_narrowed = 1;
        return 1;
    }
    if (choice->is_writable && argument >= 0 && signature_is_const(site->kernel, layout->argument_count, (size_t)argument)) {
        diagnosis->is_const_excluded = 1;
        return 1;
    }
    return 0;
}

/* The buffers that parameter bytes point to. */
static void add_pointers(struct diagnosis *diagnosis, struct choice *choice, const uint8_t *bytes, size_t count,
                         uint64_t time_ns)
{
    const struct launch_function *layout = diagnosis->arguments.layout;
    for (size_t i = 0; i < count / sizeof(uint64_t); i++) {
        uint64_t word;
        uint32_t offset;
        memcpy(&word, bytes + i * sizeof word, sizeof word);
        const cufence_buffer *buffer =
            !layout || launch_argument_of(layout, i, &offset) >= 0 ? word_buffer(diagnosis->memory, word, time_ns) : NULL;
        if (buffer && !is_left_out(diagnosis, choice, buffer, i) && see(choice, buffer))
            add_candidate(diagnosis, buffer, (int)i);
    }
}

/* Candidates from the kernel's arguments: the dump's, else those of the launches that fit, newest first. */
static void add_arguments(struct diagnosis *diagnosis, int is_narrowed, int is_writable)
{
    const struct fault_memory *memory = diagnosis->memory;
    const struct evidence_site *site = diagnosis->site;
    struct choice choice = {.is_narrowed = is_narrowed, .is_writable = is_writable};
    diagnosis->is_narrowed = diagnosis->is_const_excluded = 0;
    if (site->parameters) {
        add_pointers(diagnosis, &choice, site->parameters, site->parameter_bytes, 0);
        return;
    }
    for (size_t i = 0; diagnosis->origin.fits && i < memory->launch_count; i++) {
        const struct launch_entry *launch = memory->launches[i].entry;
        if (launch_fits(launch, site))
            add_pointers(diagnosis, &choice, launch->bytes, launch->kept_bytes, launch->time_ns);
    }
}

/* Whether one launch fits, and all that it was given is known. */
static int is_only_launch(const struct diagnosis *diagnosis)
{
    const struct fault_origin *origin = &diagnosis->origin;
    return origin->fits == 1 && origin->launch->entry->kept_bytes == origin->launch->entry->argument_bytes;
}

static void find_candidates(const struct fault_memory *memory, struct diagnosis *diagnosis)
{
    int is_unknown = diagnosis->address_certainty == CERTAIN_NOT;
    int is_write = diagnosis->site->access == ACCESS_WRITE || diagnosis->site->access == ACCESS_ATOMIC;
    add_arguments(diagnosis, is_unknown, is_write);
    if (!diagnosis->candidate_count && diagnosis->is_const_excluded)
        add_arguments(diagnosis, is_unknown, 0);
    if (!diagnosis->candidate_count && diagnosis->is_narrowed)
        add_arguments(diagnosis, 0, 0);
    diagnosis->candidate_certainty = CERTAIN_CANDIDATE;
    if (diagnosis->candidate_count) {
        diagnosis->candidate_source = diagnosis->site->parameters ? CANDIDATES_ARGUMENTS : CANDIDATES_LAUNCHES;
        if (diagnosis->candidate_source == CANDIDATES_LAUNCHES && diagnosis->candidate_total == 1 && is_only_launch(diagnosis))
            diagnosis->candidate_certainty = CERTAIN_DERIVED;
    } else if (diagnosis->kind == FAULT_ILLEGAL_ACCESS) {
        for (size_t i = 0; i < memory->live_count; i++)
            add_candidate(diagnosis, &memory->live[i], -1);
        diagnosis->candidate_total = memory->live_total;
    }
}

/* Where the dump has no parameters, the launch may have them. */
static void find_parameter(struct diagnosis *diagnosis)
{
    const struct fault_arguments *arguments = &diagnosis->arguments;
    const cufence_buffer *owner = diagnosis->owner;
    for (size_t i = 0; arguments->layout && i < arguments->count / sizeof(uint64_t) && diagnosis->owner_parameter < 0; i++) {
        uint64_t word;
        uint32_t offset;
        memcpy(&word, arguments->bytes + i * sizeof word, sizeof word);
        if (word >= owner->address && word - owner->address <= owner->size &&
            launch_argument_of(arguments->layout, i, &offset) >= 0)
            diagnosis->owner_parameter = (int)i;
    }
}

/* The lane that speaks for a warp none of whose addresses is known. */
static const struct evidence_lane *marked_lane(const struct evidence_site *site)
{
    if (!site->is_warp_alive || !site->lane_count)
        return NULL;
    for (size_t i = 0; i < site->lane_count; i++)
        if (site->lanes[i].has_exception)
            return &site->lanes[i];
    return &site->lanes[0];
}

/* Sets the site and the lane that explain most, and returns the verdict on them. */
static struct verdict choose(const struct evidence *evidence, const struct fault_memory *memory, struct diagnosis *diagnosis)
{
    struct verdict best = {.kind = FAULT_OTHER, .parameter = -1};
    for (size_t i = 0; i < evidence->site_count; i++) {
        const struct evidence_site *site = &evidence->sites[i];
        size_t lanes = site->is_warp_alive ? site->lane_count : 0;
        const struct evidence_lane *marked = marked_lane(site);
        struct verdict verdict = owner_judge(memory, site, marked);
        if (!diagnosis->site || is_better(&verdict, marked, &best, diagnosis->lane)) {
            best = verdict;
            diagnosis->site = site;
            diagnosis->lane = marked;
        }
        for (size_t j = 0; j < lanes; j++) {
            const struct evidence_lane *lane = &site->lanes[j];
            if (lane->certainty == CERTAIN_NOT)
                continue;
            verdict = owner_judge(memory, site, lane);
            if (is_better(&verdict, lane, &best, diagnosis->lane)) {
                best = verdict;
                diagnosis->site = site;
                diagnosis->lane = lane;
            }
        }
    }
    return best;
}

/* Where no address explains the fault, halves of some may: sets the site and the lane that explain most then, *whole to the
 * lane with its whole address, and *verdict. */
static void complete(const struct evidence *evidence, const struct fault_memory *memory, struct completion *completion,
                     struct diagnosis *diagnosis, struct evidence_lane *whole, struct verdict *verdict)
{
    static const char reason[] = "only this of the kernel's arguments explains the address's low half";
    if (!diagnosis->site || verdict->rank > RANK_INSIDE)
        return;
    *completion = complete_place(evidence, memory, diagnosis->site);
    const struct evidence_site *place = diagnosis->site;
    for (size_t i = 0; completion->buffer && i < evidence->site_count; i++) {
        const struct evidence_site *site = &evidence->sites[i];
        for (size_t j = 0; complete_is_place(site, place) && j < site->lane_count; j++) {
            struct evidence_lane lane = complete_lane(completion, &site->lanes[j]);
            if (lane.certainty == CERTAIN_NOT)
                continue;
            struct verdict found = completion->is_only ? owner_settle(memory, site, &lane, completion->buffer, reason)
                                                       : owner_judge(memory, site, &lane);
            if (found.rank > RANK_INSIDE && (verdict->rank <= RANK_INSIDE || is_better(&found, &lane, verdict, whole))) {
                *verdict = found;
                *whole = lane;
                diagnosis->site = site;
                diagnosis->lane = &site->lanes[j];
                diagnosis->is_completed = 1;
            }
        }
    }
}

void fault_diagnose(const struct evidence *evidence, const struct fault_memory *memory, struct diagnosis *diagnosis)
{
    *diagnosis = (struct diagnosis){.evidence = evidence, .memory = memory};
    struct verdict verdict = choose(evidence, memory, diagnosis);
    struct evidence_lane whole = diagnosis->lane ? *diagnosis->lane : (struct evidence_lane){.certainty = CERTAIN_NOT};
    struct completion completion = {NULL, 0};
    complete(evidence, memory, &completion, diagnosis, &whole, &verdict);
    diagnosis->kind = verdict.kind;
    diagnosis->owner = verdict.owner;
    diagnosis->owner_certainty = verdict.owner ? verdict.certainty : CERTAIN_NOT;
    diagnosis->owner_reason = verdict.reason;
    diagnosis->owner_parameter = verdict.parameter;
    diagnosis->distance = verdict.distance;
    diagnosis->rival = verdict.rival;
    diagnosis->rival_distance = verdict.rival_distance;
    if (!diagnosis->site)
        return;

    if (whole.certainty != CERTAIN_NOT && verdict.kind != FAULT_OTHER) {
        diagnosis->address = whole.address;
        diagnosis->address_certainty = whole.certainty;
        find_surroundings(memory, verdict.at, diagnosis);
    }
    count_others(evidence, memory, &completion, diagnosis);
    diagnosis->origin = launches_origin(memory, diagnosis->site);
    diagnosis->arguments = launches_arguments(memory, diagnosis->site, &diagnosis->origin);
    if (diagnosis->owner && !diagnosis->site->parameters && diagnosis->arguments.certainty == CERTAIN_EXACT)
        find_parameter(diagnosis);
    if (!diagnosis->owner && (verdict.kind == FAULT_ILLEGAL_ACCESS || verdict.kind == FAULT_WILD))
        find_candidates(memory, diagnosis);
}

const char *fault_kind_name(enum fault_kind kind)
{
    static const char *const names[] = {
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
    return names[kind];
}
