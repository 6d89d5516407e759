#include "owner.h"

#include "launches.h"
#include "base/list.h"
#include "base/reader.h"
#include "guard/layout.h"

/* How a kernel's parameters refer to a buffer. */
struct aim {
    int word;     /* -1 if none does */
    int strength; /* 0: no reference, 1: into it or to its end, 2: to its first byte */
};

static const struct aim no_aim = {-1, 0};

static enum certainty weaker(enum certainty a, enum certainty b)
{
    return a < b ? a : b;
}

/* Counts pointers to the end: loops that run backwards, and begin/end pairs, use them. Ignores parameters that the access
 * does not use, according to the kernel's code. */
static struct aim aim_at(const struct evidence_stop *stop, const cufence_buffer *buffer)
{
    struct aim best = no_aim;
    for (size_t i = 0; stop->parameters && i < stop->parameter_bytes / sizeof(uint64_t); i++) {
        uint64_t word = load_u64(stop->parameters + i * sizeof word);
        if (!parameter_may_be_used(stop, i))
            continue;
        if (word == buffer->address)
            return (struct aim){(int)i, 2};
        if (best.strength == 0 && word > buffer->address && word - buffer->address <= buffer->size)
            best = (struct aim){(int)i, 1};
    }
    return best;
}

int first_unmapped(const struct fault_memory *memory, uint64_t address, uint64_t bytes, uint64_t *at)
{
    uint64_t end;
    if (__builtin_add_overflow(address, bytes, &end))
        end = UINT64_MAX;
    *at = address;
    do {
        const cufence_buffer *mapped = NULL;
        for (size_t i = 0; i < memory->near_count + memory->live_count && !mapped; i++) {
            const cufence_buffer *buffer = i < memory->near_count ? &memory->near[i] : &memory->live[i - memory->near_count];
            if (buffer->is_mapped && *at >= buffer->mapping_start && *at < buffer->mapping_end)
                mapped = buffer;
        }
        if (!mapped)
            return 1;
        *at = mapped->mapping_end;
    } while (*at < end);
    return 0;
}

uint64_t access_bytes(const struct evidence_stop *stop)
{
    return stop->access_bytes ? stop->access_bytes : 1;
}

/* What a buffer may be to an address. */
enum role {
    BELOW,  /* the address is past its end, in its guard */
    ABOVE,  /* before its start, in its guard */
    FREED,  /* in it, and it was unmapped since */
    MAPPED, /* in it */
};

static int plays(const cufence_buffer *buffer, enum role role, uint64_t at)
{
    static const cufence_place places[] = {CUFENCE_PLACE_PAST_END, CUFENCE_PLACE_BEFORE_START, CUFENCE_PLACE_INSIDE,
                                           CUFENCE_PLACE_INSIDE};
    uint64_t offset;
    if (layout_classify(at, buffer->address, buffer->size, &offset) != places[role])
        return 0;
    return role == MAPPED  ? buffer->is_mapped
           : role == FREED ? buffer->freed_ns && !buffer->is_mapped
                           : at >= buffer->guard_start && at < buffer->guard_end;
}

/* How good a guess a buffer is. Mapped buffers come first: a buffer freed behind a running kernel still belongs to it. Then
 * buffers that the kernel's arguments point to, then live before freed. Of freed ones, one whose start is an argument. */
static int merit(const cufence_buffer *buffer, enum role role, struct aim aim)
{
    return role == FREED ? aim.strength == 2 : (buffer->is_mapped != 0) << 3 | aim.strength << 1 | !buffer->freed_ns;
}

/* Returns the buffer that is most likely meant, of equal ones that which was freed last, and the newest; NULL if there is none.
 * count: of those with the role. */
