#include "kernels.h"

#include "base/aside.h"
#include "base/clock.h"
#include "driver/call_checks.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

/*
 * PTX for sm_50, which drivers still compile for every device. The poison kernel loads before it stores because a warp that
 * waits for a loaded value is still alive when it faults.
 */
static const char image[] = ".version 6.0\n"
                            ".target sm_50\n"
                            ".address_size 64\n"
                            ".visible .entry " FENCE_KERNEL "()\n"
                            "{\n"
                            "    ret;\n"
                            "}\n"
                            ".visible .entry " POISON_KERNEL "(.param .u64 address)\n"
                            "{\n"
                            "    .reg .b64 %to;\n"
                            "    .reg .b32 %value;\n"
                            "    ld.param.u64 %to, [address];\n"
                            "    ld.volatile.global.u32 %value, [%to];\n"
                            "    st.volatile.global.u32 [%to], %value;\n"
                            "    ret;\n"
                            "}\n";

/* What one context has loaded. Reused by the next context in the same entry. */
struct prepared {
    int is_ready; /* atomic */
    CUfunction fence, poison;
    CUstream stream;
    void *pinned; /* PINNED_BYTES for kernels_read(), which has no time; NULL: the host had none */
};

#define PINNED_BYTES ((size_t)16 << 10)
#define DEBUGGER_NS (UINT64_C(500) * 1000000)

static struct prepared *prepared_of(const struct context *context)
{
    struct prepared *prepared = __atomic_load_n((struct prepared *const *)&context->books[CONTEXT_KERNELS], __ATOMIC_ACQUIRE);
    return prepared && __atomic_load_n(&prepared->is_ready, __ATOMIC_ACQUIRE) ? prepared : NULL;
}

/* The program did not ask for these calls, so its stack need not have room for what they take. */

struct load {
    const char *ptx, *const *names;
    CUfunction *functions;
    size_t count;
    int is_done;
};

static void load(void *argument)
{
    struct load *load = argument;
    CUmodule module = NULL;
    load->is_done = driver->cuModuleLoadData(&module, load->ptx) == CUDA_SUCCESS;
    for (size_t i = 0; load->is_done && i < load->count; i++)
        load->is_done = driver->cuModuleGetFunction(&load->functions[i], module, load->names[i]) == CUDA_SUCCESS;
}

int kernels_load(const char *ptx, const char *const *names, CUfunction *functions, size_t count)
{
    struct load wanted = {ptx, names, functions, count, 0};
    aside_call(load, &wanted);
    return wanted.is_done;
}

struct launch {
    CUfunction function;
    unsigned blocks, threads;
    CUstream stream;
    void **arguments;
    CUresult result;
};

/* The libraries that were there at the last search, and when the driver's debugger was first among them. All atomic. */
static unsigned long long searched;
static uint64_t debugger_ns; /* 0: never */

/* The loader's lock guards the name, which ThreadSanitizer does not see. */
__attribute__((no_sanitize("thread"))) static int is_debugger(const char *name)
{
    static const char wanted[] = "/libcudadebugger.so";
    for (; *name; name++) {
        size_t same = 0;
        while (wanted[same] && name[same] == wanted[same])
            same++;
        if (!wanted[same])
            return 1;
    }
    return 0;
}

/* Stops at once if no library has come or gone since. */
static int find_debugger(struct dl_phdr_info *library, size_t size, void *is_first)
{
    unsigned long long changes = library->dlpi_adds + library->dlpi_subs;
    (void)size;
    if (*(int *)is_first && __atomic_exchange_n(&searched, changes, __ATOMIC_RELAXED) == changes)
        return 1;
    *(int *)is_first = 0;
    if (!is_debugger(library->dlpi_name))
        return 0;
    __atomic_store_n(&debugger_ns, monotonic_ns(), __ATOMIC_RELAXED);
    return 1;
}

/* The driver loads its debugger when a kernel has faulted, to write the core dump. A launch of cufence's while it begins
 * crashed in it (580.159: 2 of 214 runs of tests/gpu/programs/freed.cu, 8 at a time), none of the program's. So cufence's wait
 * a moment. */
