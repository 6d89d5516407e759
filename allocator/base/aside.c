#include "aside.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENOUGH (512u << 10)     /* the deepest report takes 190 KiB; a driver may compile a kernel of ours */
#define STACK_BYTES (1u << 20)  /* memory is used for as much of it as is touched */
#define GUARD_BYTES (64u << 10) /* the largest page size */
#define KEPT 8

HOT_TLS struct own_stack aside_own;

/* A call of aside_call() under way; on the calling thread's own stack. */
struct visit {
    int cancel_state;
    void *sp; /* where the thread's own stack goes on; NULL: it has not been left */
};
static HOT_TLS struct visit *under_way;

static char *kept[KEPT]; /* atomic: stacks that are not in use, from their lowest byte; NULL: none */

static char *take_stack(void)
{
    for (size_t i = 0; i < KEPT; i++) {
        char *found =
            __atomic_load_n(&kept[i], __ATOMIC_RELAXED) ? __atomic_exchange_n(&kept[i], NULL, __ATOMIC_ACQUIRE) : NULL;
        if (found)
            return found;
    }
    char *low = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (low == MAP_FAILED)
        return NULL;
    mprotect(low, GUARD_BYTES, PROT_NONE);
    return low;
}

static void give_back(char *low)
{
    for (size_t i = 0; i < KEPT; i++) {
        char *none = NULL;
        if (__atomic_compare_exchange_n(&kept[i], &none, low, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
    }
    munmap(low, GUARD_BYTES + STACK_BYTES);
}

#define RED_ZONE 256u /* below the stack pointer, 128 of them in use (System V ABI for x86-64, section 3.2.2) */

/*
 * Calls function(argument) with the stack pointer at `top`, and puts the present one in *left. The frame pointer, which
 * __builtin_frame_address() asks for, stays on the stack that is left: debuggers and unwinders find their way back by it. A
 * shadow stack is as it is without the change, since each call returns in turn.
 */
static __attribute__((noinline)) void call_at(void *top, void **left, void (*function)(void *), void *argument)
{
    void *const volatile frame = __builtin_frame_address(0);
    (void)frame;
#if defined(__x86_64__)
    __asm__ volatile("movq %%rsp, (%[left])\n\t"
                     "movq %%rsp, %%rbx\n\t"
                     "movq %[top], %%rsp\n\t"
                     "callq *%[function]\n\t"
                     "movq %%rbx, %%rsp"
                     : [top] "+S"(top), [left] "+d"(left), [function] "+a"(function), "+D"(argument)
                     :
                     : "rbx", "rcx", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
#elif defined(__aarch64__)
    register void *first __asm__("x0") = argument;
    register void *to __asm__("x1") = top;
    register void **from __asm__("x2") = left;
    register void (*call)(void *) __asm__("x3") = function;
    __asm__ volatile("mov x19, sp\n\t"
                     "str x19, [x2]\n\t"
                     "mov sp, x1\n\t"
                     "blr x3\n\t"
                     "mov sp, x19"
                     : "+r"(first), "+r"(to), "+r"(from), "+r"(call)
                     :
                     : "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x19", "x30",
                       "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
                       "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
                       "v31", "cc", "memory");
#else
#error "name this machine's stack pointer"
#endif
}

static __attribute__((noinline)) void call_elsewhere(void **left, void (*function)(void *), void *argument)
{
    char *low = take_stack();
    if (low) {
        call_at(low + GUARD_BYTES + STACK_BYTES, left, function, argument);
        *left = NULL;
        give_back(low);
    } else {
        function(argument);
    }
}

static void ask(void *unused)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    (void)unused;
    aside_own.high = 1;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
        aside_own.low = (uint64_t)(uintptr_t)low;
        aside_own.high = aside_own.low + size;
    }
    pthread_attr_destroy(&attributes);
}

/* For the main thread, the C library reads /proc/self/maps. */
void aside_ask_for_bounds(void)
{
    void *left;
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    call_elsewhere(&left, ask, NULL);
    pthread_setcancelstate(before, NULL);
}

static int has_room(void)
{
    uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    if (!aside_own.high)
        aside_ask_for_bounds();
    return sp < aside_own.high && sp >= aside_own.low + ENOUGH;
}

void aside_call(void (*function)(void *), void *argument)
{
    struct visit visit = {0};
    if (under_way) {
        function(argument);
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &visit.cancel_state);
    under_way = &visit;
    int error = errno; /* what the driver does with it stays */
    if (has_room())
        function(argument);
    else
        call_elsewhere(&visit.sp, function, argument);
    errno = error;
    under_way = NULL;
    pthread_setcancelstate(visit.cancel_state, NULL);
}

void aside_return_for(void (*function)(void *), void *argument)
{
    struct visit *visit = under_way;
    void *left;
    if (!visit) {
        function(argument);
        return;
    }
    under_way = NULL;
    pthread_setcancelstate(visit->cancel_state, NULL);
    if (visit->sp)
        call_at((void *)(((uintptr_t)visit->sp - RED_ZONE) & ~(uintptr_t)15), &left, function, argument);
    else
        function(argument);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    under_way = visit;
}

void aside_sleep(unsigned microseconds)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    usleep(microseconds);
    pthread_setcancelstate(before, NULL);
}
