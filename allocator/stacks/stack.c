#include "stack.h"

#include "interned.h"
#include "native.h"
#include "python.h"
#include "python_end.h"
#include "unwind.h"

static struct interned_stack read_python(void)
{
    uint64_t hash = python_hash();
    if (!hash)
        return (struct interned_stack){0};
    struct interned_stack stack = interned_find(hash);
    if (__builtin_expect(!stack.number, 0)) {
        struct interned_frame frames[INTERNED_DEPTH];
        stack = interned_add(frames, python_frames(frames), python_describe);
    }
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
    return python_is_there() ? capture_from_interpreter() : (struct interned_stack){0};
}

/* With Python frames to show the caller, copy fewer words: reading those frames already took time. cudaLaunchKernel()'s own
 * frame takes 42 words (CUDA 13.0). */
#define WORDS_BESIDE_PYTHON 112

/* The saved frame pointer leads to the caller's registers: System V ABI for x86-64, section 3.2.2. Inlined because a function
 * that ends with a tail call may already have released its frame. */
static inline __attribute__((always_inline)) void capture(struct stack *out, const void *frame)
{
    struct interned_stack python = capture_python();
    out->python = python.number;
#if defined(__x86_64__)
    if (python.readable < STACK_SHOWN) {
        const uint64_t *pair = frame;
        native_capture(out, pair[1], pair + 2, pair[0], python.number ? WORDS_BESIDE_PYTHON : STACK_WORDS);
        return;
    }
#else
    (void)frame;
#endif
    /* The native half would not be shown; and other ABIs don't say where the caller's stack pointer is. */
    out->pc = out->sp = out->fp = 0;
    out->word_count = 0;
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
    *out = (struct stack){0};
#if defined(__x86_64__)
    const uint64_t *pair = frame;
    native_capture(out, pair[1], pair + 2, pair[0], STACK_WORDS);
#else
    (void)frame;
#endif
}

size_t stack_native_frames(const struct stack *stack, struct stack_frame *out, size_t max)
{
    return native_frames(stack, libdw_open(), out, max);
}

uint64_t stack_native_hash(const struct stack *stack)
{
    uint64_t pcs[STACK_READ], hash = 0;
    size_t count = stack->pc ? unwind(stack, pcs, STACK_READ) : 0;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ pcs[i]) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return hash;
}

int stack_has_python(void)
{
    return python_is_there();
}

uint32_t stack_capture_python(void)
{
    return capture_python().number;
}

size_t stack_frames(const struct stack *stack, struct stack_frame *out, size_t max)
{
    size_t count = stack_python_frames(stack->python, out, max);
    size_t room = count < STACK_SHOWN ? STACK_SHOWN - count : 0;
    return count + native_frames(stack, libdw_open(), out + count, room < max - count ? room : max - count);
}

size_t stack_python_frames(uint32_t python, struct stack_frame *out, size_t max)
{
    return interned_read(python, out, max);
}

size_t stack_buffer_frames(const void *unused, uint32_t python, struct stack_frame *out, size_t max)
{
    (void)unused;
    return stack_python_frames(python, out, max);
}