static const cufence_buffer *holder(const struct fault_memory *memory, const struct evidence_stop *stop, uint64_t at,
                                    enum role role, struct aim *aim, size_t *count)
{
    const cufence_buffer *best = NULL;
    *aim = no_aim;
    *count = 0;
    for (size_t i = 0; i < memory->near_count; i++) {
        const cufence_buffer *buffer = &memory->near[i];
        if (!plays(buffer, role, at))
            continue;
        struct aim found = role == MAPPED ? no_aim : aim_at(stop, buffer);
        int more = best ? LIST_ORDER(merit(buffer, role, found), merit(best, role, *aim)) : 1;
        if (!more && role == FREED)
            more = LIST_ORDER(buffer->freed_ns, best->freed_ns);
        ++*count;
        if ((more ?: LIST_ORDER(buffer->id, best->id)) <= 0)
            continue;
        best = buffer;
        *aim = found;
    }
    return best;
}

static void own(struct verdict *verdict, enum fault_kind kind, const cufence_buffer *owner, struct aim aim, uint64_t address,
                enum certainty certainty, const char *reason)
{
    verdict->rank = RANK_OWNED;
    verdict->kind = kind;
    verdict->owner = owner;
    verdict->parameter = aim.word;
    verdict->certainty = certainty;
    verdict->reason = reason;
    /* An access that begins inside the buffer and ends outside has distance 0. */
    if (layout_classify(address, owner->address, owner->size, &verdict->distance) == CUFENCE_PLACE_INSIDE &&
        kind == FAULT_OVERRUN)
        verdict->distance = 0;
}

/* Decides which buffer an access in a guard was meant for: a guard between two mappings belongs to both. */
static void judge_guard(struct verdict *verdict, const cufence_buffer *below, struct aim aim_below, const cufence_buffer *above,
                        struct aim aim_above, uint64_t address, enum certainty certainty)
{
    if (!below || !above) {
        const cufence_buffer *owner = below ? below : above;
        struct aim aim = below ? aim_below : aim_above;
        own(verdict, below ? FAULT_OVERRUN : FAULT_UNDERRUN, owner, aim, below ? address : verdict->at,
            aim.strength ? certainty : weaker(certainty, CERTAIN_DERIVED),
            aim.strength ? "the kernel was given it, and no other buffer is next to this guard"
                         : "no other buffer is next to this guard");
        return;
    }
    struct verdict as_below = *verdict, as_above = *verdict;
    own(&as_below, FAULT_OVERRUN, below, aim_below, address, CERTAIN_NOT, NULL);
    own(&as_above, FAULT_UNDERRUN, above, aim_above, verdict->at, CERTAIN_NOT, NULL);

    int is_below;
    if (!aim_below.strength != !aim_above.strength) {
        is_below = aim_below.strength > 0;
        *verdict = is_below ? as_below : as_above;
        verdict->certainty = certainty;
        verdict->reason = "the kernel was given it, and not the buffer on the other side";
        return;
    }
    /* The byte right behind the end has distance 0, the one right before the start distance 1: make both count from 1. */
    uint64_t bytes_below = as_below.distance + 1, bytes_above = as_above.distance;
    is_below = below->is_mapped != above->is_mapped ? below->is_mapped : bytes_below <= bytes_above;
    *verdict = is_below ? as_below : as_above;
    verdict->certainty = weaker(certainty, CERTAIN_DERIVED);
    if (below->is_mapped != above->is_mapped) {
        verdict->reason = "the buffer on the other side is gone";
        return;
    }
    uint64_t near = is_below ? bytes_below : bytes_above, far = is_below ? bytes_above : bytes_below;
    if (near <= far / 4) {
        verdict->reason = "the next nearest buffer is at least four times as far away";
        return;
    }
    verdict->reason = aim_below.strength ? "nearer end, both neighbours are arguments" : "nearer end, no argument decides";
    verdict->rival = is_below ? above : below;
    verdict->rival_distance = is_below ? as_above.distance : as_below.distance;
}

/* Returns the live buffer that the address comes from by the kernel's code; NULL if that is unknown, or if there are several.
 */
static const cufence_buffer *traced(const struct fault_memory *memory, const struct evidence_stop *stop)
{
    const cufence_buffer *found = NULL;
    for (size_t i = 0; stop->parameters && stop->source.is_known && i < stop->parameter_bytes / sizeof(uint64_t); i++) {
        uint64_t word = load_u64(stop->parameters + i * sizeof word);
        const cufence_buffer *buffer = parameter_may_be_used(stop, i) ? word_buffer(memory, word, 0) : NULL;
        if (buffer && found && buffer->id != found->id)
            return NULL;
        found = buffer ? buffer : found;
    }
    return found && !found->freed_ns && !stop->source.is_loaded ? found : NULL;
}

