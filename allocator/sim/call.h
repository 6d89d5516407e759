/*
 * What every driver function begins with: the check that counts the call, lets it fail or slows it down if a test asks for
 * that, and refuses it before cuInit(); handles; and the configuration.
 *
 * Thread safety: any thread. The locks are leaves: nothing is called with them held.
 */
#pragma once

#include "sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#pragma GCC diagnostic ignored                                                                                                 \
    "-Wunused-parameter" /* a function of the driver has the parameters that cuda.h says, a kernel all */

#define SIM_API __attribute__((visibility("default")))

struct call;

/* A form of a driver function, for cuGetProcAddress(). */
struct symbol {
    const char *name, *abi_name; /* without and with its version, as the library exports it */
    int since;                   /* the CUDA version that introduced this form, as in cudaTypedefs.h */
    void (*function)(void);      /* for the legacy default stream */
    void (*twin)(void);          /* for per-thread default streams, or NULL */
};

/* Puts a row into the table that entry_points.c searches. */
#define SYMBOL(id, base, abi, since, function, twin)                                                                           \
    static const struct symbol *const id##_symbol __attribute__((section("sim_symbols"), used)) =                              \
        &(const struct symbol){base, abi, since, (void (*)(void))(function), (void (*)(void))(twin)};

/* `site` is a static variable of the caller that caches the look-up of the name. */
CUresult call_enter(struct call *_Atomic *site, const char *name, int needs_init);

/*
 * A function of the driver, with its parameters as types and names in turn:
 * DRIVER(cuMemGetInfo, 3020, (size_t *, free_bytes, size_t *, total)) { body }. DRIVER_EARLY: may be called before cuInit().
 * ..._FORM: `base` names all its forms. DRIVER_TWIN: it has a variant for programs compiled with per-thread default streams,
 * whose name ends with `suffix`: the same, with a different meaning of the NULL stream while it runs.
 */
#define DRIVER(name, since, pairs) DRIVER_FORM(#name, name, since, pairs)
#define DRIVER_FORM(base, name, since, pairs) NAMED_FORM(base, name, since, pairs, NULL) DRIVER_BODY(base, name, 1, pairs)
#define DRIVER_EARLY(name, since, pairs) DRIVER_EARLY_FORM(#name, name, since, pairs)
#define DRIVER_EARLY_FORM(base, name, since, pairs) NAMED_FORM(base, name, since, pairs, NULL) DRIVER_BODY(base, name, 0, pairs)
#define DRIVER_TWIN(name, suffix, since, pairs) DRIVER_TWIN_FORM(#name, name, suffix, since, pairs)
#define DRIVER_TWIN_FORM(base, name, suffix, since, pairs)                                                                     \
    TWIN(base, name, suffix, since, pairs) DRIVER_BODY(base, name, 1, pairs)
#define DRIVER_BODY(base, name, needs_init, pairs)                                                                             \
    static CUresult name##_body PARAMETERS pairs;                                                                              \
    SIM_API CUresult name PARAMETERS pairs                                                                                     \
    {                                                                                                                          \
        static struct call *_Atomic site;                                                                                      \
        CALL_TRY(call_enter(&site, base, needs_init));                                                                         \
        return name##_body ARGUMENTS pairs;                                                                                    \
    }                                                                                                                          \
    static CUresult name##_body PARAMETERS pairs
