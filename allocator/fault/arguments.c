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

/* The buffer that a word points to: into it before to its end, then live before freed, then the newest. */
static const cufence_buffer *pointed_to(const struct fault_memory *memory, uint64_t word)
{
    const cufence_buffer *best = NULL;
    int is_best_inside = 0;
    for (size_t i = 0; i < memory->near_count + memory->live_count; i++) {
        const cufence_buffer *buffer = i < memory->near_count ? &memory->near[i] : &memory->live[i - memory->near_count];
        if (word < buffer->address || word - buffer->address > buffer->size)
            continue;
        int is_inside = word - buffer->address < buffer->size;
        int is_live = !buffer->freed_ns, is_best_live = best && !best->freed_ns;
        if (!best || is_inside > is_best_inside ||
            (is_inside == is_best_inside && (is_live > is_best_live || (is_live == is_best_live && buffer->id > best->id)))) {
            best = buffer;
            is_best_inside = is_inside;
        }
    }
    return best;
}

/* Whether a parameter word before `index` has named the buffer. */
static int is_named_before(const struct fault_memory *memory, const struct evidence_site *site, const cufence_buffer *buffer,
                           size_t index)
{
    for (size_t i = 0; i < index; i++) {
        uint64_t word = parameter_word(site, i);
        if (word >= buffer->address && word - buffer->address <= buffer->size && pointed_to(memory, word)->id == buffer->id)
            return 1;
    }
    return 0;
}

const cufence_buffer *argument_buffer(const struct fault_memory *memory, const struct evidence_site *site, size_t index)
{
    const cufence_buffer *buffer = pointed_to(memory, parameter_word(site, index));
    return buffer && !is_named_before(memory, site, buffer, index) ? buffer : NULL;
}
