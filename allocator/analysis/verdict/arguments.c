#include "arguments.h"

#include <string.h>

uint64_t parameter_word(const struct evidence_site *site, size_t index)
{
    uint64_t word;
    memcpy(&word, site->parameters + index * sizeof word, sizeof word);
    return word;
}

size_t parameter_words(const struct evidence_site *site)
{
    return site->parameters ? site->parameter_bytes / sizeof(uint64_t) : 0;
}

int parameter_may_be_used(const struct evidence_site *site, size_t index)
{
    const struct address_source *source = &site->source;
    /* If the address is a sum of a loaded value and a word, either may be the pointer, and the other one the index. */
    return !source->is_known || (index < 8 * sizeof source->words && (source->words >> index & 1));
}

/* How far a launch's timestamp may be behind: one tick of the slowest kernel configuration. */
#define TICK_NS UINT64_C(10000000)

/* How well a buffer fits a word that points to it. In this order: into the buffer before to its end, alive at that time,
 * live before freed, the newest. */
struct fit {
    int is_inside, is_of_time, is_live;
    uint64_t id;
};

static int is_better_fit(const struct fit *a, const struct fit *b)
{
    if (a->is_inside != b->is_inside)
        return a->is_inside;
    if (a->is_of_time != b->is_of_time)
        return a->is_of_time;
    if (a->is_live != b->is_live)
        return a->is_live;
    return a->id > b->id;
}

const cufence_buffer *word_buffer(const struct fault_memory *memory, uint64_t word, uint64_t time_ns)
{
    const cufence_buffer *best = NULL;
    struct fit best_fit = {0};
    for (size_t i = 0; i < memory->near_count + memory->live_count; i++) {
        const cufence_buffer *buffer = i < memory->near_count ? &memory->near[i] : &memory->live[i - memory->near_count];
        if (word < buffer->address || word - buffer->address > buffer->size)
            continue;
        struct fit fit = {.is_inside = word - buffer->address < buffer->size,
                          .is_of_time = !time_ns || (buffer->allocated_ns <= time_ns + TICK_NS &&
                                                     (!buffer->freed_ns || buffer->freed_ns >= time_ns)),
                          .is_live = !buffer->freed_ns,
                          .id = buffer->id};
        if (!best || is_better_fit(&fit, &best_fit)) {
            best = buffer;
            best_fit = fit;
        }
    }
    return best;
}

/* Returns 1 if an earlier parameter word points to the buffer. */
static int is_named_before(const struct fault_memory *memory, const struct evidence_site *site, const cufence_buffer *buffer,
                           size_t index)
{
    for (size_t i = 0; i < index; i++) {
        uint64_t word = parameter_word(site, i);
        if (parameter_may_be_used(site, i) && word >= buffer->address && word - buffer->address <= buffer->size &&
            word_buffer(memory, word, 0)->id == buffer->id)
            return 1;
    }
    return 0;
}

const cufence_buffer *argument_buffer(const struct fault_memory *memory, const struct evidence_site *site, size_t index)
{
    const cufence_buffer *buffer =
        parameter_may_be_used(site, index) ? word_buffer(memory, parameter_word(site, index), 0) : NULL;
    return buffer && !is_named_before(memory, site, buffer, index) ? buffer : NULL;
}
