#include "intern.h"

#include "base/lock.h"
#include "base/hash.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 131072ul /* a power of two; at most half of them are used */
_Static_assert((SLOTS & (SLOTS - 1)) == 0 && SLOTS >= 2ul * INTERNED_STACKS, "probing needs both");

/* Hexadecimal digits of pi after the point: numbers that nobody picked for a purpose. */
const uint64_t interned_keys[2 * INTERNED_DEPTH] = {
    0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89, 0x452821e638d01377, 0xbe5466cf34e90c6c,
    0xc0ac29b7c97c50dd, 0x3f84d5b5b5470917, 0x9216d5d98979fb1b, 0xd1310ba698dfb5ac, 0x2ffd72dbd01adfb7, 0xb8e1afed6a267e96,
    0xba7c9045f12c7f99, 0x24a19947b3916cf7, 0x0801f2e2858efc16, 0x636920d871574e69, 0xa458fea3f4933d7e, 0x0d95748f728eb658,
    0x718bcd5882154aee, 0x7b54a41dc25a59b5, 0x9c30d5392af26013, 0xc5d1b023286085f0, 0xca417918b8db38ef, 0x8e79dcb0603a180e,
    0x6c9e0e8bb01e8a3e, 0xd71577c1bd314b27, 0x78af2fda55605c60, 0xe65525f3aa55ab94, 0x5748986263e81440, 0x55ca396a2aab10b6,
    0xb4cc5c341141e8ce, 0xa15486af7c72e993, 0xb3ee1411636fbc2a, 0x2ba9c55d741831f6, 0xce5c3e169b87931e, 0xafd6ba336c24cf5c,
    0x7a32538128958677, 0x3b8f48986b4bb9af, 0xc4bfe81b66282193, 0x61d809ccfb21a991, 0x487cac605dec8032, 0xef845d5de98575b1,
    0xdc262302eb651b88, 0x23893e81d396acc5, 0x0f6d6ff383f44239, 0x2e0b4482a4842004, 0x69c8f04a9e1f9b5e, 0x21c66842f6e96c9a,
};

struct code {
    struct interned_code identity;
    UT_hash_handle hh;
    uint64_t offset; /* not 0: it is native */
    const char *file;
    char function[]; /* and behind it, the file */
};

/* Constant once it has a number. */
struct entry {
    uint32_t count;
    struct {
        const struct code *code;
        int line;
    } frames[];
};

/* Constant once it has a number. */
struct slot {
    uint64_t hash;
    struct interned_stack stack; /* its number is atomic */
};

static struct slot *slots;     /* open addressing by hash; written under the lock, read without */
static struct entry **entries; /* indexed by number, from 1; under the lock */
static uint32_t entry_count;   /* under the lock, like everything below */
static struct code *codes;
static struct lock lock = LOCK(RANK_LEAF);

/* Returns the slot of the hash and sets *stack; or the empty slot where it belongs, with *stack zeroed. Terminates because at
 * least half of the slots are empty. */
static struct slot *look(struct slot *table, uint64_t hash, struct interned_stack *stack)
{
    for (size_t i = hash & (SLOTS - 1);; i = (i + 1) & (SLOTS - 1)) {
        uint32_t number = __atomic_load_n(&table[i].stack.number, __ATOMIC_ACQUIRE);
        *stack = (struct interned_stack){0};
        if (number && table[i].hash == hash)
            *stack = (struct interned_stack){number, table[i].stack.readable};
        if (!number || stack->number)
            return &table[i];
    }
}

struct interned_stack interned_find(uint64_t hash)
{
    struct slot *table = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
    struct interned_stack stack = {0};
    if (table)
        look(table, hash, &stack);
    return stack;
}

/* NULL if out of host memory. */
static struct code *make_code(const struct interned_code *identity, const struct interned_text *text)
{
    size_t function = strlen(text->function) + 1, file = strlen(text->file) + 1;
    struct code *code = malloc(sizeof *code + function + file);
    if (!code)
        return NULL;
    code->identity = *identity;
    code->offset = text->offset;
    memcpy(code->function, text->function, function);
    code->file = memcpy(code->function + function, text->file, file);
    HASH_ADD(hh, codes, identity, sizeof code->identity, code);
    return HASH_KEPT(code);
}

/* NULL if out of host memory, or if the table is full (*is_full). */
static const struct code *code_of(const struct interned_code *identity, const struct interned_text *text, int *is_full)
{
    struct code *code;
    HASH_FIND(hh, codes, identity, sizeof *identity, code);
    if (code)
        return code;
    *is_full = HASH_COUNT(codes) == INTERNED_CODES;
    return *is_full ? NULL : make_code(identity, text);
}

