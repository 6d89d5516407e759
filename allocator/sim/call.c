#include "call.h"

#include <search.h>
#include <time.h>

struct call {
    struct call *next;
    char name[64];
    atomic_ullong count;
    atomic_ullong fail_at; /* value of count at which a call fails; 0: none */
    atomic_uint fail_result;
    atomic_uint fails_always; /* the result of every call; 0: it works */
    atomic_uint latency;      /* microseconds */
};

/* Guards the list and the creation of its elements, which are never freed. */
static pthread_mutex_t call_lock = PTHREAD_MUTEX_INITIALIZER;
static struct call *calls;
static atomic_int is_initialized;
static atomic_int is_forked; /* forked from an initialized process: CUDA does not survive that */

static __thread const char *name_of_call = "a call";

void *memory_new(size_t size)
{
    void *memory = calloc(1, size + 1);
    if (memory == NULL)
        abort();
    return memory;
}

void *memory_copy(const void *bytes, size_t size)
{
    void *copy = memory_new(size);
    return size == 0 ? copy : memcpy(copy, bytes, size);
}

FILE *memory_file(char **bytes, size_t *size)
{
    FILE *file = open_memstream(bytes, size);
    if (file == NULL)
        abort();
    return file;
}

void *tree_add(void *item, void **tree, int (*compare)(const void *, const void *))
{
    void **node = tsearch(item, tree, compare);
    if (node == NULL)
        abort();
    return *node;
}

/* Strips "_ptsz", "_ptds" and "_v2": all forms of a function count as one call. */
static void base_name(const char *name, char base[64])
{
    strncpy(base, name, 63);
    base[63] = '\0';
    for (char *suffix; (suffix = strrchr(base, '_')) != NULL;) {
        int is_version = suffix[1] == 'v' && suffix[2] >= '1' && suffix[2] <= '9' && suffix[3] == '\0';
        if (!is_version && strcmp(suffix, "_ptsz") != 0 && strcmp(suffix, "_ptds") != 0)
            return;
        *suffix = '\0';
    }
}

static struct call *find(const char *name)
{
    char base[64];
    base_name(name, base);
    HOLD(&call_lock);
    struct call *call = calls;
    while (call != NULL && strcmp(call->name, base) != 0)
        call = call->next;
    if (call == NULL) {
        call = memory_new(sizeof *call);
        memcpy(call->name, base, sizeof base);
        call->next = calls;
        calls = call;
    }
    return call;
}

static void sleep_microseconds(unsigned microseconds)
{
    struct timespec time = {.tv_sec = microseconds / 1000000, .tv_nsec = (long)(microseconds % 1000000) * 1000};
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    while (nanosleep(&time, &time) != 0)
        continue;
    pthread_setcancelstate(state, NULL);
}