static void wait_for_debugger(void)
{
    int is_first = 1;
    if (__atomic_load_n(&debugger_ns, __ATOMIC_RELAXED) == 0)
        dl_iterate_phdr(find_debugger, &is_first);
    uint64_t since = __atomic_load_n(&debugger_ns, __ATOMIC_RELAXED), now = monotonic_ns();
    if (since && now < since + DEBUGGER_NS)
        aside_sleep((unsigned)((since + DEBUGGER_NS - now) / 1000));
}

static void launch(void *argument)
{
    struct launch *launch = argument;
    wait_for_debugger();
    launch->result = driver->cuLaunchKernel(launch->function, launch->blocks, 1, 1, launch->threads, 1, 1, 0, launch->stream,
                                            launch->arguments, NULL);
}

CUresult kernels_launch(CUfunction function, unsigned blocks, unsigned threads, CUstream stream, void **arguments)
{
    struct launch wanted = {function, blocks, threads, stream, arguments, CUDA_SUCCESS};
    aside_call(launch, &wanted);
    return wanted.result;
}

void kernels_prepare(struct context *context)
{
    struct prepared *entry = context->books[CONTEXT_KERNELS];
    static const char *const names[] = {FENCE_KERNEL, POISON_KERNEL};
    CUfunction functions[2];
    if (!entry && !(entry = calloc(1, sizeof *entry)))
        return;
    __atomic_store_n((struct prepared **)&context->books[CONTEXT_KERNELS], entry, __ATOMIC_RELEASE);
    if (!kernels_load(image, names, functions, 2) ||
        driver->cuStreamCreate(&entry->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return;
    driver_owns(entry->stream);
    if (driver->cuMemHostAlloc(&entry->pinned, PINNED_BYTES, 0) != CUDA_SUCCESS)
        entry->pinned = NULL;
    entry->fence = functions[0];
    entry->poison = functions[1];
    /* Modules load lazily. Launch the fence once now, so that no later fence needs to load code while the device is stopped. */
    kernels_launch(entry->fence, 1, 1, entry->stream, NULL);
    __atomic_store_n(&entry->is_ready, 1, __ATOMIC_RELEASE);
}

/* Returns the prepared context after `previous` (NULL: the first) on `device` (-1: any). */
static struct context *next_prepared(const struct context *previous, int device)
{
    struct context *context = context_next(previous);
    while (context && !(prepared_of(context) && (device < 0 || context->device == device)))
        context = context_next(context);
    return context;
}

/* Makes a context current. Returns NULL if it no longer exists. */
static struct prepared *enter(const struct context *context)
{
    struct prepared *prepared = prepared_of(context);
    return prepared && driver->cuCtxPushCurrent(context->handle) == CUDA_SUCCESS ? prepared : NULL;
}

static void leave(void)
{
    CUcontext popped;
    driver->cuCtxPopCurrent(&popped);
}

static int wait_for(CUstream stream, int (*give_up)(void *user), void *user)
{
    for (unsigned asked = 0; driver->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY; asked++) {
        if (asked < 100)
            continue;
        if (give_up(user))
            return 0;
        aside_sleep(asked < 200 ? 20 : 1000);
    }
    return 1;
}

void kernels_fence(const struct context *only, int (*is_left_out)(int device), int (*give_up)(void *user), void *user)
{
    int is_passed = 1;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver->cuThreadExchangeStreamCaptureMode(&mode);
    for (struct context *context = next_prepared(NULL, -1); context && is_passed; context = next_prepared(context, -1)) {
        if ((only && only != context) || is_left_out(context->device))
            continue;
        enum context_hold hold = only ? CONTEXT_COUNTS_AS_THERE : context_hold(context);
        struct prepared *entry = hold == CONTEXT_HAS_ENDED ? NULL : enter(context);
        if (entry && kernels_launch(entry->fence, 1, 1, entry->stream, NULL) == CUDA_SUCCESS)
            is_passed = wait_for(entry->stream, give_up, user);
        if (entry)
            leave();
        context_let_go(context, hold);
    }
    driver->cuThreadExchangeStreamCaptureMode(&mode);
}

unsigned kernels_poison(int device, uint64_t unmapped_address)
{
    void *arguments[] = {&unmapped_address};
    unsigned launched = 0;
    for (struct context *context = next_prepared(NULL, device); context; context = next_prepared(context, device)) {
        struct prepared *entry = enter(context);
        if (!entry)
            continue;
        launched += kernels_launch(entry->poison, 1, 1, entry->stream, arguments) == CUDA_SUCCESS;
        leave();
    }
    return launched;
}

/* Reads what belongs to the context, which is current. The pinned memory ends with it, soon. */
static size_t read_pieces(const struct prepared *prepared, struct kernels_piece *pieces, size_t count, uint64_t until_ns)
{
    const CUstream stream = prepared->stream;
    size_t bytes = 0, at = 0, found = 0;
    void *pinned = prepared->pinned;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].bytes;
    if (!bytes)
        return 0;
    if ((!pinned || bytes > PINNED_BYTES) && driver->cuMemHostAlloc(&pinned, bytes, 0) != CUDA_SUCCESS)
        return 0;
    int is_asked[KERNELS_PIECES] = {0};
    for (size_t i = 0; i < count; at += pieces[i++].bytes)
        is_asked[i] =
            pieces[i].bytes && !pieces[i].is_read &&
            driver->cuMemcpyDtoHAsync((uint8_t *)pinned + at, pieces[i].address, pieces[i].bytes, stream) == CUDA_SUCCESS;
    CUresult result;
    while ((result = driver->cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY && monotonic_ns() < until_ns)
        aside_sleep(20);
    at = 0;
    for (size_t i = 0; i < count; at += pieces[i++].bytes) {
        if (!is_asked[i] || result != CUDA_SUCCESS)
            continue;
        memcpy(pieces[i].to, (uint8_t *)pinned + at, pieces[i].bytes);
        pieces[i].is_read = 1;
        found++;
    }
    return found;
}

size_t kernels_read(int device, struct kernels_piece *pieces, size_t count, unsigned ms)
{
    uint64_t until_ns = monotonic_ns() + (uint64_t)ms * 1000000;
    size_t found = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver->cuThreadExchangeStreamCaptureMode(&mode);
    count = count < KERNELS_PIECES ? count : KERNELS_PIECES;
    for (struct context *context = next_prepared(NULL, device); context && found < count && monotonic_ns() < until_ns;
         context = next_prepared(context, device)) {
        enum context_hold hold = context_hold(context);
        struct prepared *entry = hold == CONTEXT_HAS_ENDED ? NULL : enter(context);
        if (entry)
            found += read_pieces(entry, pieces, count, until_ns);
        if (entry)
            leave();
        context_let_go(context, hold);
    }
    driver->cuThreadExchangeStreamCaptureMode(&mode);
    return found;
}

int kernels_current_device(void)
{
    struct context *context = context_known_current();
    return context && prepared_of(context) ? context->device : -1;
}

int kernels_only_device(void)
{
    int device = -1;
    for (struct context *context = next_prepared(NULL, -1); context; context = next_prepared(context, -1)) {
        if (device >= 0 && device != context->device)
            return -1;
        device = context->device;
    }
    return device;
}

void kernels_forget(const struct context *context)
{
    struct prepared *prepared = context->books[CONTEXT_KERNELS];
    if (!prepared)
        return;
    driver_disowns(prepared->stream);
    __atomic_store_n(&prepared->is_ready, 0, __ATOMIC_RELEASE);
}

int kernels_have_failed(int device)
{
    for (struct context *context = next_prepared(NULL, device); context; context = next_prepared(context, device)) {
        struct prepared *entry = enter(context);
        if (!entry)
            continue;
        CUresult result = driver->cuStreamQuery(entry->stream);
        leave();
        if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
            return 0;
    }
    return 1;
}