static struct entry *make_entry(const struct interned_frame *frames, size_t count, interned_describe describe, int *is_full)
{
    struct entry *entry = malloc(sizeof *entry + count * sizeof entry->frames[0]);
    for (size_t i = 0; entry && i < count; i++) {
        struct interned_text text = {0};
        describe(&frames[i], &text);
        const struct code *code = code_of(&frames[i].code, &text, is_full);
        if (!code) {
            free(entry);
            return NULL;
        }
        entry->frames[i].code = code;
        entry->frames[i].line = text.line;
    }
    if (entry)
        entry->count = (uint32_t)count;
    return entry;
}

/* Frames of the import machinery, of cufence's own package, and the one that CPython inserts between __init__() and its caller
 * from 3.12 on (its file is "__init__", too) tell the reader nothing. */
static int tells_nothing(const struct code *code)
{
    return strcmp(code->file, "__init__") == 0 || strncmp(code->file, "<frozen importlib", strlen("<frozen importlib")) == 0 ||
           strstr(code->file, "/cufence/_");
}

static uint32_t count_readable(const struct entry *entry)
{
    uint32_t readable = 0;
    for (size_t i = 0; i < entry->count; i++)
        readable += !tells_nothing(entry->frames[i].code);
    return readable;
}

static int make_tables(void)
{
    if (slots)
        return 1;
    struct slot *table = calloc(SLOTS, sizeof *table);
    struct entry **numbers = calloc(INTERNED_STACKS + 1, sizeof(struct entry *));
    if (!table || !numbers) {
        free(table);
        free(numbers);
        return 0;
    }
    entries = numbers;
    __atomic_store_n(&slots, table, __ATOMIC_RELEASE);
    return 1;
}

static struct interned_stack add(uint64_t hash, const struct interned_frame *frames, size_t count, interned_describe describe)
{
    struct interned_stack stack = {0};
    if (!make_tables())
        return stack;
    struct slot *slot = look(slots, hash, &stack);
    if (stack.number)
        return stack;
    int is_full = entry_count == INTERNED_STACKS;
    struct entry *entry = is_full ? NULL : make_entry(frames, count, describe, &is_full);
    if (!entry)
        return is_full ? (struct interned_stack){.number = INTERNED_FULL, .readable = 1} : stack;
    entries[++entry_count] = entry;
    slot->hash = hash;
    slot->stack.readable = count_readable(entry);
    __atomic_store_n(&slot->stack.number, entry_count, __ATOMIC_RELEASE);
    return slot->stack;
}

struct interned_stack interned_add(const struct interned_frame *frames, size_t count, interned_describe describe)
{
    struct interned_sum sum = {0};
    for (size_t i = 0; i < count; i++)
        interned_mix(&sum, &frames[i]);
    if (count == 0)
        return (struct interned_stack){0};
    HOLD(&lock);
    return add(interned_hash(&sum), frames, count, describe);
}

static const struct entry *entry_of(uint32_t number)
{
    HOLD(&lock);
    return number > 0 && number <= entry_count ? entries[number] : NULL;
}

size_t interned_read(uint32_t number, struct stack_frame *out, size_t max)
{
    size_t kept = 0;
    if (number == INTERNED_FULL && max > 0) {
        out[0] = (struct stack_frame){.is_python = 1};
        snprintf(out[0].function, sizeof out[0].function, "(not kept: too many different stacks)");
        return 1;
    }
    const struct entry *entry = entry_of(number);
    for (size_t i = 0; entry && i < entry->count && kept < max; i++) {
        const struct code *code = entry->frames[i].code;
        if (tells_nothing(code) || code->offset)
            continue;
        struct stack_frame *frame = &out[kept++];
        *frame = (struct stack_frame){.is_python = 1, .line = entry->frames[i].line};
        text_format(frame->function, sizeof frame->function, "%s", code->function);
        text_format(frame->file, sizeof frame->file, "%s", code->file);
    }
    return kept;
}

size_t interned_read_native(uint32_t number, struct native_place *out, size_t max)
{
    size_t count = 0;
    const struct entry *entry = entry_of(number);
    for (size_t i = 0; entry && i < entry->count && count < max; i++) {
        const struct code *code = entry->frames[i].code;
        if (code->offset)
            out[count++] = (struct native_place){code->identity.address, code->offset, code->file};
    }
    return count;
}