CUresult call_enter(struct call *_Atomic *site, const char *name, int needs_init)
{
    struct call *call = atomic_load_explicit(site, memory_order_acquire);
    if (call == NULL) {
        call = find(name);
        atomic_store_explicit(site, call, memory_order_release);
    }
    name_of_call = name;
    unsigned long long count = atomic_fetch_add(&call->count, 1) + 1;
    unsigned latency = atomic_load(&call->latency);
    if (latency != 0)
        sleep_microseconds(latency);
    unsigned long long fail_at = atomic_load(&call->fail_at);
    if (fail_at == count && atomic_compare_exchange_strong(&call->fail_at, &fail_at, 0))
        return (CUresult)atomic_load(&call->fail_result);
    if (atomic_load(&call->fails_always) != 0)
        return (CUresult)atomic_load(&call->fails_always);
    return needs_init && !atomic_load(&is_initialized) ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

const char *call_name(void)
{
    return name_of_call;
}

/* A thread that is not in the child may have held the lock. The list is whole at each moment. */
static void forbid_child(void)
{
    pthread_mutex_init(&call_lock, NULL);
    atomic_store(&is_initialized, 0);
    atomic_store(&is_forked, 1);
}

void call_set_initialized(void)
{
    pthread_atfork(NULL, NULL, forbid_child);
    atomic_store(&is_initialized, 1);
}

int call_is_forked(void)
{
    return atomic_load(&is_forked);
}

SIM_API void cusim_fail_call(const char *function, unsigned nth, CUresult result)
{
    struct call *call = find(function);
    atomic_store(&call->fail_result, (unsigned)result);
    atomic_store(&call->fail_at, nth == 0 ? 0 : atomic_load(&call->count) + nth);
}

SIM_API void cusim_fail_calls(const char *function, CUresult result)
{
    atomic_store(&find(function)->fails_always, (unsigned)result);
}

SIM_API uint64_t cusim_call_count(const char *function)
{
    if (function != NULL)
        return atomic_load(&find(function)->count);
    uint64_t all = 0;
    HOLD(&call_lock);
    for (const struct call *call = calls; call != NULL; call = call->next)
        all += atomic_load(&call->count);
    return all;
}

SIM_API void cusim_set_latency(const char *function, unsigned microseconds)
{
    atomic_store(&find(function)->latency, microseconds);
}

/* ---- the names of the results ---- */

#define NAME(result) [CUDA_##result] = "CUDA_" #result

static const char *const names[] = LIST(
    NAME(SUCCESS), NAME(ERROR_INVALID_VALUE), NAME(ERROR_OUT_OF_MEMORY), NAME(ERROR_NOT_INITIALIZED), NAME(ERROR_NO_DEVICE),
    NAME(ERROR_INVALID_DEVICE), NAME(ERROR_INVALID_IMAGE), NAME(ERROR_INVALID_CONTEXT), NAME(ERROR_UNSUPPORTED_LIMIT),
    NAME(ERROR_INVALID_PTX), NAME(ERROR_FILE_NOT_FOUND), NAME(ERROR_OPERATING_SYSTEM), NAME(ERROR_INVALID_HANDLE),
    NAME(ERROR_ILLEGAL_STATE), NAME(ERROR_NOT_FOUND), NAME(ERROR_NOT_READY), NAME(ERROR_ILLEGAL_ADDRESS),
    NAME(ERROR_LAUNCH_OUT_OF_RESOURCES), NAME(ERROR_PEER_ACCESS_ALREADY_ENABLED), NAME(ERROR_PEER_ACCESS_NOT_ENABLED),
    NAME(ERROR_CONTEXT_IS_DESTROYED), NAME(ERROR_ASSERT), NAME(ERROR_HOST_MEMORY_ALREADY_REGISTERED),
    NAME(ERROR_HOST_MEMORY_NOT_REGISTERED), NAME(ERROR_HARDWARE_STACK_ERROR), NAME(ERROR_ILLEGAL_INSTRUCTION),
    NAME(ERROR_MISALIGNED_ADDRESS), NAME(ERROR_INVALID_ADDRESS_SPACE), NAME(ERROR_INVALID_PC), NAME(ERROR_LAUNCH_FAILED),
    NAME(ERROR_NOT_PERMITTED), NAME(ERROR_NOT_SUPPORTED), NAME(ERROR_STREAM_CAPTURE_UNSUPPORTED),
    NAME(ERROR_STREAM_CAPTURE_INVALIDATED), NAME(ERROR_STREAM_CAPTURE_MERGE), NAME(ERROR_STREAM_CAPTURE_UNMATCHED),
    NAME(ERROR_STREAM_CAPTURE_UNJOINED), NAME(ERROR_STREAM_CAPTURE_ISOLATION), NAME(ERROR_STREAM_CAPTURE_IMPLICIT),
    NAME(ERROR_CAPTURED_EVENT), NAME(ERROR_STREAM_CAPTURE_WRONG_THREAD), NAME(ERROR_GRAPH_EXEC_UPDATE_FAILURE),
    NAME(ERROR_INVALID_RESOURCE_TYPE), NAME(ERROR_INVALID_RESOURCE_CONFIGURATION), NAME(ERROR_UNKNOWN));

DRIVER_EARLY(cuGetErrorName, 6000, (CUresult, error, const char **, pStr))
{
    CALL_REFUSE(pStr == NULL, INVALID_VALUE);
    *pStr = (unsigned)error < sizeof names / sizeof *names ? names[error] : NULL;
    return *pStr == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
