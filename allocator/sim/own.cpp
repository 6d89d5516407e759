// cufence's own kernels as they are, run on the host: a block is one thread, and what it shares is a variable of that thread's.
#include "inspect/kernels/elements.h"
#include "sim.h"

/* Kernels read whole words, and a sanitizer counts bytes. */
#define __device__ __attribute__((no_sanitize("address")))
#define __global__ __device__
#define __shared__
#define __forceinline__ inline
#define __syncthreads() ((void)0)
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)
#define __threadfence_system() ((void)0)
#define __shfl_down_sync(lanes, value, step) 0 /* there is no such lane, and it adds nothing */

struct place {
    unsigned x;
};
static const place threadIdx = {0}, blockDim = {1};
static thread_local place blockIdx, gridDim;

struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};

static double __longlong_as_double(long long bits)
{
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T>
static T exchange(T *at, T value)
{
    T old = *at;
    *at = value;
    return old;
}
#define atomicExch(at, value) exchange(at, value)
#define atomicAdd(at, value) exchange(at, *(at) + (value))
#define atomicMin(at, value) exchange(at, (value) < *(at) ? (value) : *(at))
#define atomicMax(at, value) exchange(at, (value) > *(at) ? (value) : *(at))

namespace figures
{
#include "inspect/kernels/elements.cu"
}
namespace reaches
{
#include "inspect/kernels/reach.cu"
}
namespace patterns
{
#include "kernels/pattern.cu"
}

/* Returns whether it is the thread that does its block's work. */
static bool begin(const cusim_thread *thread)
{
    blockIdx.x = thread->block_index[0];
    gridDim.x = thread->grid[0];
    return !thread->thread_index[0];
}

/* kernel.h declares them. */
#define OWN(name) extern "C" void own_##name(const cusim_thread *thread, void *const *arguments)

#define OWN_OF_ONE(name, kernel, type)                                                                                         \
    OWN(name)                                                                                                                  \
    {                                                                                                                          \
        if (begin(thread))                                                                                                     \
            kernel(*static_cast<const type *>(arguments[0]));                                                                  \
    }
OWN_OF_ONE(figures, figures::cufence_figures, figures_items)
OWN_OF_ONE(nans, figures::cufence_nans, figures_items)
OWN_OF_ONE(reach, reaches::cufence_reach, reaches::reach)

OWN(pattern_fill)
{
    if (begin(thread))
        patterns::cufence_pattern_fill(*static_cast<patterns::wide *>(arguments[0]),
                                       *static_cast<patterns::wide *>(arguments[1]));
}

/* cufence_pattern() but for what several threads do at once: a job may be cancelled (it does 0 then) while its state is
 * awaited, and each thread notes one of the bytes that were found. */
OWN(pattern)
{
    if (!begin(thread))
        return;
    patterns::job *own = *static_cast<patterns::job **>(arguments[0]) + blockIdx.x;
    patterns::word *states = *static_cast<patterns::word **>(arguments[1]), first, last, count, state = GOOD;
    patterns::word does = __atomic_load_n(&own->does, __ATOMIC_ACQUIRE);
    for (int side = 0; side < 2 && (does & CHECK); side++) {
        const patterns::range in = own->check[side];
        if (!patterns::check(in, does, &own->found[side], &first, &last, &count))
            continue;
        for (unsigned i = 0; i < FOUND && in.start + first + i < in.end; i++)
            own->found[side].bytes[i] = *(const volatile patterns::byte *)(in.start + first + i);
        state = BAD;
        if (does & RENEW)
            patterns::put_all(in, does);
    }
    for (int side = 0; side < 2 && (does & WRITE); side++)
        patterns::put_all(own->write[side], does);
    __atomic_store_n(&states[blockIdx.x], state, __ATOMIC_RELEASE);
}
