#include "stack.h"

#include "intern.h"
#include "module.h"
#include "libdw.h"
#include "native.h"
#include "python.h"
#include "python_end.h"
#include "walk.h"
#include "base/lock.h"
#include "base/aside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_python(void *stack)
{
    struct interned_frame frames[INTERNED_DEPTH];
    *(struct interned_stack *)stack = interned_add(frames, python_frames(frames), python_describe);
}

static struct interned_stack read_python(void)
{
    uint64_t hash = python_hash();
    if (!hash)
        return (struct interned_stack){0};
    struct interned_stack stack = interned_find(hash);
    if (__builtin_expect(!stack.number, 0))
        aside_call(add_python, &stack);
    return stack;
}

/* Never inlined: a program without Python need not save the registers that this takes. */
static __attribute__((noinline)) struct interned_stack capture_from_interpreter(void)
{
    struct interned_stack stack = {0};
    struct python_reader *reader = python_begin_read();
    if (reader) {
        stack = read_python();
        python_end_read(reader);
    }
    return stack;
}

static inline struct interned_stack capture_python(void)
{
    return stack_has_python() ? capture_from_interpreter() : (struct interned_stack){0};
}

/* What a report shows at most, and CUDA's own frames in front of that: each costs 5 to 10 ns. */
#define LAUNCH_DEPTH (STACK_SHOWN + 5u)

static inline __attribute__((always_inline)) void take_native(struct stack *out, const void *frame, size_t most)
{
    uint64_t hash;
    out->count = (uint32_t)walk_frames(frame, out->pcs, most, &hash);
}

/* Inlined because a function that ends with a tail call may already have released its frame. */
static inline __attribute__((always_inline)) void capture(struct stack *out, const void *frame)
{
    struct interned_stack python = capture_python();
    out->python = python.number;
    out->count = 0;
    if (python.readable < STACK_SHOWN)
        take_native(out, frame, LAUNCH_DEPTH - python.readable);
}

void stack_capture_from(struct stack *out, const void *frame)
{
    capture(out, frame);
}

__attribute__((noinline)) void stack_capture(struct stack *out)
{
    capture(out, __builtin_frame_address(0));
}

void stack_capture_native(struct stack *out, const void *frame)
{
    out->python = 0;
    take_native(out, frame, STACK_READ);
}

size_t stack_native_frames(const struct stack *stack, struct stack_frame *out, size_t max)
{
    return native_frames(stack, libdw_is_there(), out, max);
}

uint64_t stack_native_hash(const struct stack *stack)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < stack->count; i++)
        hash = (hash ^ stack->pcs[i]) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return hash;
}

uint32_t stack_capture_python(void)
{
    return capture_python().number;
}

/* Native frames are described when they are read. */
static void note_module(const struct interned_frame *frame, struct interned_text *out)
{
    struct module module = {.offset = 0}; /* stays without a path in generated code */
    module_of(frame->code.address - 1, &module);
    snprintf(out->file, sizeof out->file, "%.255s", module.path);
    out->offset = module.offset ? module.offset : 1;
}

struct walked {
    const uint64_t *pcs;
    size_t count;
    struct interned_stack stack;
};

static void add_walked(void *argument)
{
    struct walked *walked = argument;
    struct interned_frame frames[INTERNED_DEPTH];
    for (size_t i = 0; i < walked->count; i++)
        frames[i] = walk_frame(walked->pcs[i]);
    walked->stack = interned_add(frames, walked->count, note_module);
}

static __attribute__((cold, noinline)) struct interned_stack add_native(const uint64_t *pcs, size_t count)
{
    struct walked walked = {.pcs = pcs, .count = count};
    aside_call(add_walked, &walked);
    return walked.stack;
}

/* Inlined for the same reason as capture(). */
static inline __attribute__((always_inline)) uint32_t capture_native(const void *frame)
{
    uint64_t pcs[INTERNED_DEPTH], hash;
    size_t count = walk_frames(frame, pcs, INTERNED_DEPTH, &hash);
    struct interned_stack stack = count ? interned_find(hash) : (struct interned_stack){0};
    if (__builtin_expect(!stack.number, 0))
        stack = add_native(pcs, count);
    return stack.number;
}

__attribute__((noinline)) uint32_t stack_capture_interned(void)
{
    return stack_has_python() ? capture_from_interpreter().number : capture_native(__builtin_frame_address(0));
}

size_t stack_frames(const struct stack *stack, struct stack_frame *out, size_t max)
{
    size_t count = interned_read(stack->python, out, max);
    size_t room = count < STACK_SHOWN ? STACK_SHOWN - count : 0;
    return count + native_frames(stack, libdw_is_there(), out + count, room < max - count ? room : max - count);
}

/* The buffers of a report often share a stack, and naming its frames may take a tenth of a second. */
#define NAMED_KEPT 16u
static struct named {
    uint32_t number;
    size_t count;
    struct stack_frame frames[STACK_READ];
} * named[NAMED_KEPT]; /* under named_lock, as the next */
static unsigned named_next;
static struct lock named_lock = LOCK(RANK_LEAF);

static size_t name_native(struct named *out, uint32_t number)
{
    struct native_place places[INTERNED_DEPTH];
    size_t count = interned_read_native(number, places, INTERNED_DEPTH);
    out->number = number;
    out->count = count ? native_frames_at(places, count, libdw_is_there(), out->frames, STACK_READ) : 0;
    return count;
}

static size_t copy_named(const struct named *from, struct stack_frame *out, size_t max)
{
    size_t count = from->count < max ? from->count : max;
    memcpy(out, from->frames, count * sizeof *out);
    return count;
}

/* Returns 0 if the stack's frames have not been named yet. */
static int find_named(uint32_t number, struct stack_frame *out, size_t max, size_t *count)
{
    HOLD(&named_lock);
    for (unsigned i = 0; i < NAMED_KEPT; i++) {
        if (!named[i] || named[i]->number != number)
            continue;
        *count = copy_named(named[i], out, max);
        return 1;
    }
    return 0;
}

static void keep_named(struct named *fresh)
{
    lock_take(&named_lock);
    struct named *before = named[named_next % NAMED_KEPT];
    named[named_next++ % NAMED_KEPT] = fresh;
    lock_release(&named_lock);
    free(before);
}

size_t stack_interned_frames(uint32_t number, struct stack_frame *out, size_t max)
{
    size_t count = interned_read(number, out, max);
    if (count || find_named(number, out, max, &count))
        return count;
    struct named *fresh = malloc(sizeof *fresh);
    if (!fresh || !name_native(fresh, number)) {
        free(fresh);
        return 0;
    }
    count = copy_named(fresh, out, max);
    keep_named(fresh);
    return count;
}

size_t stack_buffer_frames(const void *unused, uint32_t number, struct stack_frame *out, size_t max)
{
    (void)unused;
    return stack_interned_frames(number, out, max);
}
