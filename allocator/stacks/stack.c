#include "stack.h"

#include "interned.h"
#include "native.h"
#include "python.h"

/* The frame pointer that the compiler is made to keep here leads to the caller's registers: the System V ABI for x86-64,
 * section 3.2.2. */
__attribute__((noinline)) void stack_capture(struct stack *out)
{
    out->python = stack_capture_python();
#if defined(__x86_64__)
    const uint64_t *frame = __builtin_frame_address(0);
    native_capture(out, frame[1], frame + 2, frame[0]);
#else
    /* Where the caller's stack pointer is, no rule of the other ABIs says: Python frames only. */
    out->pc = out->sp = out->fp = 0;
    out->word_count = 0;
#endif
}

uint32_t stack_capture_python(void)
{
    struct interned_frame frames[INTERNED_DEPTH];
    return interned_add(frames, python_frames(frames), python_describe);
}

size_t stack_frames(const struct stack *stack, struct stack_frame *out, size_t max)
{
    size_t count = stack_python_frames(stack->python, out, max);
    return count + native_frames(stack, libdw_open(), out + count, max - count);
}

size_t stack_python_frames(uint32_t python, struct stack_frame *out, size_t max)
{
    return interned_read(python, out, max);
}