/* Returns the verdict on an address in the arena, whose first unmapped byte is verdict->at. */
static void judge_arena(const struct fault_memory *memory, const struct evidence_stop *stop, const struct evidence_lane *lane,
                        struct verdict *verdict)
{
    struct aim aim_below, aim_above, aim_freed;
    size_t holders; /* of freed ones, the last that is counted */
    const cufence_buffer *below = holder(memory, stop, verdict->at, BELOW, &aim_below, &holders);
    const cufence_buffer *above = holder(memory, stop, verdict->at, ABOVE, &aim_above, &holders);
    const cufence_buffer *freed = holder(memory, stop, verdict->at, FREED, &aim_freed, &holders);
    const cufence_buffer *meant = aim_below.strength || aim_above.strength || aim_freed.strength ? NULL : traced(memory, stop);

    if (meant) { /* far from it: what is there, or has been, has nothing to do with it */
        int is_below = verdict->at < meant->address;
        own(verdict, is_below ? FAULT_UNDERRUN : FAULT_OVERRUN, meant, aim_at(stop, meant),
            is_below ? verdict->at : lane->address, weaker(lane->certainty, CERTAIN_DERIVED),
            "by the kernel's code, the address comes from a pointer to it");
        return;
    }
    /* If the address space was reused, a present guard may cover a past buffer. */
    if (freed && !aim_freed.strength &&
        ((below && below->is_mapped && aim_below.strength) || (above && above->is_mapped && aim_above.strength)))
        freed = NULL;
    if (freed) {
        int is_clear = holders == 1 || aim_freed.strength == 2;
        own(verdict, FAULT_USE_AFTER_FREE, freed, aim_freed, verdict->at,
            is_clear ? lane->certainty : weaker(lane->certainty, CERTAIN_DERIVED),
            holders == 1 ? "the address lies in it"
            : is_clear   ? "the address lies in it, and the kernel was given its start"
                         : "the newest of the freed buffers that the address lay in");
    } else if (below || above) {
        judge_guard(verdict, below, aim_below, above, aim_above, lane->address, lane->certainty);
    }
}

/* Returns the mapped buffer that contains the address. */
static const cufence_buffer *mapped_holder(const struct fault_memory *memory, uint64_t address)
{
    struct aim aim;
    size_t count;
    return holder(memory, NULL, address, MAPPED, &aim, &count);
}

static void judge_inside(const struct fault_memory *memory, const struct evidence_stop *stop, const struct evidence_lane *lane,
                         enum certainty certainty, struct verdict *verdict)
{
    verdict->owner = mapped_holder(memory, lane->address);
    if (!verdict->owner)
        return;
    verdict->distance = lane->address - verdict->owner->address;
    verdict->certainty = weaker(lane->certainty, certainty);
    verdict->reason = "the address lies in it";
    verdict->parameter = aim_at(stop, verdict->owner).word;
}

/* Returns 1 if the device may lack access to the mapped memory at `address`. */
static int may_lack_access(const struct fault_memory *memory, uint64_t address)
{
    const cufence_buffer *found = mapped_holder(memory, address);
    return found && found->device != memory->device &&
           !(found->device >= 0 && found->device < 64 && memory->shared >> found->device & 1);
}

/* Registers may have changed since the access, and an unmapped address may have been mapped again. */
static int is_sure(const struct fault_memory *memory, const struct evidence_stop *stop, const struct evidence_lane *lane)
{
    struct aim aim;
    size_t holders;
    return (lane->certainty == CERTAIN_EXACT || lane->is_replayed) &&
           !holder(memory, stop, lane->address, FREED, &aim, &holders);
}

