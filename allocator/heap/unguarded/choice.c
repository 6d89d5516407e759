/* Which buffers the options leave to the driver. */
#include "unguarded.h"

#include "heap/block/books.h"
#include "base/aside.h"
#include "base/rules.h"
#include "stacks/labels.h"
#include "stacks/stack.h"

#include <string.h>

int passed_is_wanted;

static struct rules only, skip; /* constant after passed_open() */

void passed_open(void)
{
    rules_parse(&only, heap_options->only, strlen(heap_options->only)); /* options.c has accepted them */
    rules_parse(&skip, heap_options->skip, strlen(heap_options->skip));
    passed_is_wanted =
        only.count || skip.count || heap_options->sample > 1 || heap_options->min_size || heap_options->max_guarded;
}

/* Guarded memory in use on the device: what is idle can be released. */
static uint64_t guarded_bytes(int device)
{
    cufence_stats stats;
    return heap_stats(device, &stats) == CUFENCE_OK && stats.mapped_bytes > stats.idle_bytes
               ? stats.mapped_bytes - stats.idle_bytes
               : 0;
}

static int is_sampled(void)
{
    static uint64_t allocations; /* atomic */
    return layout_is_sampled(__atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED), heap_options->sample);
}

enum { FITS_ONLY = 1, FITS_SKIP = 2, FITS = 3 };

static unsigned fit(enum rule_kind kind, const char *text)
{
    return (rules_fit(&only, kind, text) ? FITS_ONLY : 0u) | (rules_fit(&skip, kind, text) ? FITS_SKIP : 0u);
}

/* Which rules the stack fits. Reading names takes milliseconds, so the answer is kept for each stack. */
static unsigned fit_frames(const struct stack *stack)
{
    static uint64_t known[4096]; /* atomic: the hash of a stack with the answer in its lowest bits; 0: none */
    uint64_t hash = (stack_native_hash(stack) + stack->python) * UINT64_C(0x9e3779b97f4a7c15) | 4;
    uint64_t *entry = &known[hash >> 52], word = __atomic_load_n(entry, __ATOMIC_RELAXED);
    if ((word & ~(uint64_t)FITS) == (hash & ~(uint64_t)FITS))
        return word & FITS;
    struct stack_frame frames[2 * STACK_READ];
    size_t native = stack_native_frames(stack, frames, STACK_READ);
    size_t all = native + stack_interned_frames(stack->python, frames + native, STACK_READ);
    unsigned answer = native ? fit(RULE_LIB, frames[0].module) : 0;
    for (size_t i = 0; i < all; i++)
        answer |= fit(RULE_FUNC, frames[i].function) | fit(RULE_FILE, frames[i].file);
    __atomic_store_n(entry, (hash & ~(uint64_t)FITS) | answer, __ATOMIC_RELAXED);
    return answer;
}

struct fitting {
    struct stack stack;
    unsigned answer;
};

static void fit_aside(void *argument)
{
    struct fitting *fitting = argument;
    fitting->answer = fit_frames(&fitting->stack);
}

static unsigned fit_stack(const void *frame)
{
    struct fitting fitting;
    stack_capture_native(&fitting.stack, frame);
    fitting.stack.python = stack_capture_python();
    aside_call(fit_aside, &fitting);
    return fitting.answer;
}

enum passed_reason passed_judge(const struct heap_request *wanted, const void *frame)
{
    const unsigned stacks = 1u << RULE_FUNC | 1u << RULE_FILE | 1u << RULE_LIB;
    unsigned answer = 0;
    if (wanted->size < heap_options->min_size)
        return PASSED_SMALL;
    if (only.count || skip.count)
        answer = fit(RULE_LABEL, label_current());
    if ((only.kinds | skip.kinds) & stacks)
        answer |= fit_stack(frame);
    if (answer & FITS_SKIP)
        return PASSED_SKIPPED;
    if (only.count && !(answer & FITS_ONLY))
        return PASSED_NOT_NAMED;
    if (heap_options->sample > 1 && !is_sampled())
        return PASSED_SAMPLE;
    uint64_t pages = (wanted->size + heap_granularity - 1) / heap_granularity;
    if (heap_options->max_guarded && guarded_bytes(wanted->device) + pages * heap_granularity > heap_options->max_guarded)
        return PASSED_LIMIT;
    return PASSED_NOT;
}

enum passed_reason passed_after(cufence_status status)
{
    if (!heap_lacks_room(status) || !heap_options->fallback)
        return PASSED_NOT;
    return status == CUFENCE_ERROR_OUT_OF_MEMORY ? PASSED_NO_MEMORY : PASSED_NO_SPACE;
}
