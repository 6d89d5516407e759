#include "machine.h"

#include "base/lock.h"
#include "base/hash.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/operand_uses.h"
#include "inspect/code/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

/* A word of the parameters. */
struct word {
    int is_written;
    struct machine_line line; /* file NULL: none, or several */
};

struct known_code {
    UT_hash_handle hh;       /* by key: no padding between its members */
    struct known_code *next; /* among those that are out of the table: others may still read them */
    struct code_key {
        CUfunction handle;
        const struct launch_function *function; /* whose code it is */
    } key;
    const void *module;
    int is_whole; /* all that the kernel writes is known */
    int cubins;
    unsigned word_count;
    struct word *words; /* of the parameters, up to the last one that is written through */
};

static struct lock lock = LOCK(RANK_LEAF);
static struct known_code *codes, *gone; /* under the lock */

/* ---- finding out ---- */

static void add_line(struct word *word, struct span cubin, const char *symbol, const struct operand_use *use, int is_first)
{
    struct cubin_line found;
    char path[1024];
    for (uint32_t i = 0; i < use->write_count; i++) {
        int has = i < USES_WRITES && cubin_find_kernel_line(cubin, symbol, use->write_at[i], &found);
        if (has)
            snprintf(path, sizeof path, "%s%s%s", found.directory ? found.directory : "", found.directory ? "/" : "",
                     found.file);
        if (has && is_first && i == 0)
            word->line = (struct machine_line){strdup(path), found.line};
        if (has && word->line.file && word->line.line == found.line && !strcmp(word->line.file, path))
            continue;
        free((char *)(uintptr_t)word->line.file);
        word->line.file = NULL;
        return;
    }
}

/* Makes room for the words that are written through. Returns 0 if out of memory. */
static int make_words(struct known_code *code, const struct operand_uses *uses)
{
    unsigned count = USES_WORDS;
    while (count && !uses->words[count - 1].write_count)
        count--;
    if (count <= code->word_count)
        return 1;
    struct word *words = realloc(code->words, count * sizeof *words);
    if (!words)
        return 0;
    memset(words + code->word_count, 0, (count - code->word_count) * sizeof *words);
    code->words = words;
    code->word_count = count;
    return 1;
}

static void find_uses(const struct cubin_kernel *kernel, struct operand_uses *uses)
{
    struct span code = kernel->code;
    uint8_t *copy = kernel->only_asserts ? uses_end_at_calls(code) : NULL;
    if (copy)
        code.bytes = copy;
    uses_find_writes(code, kernel->sm, uses);
    free(copy);
}

/* Adds what a cubin says: with several, what any of them does. */
static void look(struct span cubin, void *user)
{
    struct known_code *code = user;
    struct cubin_kernel kernel;
    struct operand_uses uses;
    if (!cubin_find_kernel(cubin, code->key.function->name, &kernel)) {
        uint64_t work = UINT64_MAX;
        Elf64_Sym symbol;
        code->is_whole &= !cubin_find_named(cubin, code->key.function->name, &work, &symbol);
        return;
    }
    if (kernel.parameters_at != slice_parameters_at(kernel.sm)) { /* another compiler than those that the slicer knows */
        code->is_whole = 0;
        return;
    }
    find_uses(&kernel, &uses);
    code->is_whole &= make_words(code, &uses) && uses.knows_writes;
    for (unsigned i = 0; i < code->word_count; i++) {
        struct word *word = &code->words[i];
        const struct operand_use *use = &uses.words[i];
        word->is_written |= use->write_count != 0;
        if (use->write_count)
            add_line(word, cubin, code->key.function->name, use, code->cubins == 0);
    }
    code->cubins++;
}

static struct known_code *find_out(CUfunction handle, const struct launch_function *function)
{
    struct known_code *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->key = (struct code_key){handle, function};
    made->module = code_module_of(handle);
    made->is_whole = 1;
    int is_all = made->module && code_look(handle, made->module, look, made);
    made->is_whole &= is_all && made->cubins > 0;
    return made;
}

static const struct known_code *code_of(CUfunction handle, const struct launch_function *function)
{
    const struct code_key key = {handle, function};
    const struct known_code *code;
    HOLD(&lock);
    HASH_FIND(hh, codes, &key, sizeof key, code);
    return code;
}

static void free_code(struct known_code *code)
{
    for (unsigned i = 0; i < code->word_count; i++)
        free((char *)(uintptr_t)code->words[i].line.file);
    free(code->words);
    free(code);
}

void machine_find_out(CUfunction handle, const struct launch_function *function)
{
    if (!code_is_kept || !handle || !function || !function->name[0] || code_of(handle, function))
        return;
    struct known_code *made = find_out(handle, function), *other = NULL;
    if (!made)
        return;
    lock_take(&lock);
    HASH_FIND(hh, codes, &made->key, sizeof made->key, other); /* another thread may have been faster */
    if (!other)
        HASH_ADD(hh, codes, key, sizeof made->key, made);
    int is_added = made->hh.tbl != NULL;
    lock_release(&lock);
    if (!is_added)
        free_code(made);
}

void machine_gone(const void *module)
{
    struct known_code *code, *next;
    HOLD(&lock);
    HASH_ITER(hh, codes, code, next)
    {
        if (code->module != module)
            continue;
        HASH_DEL(codes, code);
        LL_PREPEND(gone, code);
    }
}

/* ---- asking ---- */

/* Returns the word of a pointer, NULL if nothing is known of it. */
static const struct word *word_of(const struct reached *reached, const struct known_code **code)
{
    static const struct word unused;
    const struct launch_function *function = reached->function;
    *code = NULL;
    if (!function || !reached->handle || !function->has_layout || reached->argument < 0 ||
        (uint32_t)reached->argument >= function->argument_count)
        return NULL;
    uint32_t at = function->arguments[reached->argument].offset + reached->at;
    *code = code_of(reached->handle, function);
    if (!*code || at % 8 != 0 || at / 8 >= USES_WORDS)
        return NULL;
    return at / 8 < (*code)->word_count ? &(*code)->words[at / 8] : &unused;
}

int machine_only_reads(const struct reached *reached)
{
    const struct known_code *code;
    const struct word *word = word_of(reached, &code);
    return word && code->is_whole && !word->is_written;
}

int machine_line_of_writes(const struct reached *reached, struct machine_line *out)
{
    const struct known_code *code;
    const struct word *word = word_of(reached, &code);
    if (!word || !code->is_whole || !word->line.file)
        return 0;
    *out = word->line;
    return 1;
}
