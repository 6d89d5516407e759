#include "identity.h"

#include <string.h>

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
#define START UINT64_C(0xcbf29ce484222325)
#define PRIME UINT64_C(0x100000001b3)

static uint64_t add(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * PRIME;
    return hash;
}

static uint64_t add_number(uint64_t hash, uint64_t number)
{
    return add(hash, &number, sizeof number);
}

static uint64_t add_text(uint64_t hash, const char *text)
{
    return add(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* Identifies the place of allocation by device, label, and its stack, or its size if the stack is unknown. */
static uint64_t add_place(uint64_t hash, const cufence_buffer *buffer)
{
    if (!buffer)
        return add_number(hash, 0);
    hash = add_text(add_number(hash, 1 + (uint64_t)(uint32_t)buffer->device), buffer->label);
    return buffer->allocated_stack ? add_number(hash, buffer->allocated_stack) : add_number(hash, ~buffer->size);
}

static uint64_t not_zero(uint64_t hash)
{
    return hash ? hash : 1;
}

uint64_t identity_of_fault(const struct diagnosis *diagnosis)
{
    const struct evidence_site *site = diagnosis->site;
    uint64_t hash = add_number(START, diagnosis->kind);
    if (site) {
        hash = add_text(add_number(hash, site->exception.number), site->symbol);
        hash = add_number(hash, site->symbol ? site->kernel_offset : site->error_pc);
    }
    return not_zero(add_place(hash, diagnosis->owner));
}

uint64_t identity_of_misuse(const struct misuse *misuse)
{
    uint64_t hash = add_text(add_text(START, misuse->kind), misuse->call);
    hash = add_number(hash, misuse->caller);
    return not_zero(add_place(hash, misuse->place->buffer.id ? &misuse->place->buffer : NULL));
}

uint64_t identity_of_nan(const struct nan_fact *nan)
{
    uint64_t hash = add_text(add_text(START, nan->kind), nan->kernel ? nan->symbol : nan->plain);
    for (size_t i = 0; i < nan->frame_count; i++) {
        hash = add_text(add_text(hash, nan->frames[i].file), nan->frames[i].function);
        hash = add_number(add_number(hash, (uint64_t)(uint32_t)nan->frames[i].line), nan->frames[i].offset);
    }
    return not_zero(add_number(hash, (uint64_t)(uint32_t)nan->argument));
}
