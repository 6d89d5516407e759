/*
 * The native half of a captured stack: taking it, and unwinding it later.
 *
 * Thread safety: every function, from any thread; native_frames() briefly holds the loader's lock.
 */
#ifndef CUFENCE_STACKS_NATIVE_H
#define CUFENCE_STACKS_NATIVE_H

#include "libdw.h"
#include "stack.h"

#include "base/aside.h"

/* Fills in pc, sp, fp and the words above sp: at most `most` (<= STACK_WORDS), and never beyond the end of the thread's stack.
 * `from` is the stack pointer in the frame of `pc` after the call returns, `fp` the frame pointer register. On a stack unknown
 * to the thread library (a coroutine's), the copy ends at the page boundary. */
void native_capture(struct stack *out, uint64_t pc, const uint64_t *from, uint64_t fp, size_t most) __attribute__((nonnull));

/* Returns the end of the calling thread's stack. On a stack unknown to the thread library, the end of sp's page. */
static inline uint64_t native_stack_end(uint64_t sp)
{
    enum { PAGE_BYTES = 4096 }; /* the smallest page size; up to the next multiple of it, memory is always mapped */
    if (__builtin_expect(aside_own.high == 0, 0))
        aside_ask_for_bounds();
    return sp >= aside_own.low && sp < aside_own.high ? aside_own.high : (sp | (PAGE_BYTES - 1)) + 1;
}

/* Reads an aligned word of the calling thread's stack, whoever's frame it is in: exempt from sanitizers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NATIVE_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NATIVE_IS_SANITIZED 1
#endif
#endif
#ifdef NATIVE_IS_SANITIZED
__attribute__((noinline, no_sanitize("address"), no_sanitize("thread"), unused))
#else
inline
#endif
static uint64_t
native_load(uint64_t address)
{
    return *(const volatile uint64_t *)(uintptr_t)address;
}

/* Gets the frames, innermost first. Leaves out frames of cufence, leading frames of the CUDA driver and runtime (static or
 * shared) if others follow, and frames in no module (generated code), which have no name. Without `libdw` (NULL), frames have
 * no source lines. Returns their number, at most `max`. */
size_t native_frames(const struct stack *stack, const struct libdw *libdw, struct stack_frame *out, size_t max);

/* A return address, and the module that it was in when it was captured: NULL if it still is, "" if it was in none. Path and
 * offset are those of struct module; of a longer path the first NATIVE_PATH_MOST
 * bytes. */
#define NATIVE_PATH_MOST 255
struct native_place {
    uint64_t pc, offset;
    const char *path;
};

/* The same for return addresses, innermost first, at most INTERNED_DEPTH. If another module is there now, or none, the frame
 * has the earlier module and offset only. */
size_t native_frames_at(const struct native_place *places, size_t count, const struct libdw *libdw, struct stack_frame *out,
                        size_t max);

/* unwind.c: unwinds a captured stack with the call frame information of the loaded modules (cfi.h), and through code without
 * any by frame pointers, as long as each one is plausible. Gets the return addresses, innermost first; the first is stack->pc.
 * For a frame interrupted by a signal it is the address of the next instruction to run plus one, so that the value minus one is
 * always inside the running code. Returns their number, at most `max`. */
size_t unwind(const struct stack *stack, uint64_t *pcs, size_t max);

#endif
