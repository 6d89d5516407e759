/* Which buffers the options leave to the driver. */
#include "unguarded.h"

#include "heap/block/books.h"
#include "base/aside.h"
#include "base/rules.h"
#include "stacks/labels.h"
#include "stacks/stack.h"

#include <string.h>

int passed_is_wanted;

static struct rules skip; /* constant after passed_open() */

void passed_open(void)
{
    rules_parse(&skip, heap_options->skip, strlen(heap_options->skip)); /* options.c has accepted them */
    passed_is_wanted = skip.count || heap_options->min_size;
}

/* Whether a rule fits the stack. Reading names takes milliseconds, so the answer is kept for each stack. */
static int fit_frames(const struct stack *stack)
{
    static uint64_t known[4096]; /* atomic: the hash of a stack with the answer in its lowest bit; 0: none */
    uint64_t hash = (stack_native_hash(stack) + stack->python) * UINT64_C(0x9e3779b97f4a7c15) | 2;
    uint64_t *entry = &known[hash >> 52], word = __atomic_load_n(entry, __ATOMIC_RELAXED);
    if (word >> 1 == hash >> 1)
        return (int)(word & 1);
    struct stack_frame frames[2 * STACK_READ];
    size_t native = stack_native_frames(stack, frames, STACK_READ);
    size_t all = native + stack_interned_frames(stack->python, frames + native, STACK_READ);
    int fits = native && rules_fit(&skip, RULE_LIB, frames[0].module);
    for (size_t i = 0; i < all && !fits; i++)
        fits = rules_fit(&skip, RULE_FUNC, frames[i].function) || rules_fit(&skip, RULE_FILE, frames[i].file);
    __atomic_store_n(entry, hash >> 1 << 1 | (uint64_t)fits, __ATOMIC_RELAXED);
    return fits;
}

struct fitting {
    struct stack stack;
    int fits;
};

static void fit_aside(void *argument)
{
    struct fitting *fitting = argument;
    fitting->fits = fit_frames(&fitting->stack);
}

static int fit_stack(const void *frame)
{
    struct fitting fitting;
    stack_capture_native(&fitting.stack, frame);
    fitting.stack.python = stack_capture_python();
    aside_call(fit_aside, &fitting);
    return fitting.fits;
}

enum passed_reason passed_judge(const struct heap_request *wanted, const void *frame)
{
    const unsigned stacks = 1u << RULE_FUNC | 1u << RULE_FILE | 1u << RULE_LIB;
    if (wanted->size < heap_options->min_size)
        return PASSED_SMALL;
    if (rules_fit(&skip, RULE_LABEL, label_current()) || (skip.kinds & stacks && fit_stack(frame)))
        return PASSED_SKIPPED;
    return PASSED_NOT;
}

enum passed_reason passed_after(cufence_status status)
{
    if (!heap_lacks_room(status))
        return PASSED_NOT;
    return status == CUFENCE_ERROR_OUT_OF_MEMORY ? PASSED_NO_MEMORY : PASSED_NO_SPACE;
}
