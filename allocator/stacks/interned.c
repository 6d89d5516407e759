#include "interned.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define SLOTS 131072ul /* a power of two; the load stays below a half */
_Static_assert((SLOTS & (SLOTS - 1)) == 0 && SLOTS >= 2ul * INTERNED_STACKS, "probing needs both");

struct code {
    struct interned_identity identity;
    UT_hash_handle hh;
    char *function, *file;
};

/* Constant once a slot points to it. */
struct entry {
    uint64_t hash;
    uint32_t number, count;
    struct {
        const struct code *code;
        int64_t position;
        int line;
    } frames[];
};

static struct entry **slots;   /* open addressing by hash; written under the lock, read without */
static struct entry **entries; /* by number, from 1; under the lock */
static uint32_t entry_count;   /* under the lock, as all below */
static struct code *codes;
static unsigned code_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A chain of two cheap steps a frame; entries are compared in full. */
static uint64_t hash_of(const struct interned_frame *frames, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = (hash << 7 | hash >> 57) ^ (frames[i].identity.code + (uint64_t)frames[i].position * 0x9e3779b97f4a7c15u);
    hash *= 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static inline int is_same_code(const struct interned_identity *a, const struct interned_identity *b)
{
    return ((a->code ^ b->code) | (a->filename ^ b->filename) | (a->name ^ b->name) | (a->linetable ^ b->linetable) |
            (a->first_line ^ b->first_line) | (a->texts ^ b->texts)) == 0;
}

static int is_same_stack(const struct entry *entry, const struct interned_frame *frames, size_t count)
{
    if (entry->count != count)
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (entry->frames[i].position != frames[i].position ||
            !is_same_code(&entry->frames[i].code->identity, &frames[i].identity))
            return 0;
    }
    return 1;
}

/* The entry of the stack, or NULL and the empty slot where it belongs. At least half of the slots are empty. */
static struct entry *look(struct entry **table, uint64_t hash, const struct interned_frame *frames, size_t count, size_t *slot)
{
    for (size_t i = hash & (SLOTS - 1);; i = (i + 1) & (SLOTS - 1)) {
        struct entry *entry = __atomic_load_n(&table[i], __ATOMIC_ACQUIRE);
        *slot = i;
        if (!entry || (entry->hash == hash && is_same_stack(entry, frames, count)))
            return entry;
    }
}

uint32_t interned_find(const struct interned_frame *frames, size_t count)
{
    struct entry **table = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
    size_t slot;
    if (!table || count == 0)
        return 0;
    const struct entry *entry = look(table, hash_of(frames, count), frames, count, &slot);
    return entry ? entry->number : 0;
}

/* NULL if there is no host memory, or no room (*is_full). */
static const struct code *code_of(const struct interned_identity *identity, const struct interned_text *text, int *is_full)
{
    struct code *code;
    HASH_FIND(hh, codes, identity, sizeof *identity, code);
    if (code)
        return code;
    *is_full = code_count == INTERNED_CODES;
    if (*is_full || !(code = calloc(1, sizeof *code)))
        return NULL;
    code->identity = *identity;
    code->function = strdup(text->function);
    code->file = strdup(text->file);
    if (!code->function || !code->file) {
        free(code->function);
        free(code->file);
        free(code);
        return NULL;
    }
    HASH_ADD(hh, codes, identity, sizeof code->identity, code);
    code_count++;
    return code;
}

static struct entry *make_entry(const struct interned_frame *frames, size_t count, interned_describe describe, int *is_full)
{
    struct entry *entry = malloc(sizeof *entry + count * sizeof entry->frames[0]);
    for (size_t i = 0; entry && i < count; i++) {
        struct interned_text text = {0};
        describe(&frames[i], &text);
        const struct code *code = code_of(&frames[i].identity, &text, is_full);
        if (!code) {
            free(entry);
            return NULL;
        }
        entry->frames[i].code = code;
        entry->frames[i].position = frames[i].position;
        entry->frames[i].line = text.line;
    }
    return entry;
}

static int make_tables(void)
{
    if (slots)
        return 1;
    struct entry **table = calloc(SLOTS, sizeof(struct entry *));
    entries = calloc(INTERNED_STACKS + 1, sizeof(struct entry *));
    if (!table || !entries) {
        free(table);
        free(entries);
        return 0;
    }
    __atomic_store_n(&slots, table, __ATOMIC_RELEASE);
    return 1;
}

static uint32_t add(const struct interned_frame *frames, size_t count, interned_describe describe)
{
    if (!make_tables())
        return 0;
    uint64_t hash = hash_of(frames, count);
    size_t slot;
    struct entry *entry = look(slots, hash, frames, count, &slot);
    if (entry)
        return entry->number;
    int is_full = entry_count == INTERNED_STACKS;
    if (!is_full)
        entry = make_entry(frames, count, describe, &is_full);
    if (!entry)
        return is_full ? INTERNED_FULL : 0;
    entry->hash = hash;
    entry->count = (uint32_t)count;
    entry->number = ++entry_count;
    entries[entry->number] = entry;
    __atomic_store_n(&slots[slot], entry, __ATOMIC_RELEASE);
    return entry->number;
}

uint32_t interned_add(const struct interned_frame *frames, size_t count, interned_describe describe)
{
    uint32_t number = interned_find(frames, count);
    if (number || count == 0)
        return number;
    pthread_mutex_lock(&lock);
    number = add(frames, count, describe);
    pthread_mutex_unlock(&lock);
    return number;
}

/* What the interpreter does to import a module is no news to anybody. */
static int is_of_the_importer(const struct code *code)
{
    return strncmp(code->file, "<frozen importlib", strlen("<frozen importlib")) == 0;
}

size_t interned_read(uint32_t number, struct stack_frame *out, size_t max)
{
    size_t kept = 0;
    if (number == INTERNED_FULL && max > 0) {
        out[0] = (struct stack_frame){.is_python = 1};
        snprintf(out[0].function, sizeof out[0].function,
                 "(not kept: as many different Python stacks as cufence keeps were seen before)");
        return 1;
    }
    pthread_mutex_lock(&lock);
    const struct entry *entry = number > 0 && number <= entry_count ? entries[number] : NULL;
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; entry && i < entry->count && kept < max; i++) {
        const struct code *code = entry->frames[i].code;
        if (is_of_the_importer(code))
            continue;
        struct stack_frame *frame = &out[kept++];
        *frame = (struct stack_frame){.is_python = 1, .line = entry->frames[i].line};
        snprintf(frame->function, sizeof frame->function, "%s", code->function);
        snprintf(frame->file, sizeof frame->file, "%s", code->file);
    }
    return kept;
}