#define NAMED_FORM(base, name, since, pairs, twin)                                                                             \
    CUresult name PARAMETERS pairs;                                                                                            \
    SYMBOL(name, base, #name, since, name, twin)
#define TWIN(base, name, suffix, since, pairs)                                                                                 \
    CUresult name##_##suffix PARAMETERS pairs;                                                                                 \
    NAMED_FORM(base, name, since, pairs, name##_##suffix)                                                                      \
    SIM_API CUresult name##_##suffix PARAMETERS pairs                                                                          \
    {                                                                                                                          \
        stream_use_own_default(1);                                                                                             \
        CUresult result = name ARGUMENTS pairs;                                                                                \
        stream_use_own_default(0);                                                                                             \
        return result;                                                                                                         \
    }

/* Forms that call another one: they are not counted themselves. */
#define FORM(base, name, since, pairs) NAMED_FORM(base, name, since, pairs, NULL) SIM_API CUresult name PARAMETERS pairs
#define FORM_TWIN(base, name, suffix, since, pairs)                                                                            \
    TWIN(base, name, suffix, since, pairs) SIM_API CUresult name PARAMETERS pairs

/* Those that are no more than an expression. */
#define DRIVER_IS(name, since, pairs, ...) IS(DRIVER_FORM(#name, name, since, pairs), __VA_ARGS__)
#define DRIVER_TWIN_IS(name, suffix, since, pairs, ...) IS(DRIVER_TWIN_FORM(#name, name, suffix, since, pairs), __VA_ARGS__)
#define FORM_IS(base, name, since, pairs, ...) IS(FORM(base, name, since, pairs), __VA_ARGS__)
#define FORM_TWIN_IS(base, name, suffix, since, pairs, ...) IS(FORM_TWIN(base, name, suffix, since, pairs), __VA_ARGS__)
#define IS(head, ...)                                                                                                          \
    head                                                                                                                       \
    {                                                                                                                          \
        return __VA_ARGS__;                                                                                                    \
    }

/* Up to 16 pairs of a type and a name, as parameters and as arguments. */
#define PARAMETERS(...) (EXPAND(TYPED(__VA_ARGS__)))
#define ARGUMENTS(...) (EXPAND(NAMED(__VA_ARGS__)))
#define TYPED(type, name, ...) type name __VA_OPT__(, TYPED_NEXT PARENTHESES(__VA_ARGS__))
#define TYPED_NEXT() TYPED
#define PARENTHESES ()
#define NAMED(type, name, ...) name __VA_OPT__(, NAMED_NEXT PARENTHESES(__VA_ARGS__))
#define NAMED_NEXT() NAMED
#define EXPAND(...) EXPAND_4(EXPAND_4(EXPAND_4(EXPAND_4(__VA_ARGS__))))
#define EXPAND_4(...) EXPAND_1(EXPAND_1(EXPAND_1(EXPAND_1(__VA_ARGS__))))
#define EXPAND_1(...) __VA_ARGS__
#define ALL(...) __VA_ARGS__ /* takes parentheses off */

/* stream.c: sets what the NULL stream means to the calling thread: its per-thread default stream, or the legacy one
 * (initially). */
void stream_use_own_default(int is_own);

/* Returns `error` from the calling function unless `expression` is CUDA_SUCCESS. */
#define CALL_TRY(expression)                                                                                                   \
    do {                                                                                                                       \
        CUresult try_result = (expression);                                                                                    \
        if (try_result != CUDA_SUCCESS)                                                                                        \
            return try_result;                                                                                                 \
    } while (0)

/* Returns a CUresult from the calling function if the condition holds: CALL_REFUSE(size == 0, INVALID_VALUE). */
#define CALL_REFUSE(condition, error)                                                                                          \
    do {                                                                                                                       \
        if (condition)                                                                                                         \
            return CUDA_ERROR_##error;                                                                                         \
    } while (0)

/* An initialiser, of which clang-format puts several into a line. */
#define LIST(...)                                                                                                              \
    {                                                                                                                          \
        __VA_ARGS__                                                                                                            \
    }

/* Zeroed memory of the host, to be freed. A test can't go on without it: the process ends. */
void *memory_new(size_t size);
void *memory_copy(const void *bytes, size_t size); /* with a zero behind it */
FILE *memory_file(char **bytes, size_t *size);     /* as open_memstream() */
/* Adds an item to a tree of tsearch(), unless an equal one is there. Returns the one that is there. */
void *tree_add(void *item, void **tree, int (*compare)(const void *, const void *));

/* Holds a lock until the end of the block. Declares a variable, so it stands among statements. */
#define HOLD(lock)                                                                                                             \
    pthread_mutex_t *const held __attribute__((cleanup(call_unlock), unused)) = (lock);                                        \
    pthread_mutex_lock(held)

static inline void call_unlock(pthread_mutex_t *const *held)
{
    pthread_mutex_unlock(*held);
}

/* Returns the driver function that the calling thread is in, or was last in. */
const char *call_name(void);

/* Called by cuInit() on success: from now on calls that need initialisation are allowed. */
void call_set_initialized(void);
/* Whether the process was forked from one that was initialized. Nothing works there, not even cuInit(). */
int call_is_forked(void);

/*
 * handle.c: the handles that are valid now. A stale or invalid handle gets an error instead of a crash, is counted, and with
 * strict=1 ends the process. NULL is not a handle and not counted.
 */
enum handle_kind {
    HANDLE_STREAM = 1,
    HANDLE_EVENT,
    HANDLE_GRAPH,
    HANDLE_GRAPH_EXEC,
    HANDLE_MODULE,
    HANDLE_LIBRARY,
    HANDLE_USER_OBJECT,
    HANDLE_GREEN,
    HANDLE_ARRAY,
    HANDLE_TEXTURE, /* or surface */
    HANDLE_POOL,
    HANDLE_MEMORY,
    HANDLE_FUNCTION,
    HANDLE_KINDS
};

/* Returns a zeroed object, whose address is its handle. `owner` is the context that the handle ends with, or NULL. All objects
 * of a kind have the same size. */
void *handle_create(enum handle_kind kind, size_t size, const void *owner);
int handle_is_valid(enum handle_kind kind, const void *object);
/* Returns whether it was valid. If two threads remove the same handle, only one gets 1. */
int handle_remove(enum handle_kind kind, const void *object);
/* Gives an object whose handle was removed to the next one of its kind; with reuse=0 keeps it, so that its address is not
 * reused. */
void handle_free(enum handle_kind kind, void *object);
/* Does both. Returns whether it was valid. */
int handle_destroy(enum handle_kind kind, void *object);
/* Removes and frees all that end with a context. */
void handle_free_owned(const void *owner);

/* Counts an invalid handle of a kind that is not registered here. */
void handle_is_stale(uint64_t handle);

/*
 * gpus.c: the configuration of the simulated machine, from the environment variable CUFENCE_SIM. Written until cuInit() has
 * returned, read-only from then on.
 */
#define SIM_MAX_DEVICES 8
#define SIM_GRANULARITY ((size_t)2 << 20) /* measured: minimum = recommended = 2 MiB on an H100 */

struct sim_config {
    size_t devices;
    size_t memory;         /* bytes per device */
    size_t reserve;        /* bytes of address space per process */
    size_t space;          /* bytes of address space that the first context of a device takes */
    size_t reuses_handles; /* of destroyed objects */
    size_t is_shareable;   /* memory can be exported as file descriptors */
    struct {
        unsigned domain, bus, device;
    } pci[SIM_MAX_DEVICES];
    size_t is_strict; /* abort on a stale handle */
    size_t newer;     /* newer_version() */
    size_t depth;     /* pieces of work that a stream's queue has room for */
    size_t slow;      /* microseconds by which cufence's kernels may be late */
    size_t swallow;   /* milliseconds from a fault to its dump, in which the device stands and all work is said to be done */
    size_t late_dump; /* milliseconds from a fault's error to its dump; 0: the dump comes first, and there is no error */
};

const struct sim_config *config_get(void);
int config_has_device(int device);
/* Errors: INVALID_VALUE (`out` is NULL), INVALID_DEVICE. */
CUresult device_check(CUdevice device, const void *out);

/* entry_points.c: the driver version that newer= says, as cuDriverGetVersion counts; 0: not newer. Reads the environment,
 * because programs look functions up before cuInit(). */
int newer_version(void);
