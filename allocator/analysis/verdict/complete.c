
#include "launches.h"
#include "owner.h"

#define LOW_BITS ((uint64_t)UINT32_MAX)
#define WINDOW (LOW_BITS + 1)

/* Limit on arguments. Beyond it, no argument can be claimed to be the only one. */
#define MAX_ARGUMENTS 64

/* An argument that the addresses may belong to. */
struct hypothesis {
    const cufence_buffer *buffer;
    int is_out;       /* the buffer can't explain the addresses */
    int is_ambiguous; /* it explains one of them in more than one way */
    int has_fault;    /* it explains why one of them faulted */
};

static int has_low(const struct evidence_lane *lane)
{
    return lane->certainty == CERTAIN_NOT && (lane->known_bits & LOW_BITS) == LOW_BITS;
}

static int has_high(const struct evidence_lane *lane)
{
    return lane->certainty == CERTAIN_NOT && (lane->known_bits & ~LOW_BITS) == ~LOW_BITS;
}

/* Returns how many addresses in the buffer's span have the low half of `address`: 0, 1, or 2 for more. *found is the lowest. */
static unsigned in_span(const cufence_buffer *buffer, uint64_t address, uint64_t *found)
{
    uint64_t start = buffer->guard_start, end = buffer->guard_end;
    uint64_t distance = (address - start) & LOW_BITS;
    if (end <= start || distance >= end - start)
        return 0;
    *found = start + distance;
    return distance + WINDOW < end - start ? 2 : 1;
}

static int is_window_near(const cufence_buffer *buffer, uint64_t address)
{
    uint64_t window = address & ~LOW_BITS;
    return buffer->guard_end > window && buffer->guard_start <= window + LOW_BITS;
}

/* Tests one lane's address against one argument. */
static void weigh(struct hypothesis *hypothesis, const struct fault_memory *memory, const struct evidence_site *site,
                  const struct evidence_lane *lane)
{
    const cufence_buffer *buffer = hypothesis->buffer;
    uint64_t address = 0, at;
    if (lane->certainty != CERTAIN_NOT) {
        hypothesis->is_out |= lane->address < buffer->guard_start || lane->address >= buffer->guard_end;
    } else if (has_low(lane)) {
        unsigned count = in_span(buffer, lane->address, &address);
        hypothesis->is_out |= count == 0;
        hypothesis->is_ambiguous |= count == 2;
        hypothesis->has_fault |= count == 1 && first_unmapped(memory, address, access_bytes(site), &at);
    } else if (has_high(lane)) {
        hypothesis->is_out |= !is_window_near(buffer, lane->address);
    }
}

int complete_is_place(const struct evidence_site *other, const struct evidence_site *site)
{
    return other->is_warp_alive && other->error_pc == site->error_pc && other->grid_id == site->grid_id;
}

/* Fills in a hypothesis per argument. Returns the count, MAX_ARGUMENTS + 1 if there are too many. */
static size_t collect(const struct fault_memory *memory, const struct evidence_site *site, struct hypothesis *hypotheses)
{
    size_t count = 0;
    for (size_t i = 0; i < parameter_words(site); i++) {
        const cufence_buffer *buffer = argument_buffer(memory, site, i);
        if (buffer && count == MAX_ARGUMENTS)
            return MAX_ARGUMENTS + 1;
        if (buffer)
            hypotheses[count++] = (struct hypothesis){.buffer = buffer};
    }
    return count;
}

/* Returns 1 if both buffers give the same addresses. */
static int agree(const cufence_buffer *a, const cufence_buffer *b, const struct evidence *evidence,
                 const struct evidence_site *site)
{
    for (size_t i = 0; i < evidence->site_count; i++) {
        const struct evidence_site *other = &evidence->sites[i];
        for (size_t k = 0; complete_is_place(other, site) && k < other->lane_count; k++) {
            const struct evidence_lane *lane = &other->lanes[k];
            uint64_t in_a = 0, in_b = 0;
            if (has_low(lane) &&
                (in_span(a, lane->address, &in_a) != 1 || in_span(b, lane->address, &in_b) != 1 || in_a != in_b))
                return 0;
        }
    }
    return 1;
}

struct completion complete_place(const struct evidence *evidence, const struct fault_memory *memory,
                                 const struct evidence_site *site)
{
    const struct completion none = {NULL, 0};
    struct hypothesis hypotheses[MAX_ARGUMENTS];
    size_t count = collect(memory, site, hypotheses), halves = 0;
    int has_blind = 0; /* a lane with unknown low half, which may be the faulting one */
    if (count > MAX_ARGUMENTS || site->exception.class != CLASS_ADDRESS)
        return none;
    for (size_t i = 0; i < evidence->site_count; i++) {
        const struct evidence_site *other = &evidence->sites[i];
        for (size_t k = 0; complete_is_place(other, site) && k < other->lane_count; k++) {
            const struct evidence_lane *lane = &other->lanes[k];
            halves += (size_t)has_low(lane);
            has_blind |= lane->certainty == CERTAIN_NOT && !has_low(lane);
            /* A null pointer plus an offset is also possible. */
            if (has_low(lane) && (lane->address & LOW_BITS) < NULL_PAGE)
                return none;
            for (size_t h = 0; h < count; h++)
                if (!hypotheses[h].is_out)
                    weigh(&hypotheses[h], memory, other, lane);
        }
    }
    struct completion completion = none;
    for (size_t h = 0; halves > 0 && h < count; h++) {
        const struct hypothesis *hypothesis = &hypotheses[h];
        if (hypothesis->is_out || (!hypothesis->has_fault && !hypothesis->is_ambiguous && !has_blind))
            continue;
        if (hypothesis->is_ambiguous || !hypothesis->has_fault ||
            (completion.buffer && !agree(completion.buffer, hypothesis->buffer, evidence, site)))
            return none;
        completion.is_only = !completion.buffer;
        if (!completion.buffer)
            completion.buffer = hypothesis->buffer;
    }
    return completion;
}

struct evidence_lane complete_lane(const struct completion *completion, const struct evidence_lane *lane)
{
    struct evidence_lane whole = *lane;
    if (has_low(lane) && in_span(completion->buffer, lane->address, &whole.address) == 1) {
        whole.known_bits = UINT64_MAX;
        whole.certainty = CERTAIN_DERIVED;
    }
    return whole;
}

int complete_allows(const struct evidence_site *site, const cufence_buffer *buffer, int *is_asked)
{
    int is_allowed = 1;
    for (size_t i = 0; site->is_warp_alive && i < site->lane_count; i++) {
        if (!has_high(&site->lanes[i]))
            continue;
        *is_asked = 1;
        is_allowed &= is_window_near(buffer, site->lanes[i].address);
    }
    return is_allowed;
}