int is_told(const struct fault_memory *memory, const struct evidence_lane *lane)
{
    int is_ours = !memory->is_unknown && lane->address >= memory->arena_start && lane->address < memory->arena_end;
    return lane->certainty != CERTAIN_NOT || (lane->is_earlier && (is_ours || lane->address < NULL_PAGE));
}

int is_misaligned(const struct evidence_stop *stop, const struct evidence_lane *lane)
{
    return lane->address % access_bytes(stop) != 0;
}

struct verdict owner_judge(const struct fault_memory *memory, const struct evidence_stop *stop,
                           const struct evidence_lane *lane)
{
    enum exception_class class = stop->exception.class;
    struct verdict verdict = {.rank = RANK_SITE, .kind = FAULT_OTHER, .parameter = -1};

    if (class == CLASS_ADDRESS)
        verdict.kind = FAULT_ILLEGAL_ACCESS;
    if (class == CLASS_MISALIGNED)
        verdict.kind = FAULT_MISALIGNED;
    if (!lane || class == CLASS_OTHER || class == CLASS_NO_BUFFER ||
        !(is_told(memory, lane) || (class == CLASS_MISALIGNED && lane->is_earlier)))
        return verdict;
    struct evidence_lane known = *lane;
    known.certainty = lane->is_earlier ? CERTAIN_DERIVED : lane->certainty;
    lane = &known;

    verdict.at = lane->address;
    if (class == CLASS_MISALIGNED) {
        verdict.rank = RANK_MISALIGNED;
        if (is_misaligned(stop, lane))
            judge_inside(memory, stop, lane, CERTAIN_EXACT, &verdict);
        else
            verdict.rank = lane->certainty == CERTAIN_EXACT || lane->is_replayed ? RANK_INNOCENT : RANK_SITE;
        return verdict;
    }
    if (lane->address < NULL_PAGE) {
        verdict.rank = RANK_NOWHERE;
        verdict.kind = FAULT_NULL;
    } else if (memory->is_unknown) {
        verdict.rank = RANK_NOWHERE;
        verdict.kind = FAULT_ILLEGAL_ACCESS;
    } else if (!first_unmapped(memory, lane->address, access_bytes(stop), &verdict.at)) {
        verdict.rank = is_sure(memory, stop, lane) ? RANK_INNOCENT : RANK_SITE;
        if (may_lack_access(memory, lane->address)) {
            verdict.rank = RANK_INSIDE;
            verdict.kind = FAULT_ILLEGAL_ACCESS;
            judge_inside(memory, stop, lane, CERTAIN_DERIVED, &verdict);
        }
    } else if (lane->address >= memory->arena_start && lane->address < memory->arena_end) {
        verdict.rank = RANK_NOWHERE;
        verdict.kind = FAULT_WILD;
        judge_arena(memory, stop, lane, &verdict);
    } else {
        verdict.rank = RANK_NOWHERE;
        verdict.kind = memory->is_host_address ? FAULT_HOST_POINTER : FAULT_WILD;
    }
    return verdict;
}

struct verdict owner_settle(const struct fault_memory *memory, const struct evidence_stop *stop,
                            const struct evidence_lane *lane, const cufence_buffer *owner, const char *reason)
{
    struct verdict verdict = owner_judge(memory, stop, lane);
    if (verdict.rank < RANK_NOWHERE)
        return verdict;
    /* If several buffers used this place, keep owner_judge()'s choice among them: `reason` only settles the place. */
    if (verdict.owner && verdict.owner->mapping_start == owner->mapping_start &&
        verdict.owner->mapping_end == owner->mapping_end)
        owner = verdict.owner;
    uint64_t offset;
    cufence_place place = layout_classify(verdict.at, owner->address, owner->size, &offset);
    enum fault_kind kind = place == CUFENCE_PLACE_INSIDE         ? FAULT_USE_AFTER_FREE
                           : place == CUFENCE_PLACE_BEFORE_START ? FAULT_UNDERRUN
                                                                 : FAULT_OVERRUN;
    own(&verdict, kind, owner, aim_at(stop, owner), kind == FAULT_OVERRUN ? lane->address : verdict.at, lane->certainty,
        reason);
    verdict.rival = NULL;
    return verdict;
}
