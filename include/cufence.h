/*
 * cufence: Electric Fence for CUDA. The public C API.
 *
 * Every device buffer gets its own mapping and ends flush against unmapped address space, so that an access past its end faults
 * at the access itself. When a kernel faults, cufence reports the buffer, the kernel, the thread and the source line.
 *
 * Conventions for every function below, unless it says otherwise:
 *   - sizes are in bytes, times in nanoseconds of CLOCK_MONOTONIC, device numbers are CUDA driver ordinals from 0;
 *   - thread safety: every function may be called from any thread at any time after cufence_init() has returned;
 *   - errors: a function that can fail returns a cufence_status and its results through pointers, which it leaves unchanged if
 *     it fails. cufence_error_detail() then names the value, the limit and the way out. The others return their result;
 *   - texts and arrays: *size or *count is the room in the caller's memory, which may be NULL if that is 0. It becomes the
 *     number of bytes or entries that there are. If that is more than the room, the rest was cut;
 *   - structs begin with struct_size, because later versions may add members at their end. Set it to the sizeof of the struct
 *     before a call that fills it (in an array: in the first entry). cufence fills in as much; members that are newer than the
 *     library become 0. In a struct that cufence hands out (cufence_buffer, cufence_fault), it is the library's own size;
 *   - no function exits the process. Only a fault does, with on_fault=abort (an option of cufence_init).
 */
#ifndef CUFENCE_H
#define CUFENCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUFENCE_VERSION_MAJOR 0
#define CUFENCE_VERSION_MINOR 2
#define CUFENCE_VERSION_PATCH 0
/* For #if; cufence_version() returns that of the loaded library. */
#define CUFENCE_VERSION (CUFENCE_VERSION_MAJOR * 10000 + CUFENCE_VERSION_MINOR * 100 + CUFENCE_VERSION_PATCH)

typedef enum cufence_status {
    CUFENCE_OK = 0,
    CUFENCE_ERROR_INVALID_ARGUMENT = 1,     /* a null pointer, an impossible device number, ... */
    CUFENCE_ERROR_OPTION = 2,               /* an unknown option, or a value it does not accept */
    CUFENCE_ERROR_NOT_INITIALIZED = 3,      /* cufence_init() has not been called, or has failed */
    CUFENCE_ERROR_ALREADY_INITIALIZED = 4,  /* cufence_init() has succeeded before, with other options */
    CUFENCE_ERROR_DRIVER_NOT_FOUND = 5,     /* no CUDA driver library could be opened */
    CUFENCE_ERROR_DRIVER_TOO_OLD = 6,       /* the driver lacks a function that cufence requires */
    CUFENCE_ERROR_DRIVER = 7,               /* a driver call failed; the detail names the call and its CUresult */
    CUFENCE_ERROR_OUT_OF_MEMORY = 8,        /* the device is out of memory, even after cached memory was released */
    CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE = 9, /* the reservation is used up by live buffers and their guards */
    CUFENCE_ERROR_OVERFLOW = 10,            /* a size whose layout does not fit in the address space */
    CUFENCE_ERROR_INVALID_FREE = 11,        /* not the address of a buffer; the detail says what is there */
    CUFENCE_ERROR_DOUBLE_FREE = 12,         /* the buffer was already freed; the detail says when and by whom */
    CUFENCE_ERROR_NOT_FOUND = 13,           /* nothing is known about the request's subject */
    CUFENCE_ERROR_FAULTED = 14,             /* a kernel has faulted in this context and on_fault=error */
    CUFENCE_ERROR_SYSTEM = 15,              /* a system call failed; the detail names it */
    CUFENCE_ERROR_CORRUPT = 16,             /* not a valid core dump */
    CUFENCE_ERROR_UNSUPPORTED = 17,         /* not possible on this driver, device or system */
    CUFENCE_ERROR_TIMEOUT = 18              /* a wait timed out */
} cufence_status;

/* A CUstream or cudaStream_t. NULL is the legacy default stream, (cufence_stream)2 the calling thread's per-thread stream. */
typedef struct CUstream_st *cufence_stream;

/* A CUcontext. */
typedef struct CUctx_st *cufence_context;

/* A buffer, live or freed. Plain data: stays valid whatever happens to the buffer. */
typedef struct cufence_buffer {
    size_t struct_size;
    uint64_t id;            /* from 1, ascending per thread, never reused */
    uint64_t address;       /* the buffer's first byte */
    uint64_t size;          /* as requested */
    uint64_t mapping_start; /* [mapping_start, mapping_end) is the memory mapped for it; the part outside the buffer is slack */
    uint64_t mapping_end;
    uint64_t guard_start; /* unmapped: [guard_start, mapping_start) and [mapping_end, guard_end) */
    uint64_t guard_end;
    uint64_t stream; /* the stream it was allocated on, as a number */
    uint64_t allocated_ns;
    uint64_t freed_ns;        /* 0 while live */
    uint64_t free_stream;     /* the stream it was freed on */
    uint64_t allocated_tid;   /* kernel thread ids (gettid) */
    uint64_t freed_tid;       /* 0: the buffer ended with its context */
    uint32_t allocated_stack; /* stack of the allocation, for cufence_stack(); 0 if unknown */
    uint32_t freed_stack;     /* only if the buffer was unmapped at its free, so that a late access faults; 0 if unknown */
    int32_t device;
    int32_t is_mapped;  /* 0: an access to it faults (a freed buffer that was retired) */
    char label[64];     /* the innermost label at allocation, cut to fit; empty if there is none */
    uint64_t freed_ago; /* allocations since the free, exact to 15 per thread; 0 if unknown. Known as freed_stack is */
    /* Of a buffer that shares its page with others (small=), where others have guards: bytes right before its start and past
     * its end that hold a pattern, which kernels check. Then the mapping above is its part of the page. 0: it has pages of its
     * own. */
    uint64_t redzone_before;
    uint64_t redzone_after;
} cufence_buffer;

/* Where an address is, as far as cufence knows. */
typedef enum cufence_place {
    CUFENCE_PLACE_UNKNOWN = 0,      /* not in cufence's address space */
    CUFENCE_PLACE_INSIDE = 1,       /* in a live buffer; offset counts from its first byte */
    CUFENCE_PLACE_PAST_END = 2,     /* offset counts from the end: 0 is the first byte past the buffer */
    CUFENCE_PLACE_BEFORE_START = 3, /* offset counts back from the start: 1 is the byte right before it */
    CUFENCE_PLACE_FREED = 4,        /* in a freed buffer; offset counts from its first byte */
    CUFENCE_PLACE_NO_BUFFER = 5     /* in cufence's address space, but in no buffer that it remembers */
} cufence_place;

typedef struct cufence_description {
    size_t struct_size;
    cufence_place place;
    uint64_t offset;       /* see cufence_place */
    cufence_buffer buffer; /* the one that `place` refers to; its id is 0 for UNKNOWN and NO_BUFFER */
} cufence_description;

typedef struct cufence_stats {
    size_t struct_size;
    uint64_t live_buffers;
    uint64_t live_bytes;      /* as requested */
    uint64_t peak_live_bytes; /* exact to 1 MiB for each stream */
    uint64_t mapped_bytes;    /* physical memory in mappings: live, idle, or waiting for a stream */
    uint64_t idle_bytes;      /* part of mapped_bytes: freed mappings kept for reuse */
    uint64_t cached_bytes;    /* physical memory kept without a mapping */
    uint64_t captured_bytes;  /* mapped for a CUDA graph, live or not */
    uint64_t allocations;     /* since cufence_init() */
    uint64_t frees;
    uint64_t fresh_mappings;   /* allocations that needed a new mapping; the others reused one */
    uint64_t retired_mappings; /* unmapped, so that a late access faults, or to release memory */
    uint64_t reserved_address_bytes;
    uint64_t used_address_bytes;
    uint64_t faults; /* of the whole process, like everything below */
    /* Use after free with uaf=adaptive; uaf=strict has `tested_buffers` alone. A place of allocation: a stack; without stacks,
     * a size and stream. */
    uint64_t freed_places;          /* places with buffers that were freed */
    uint64_t tested_places;         /* of those, places with a freed buffer that was unmapped, so that a late access faults */
    uint64_t tested_buffers;        /* such buffers */
    uint64_t tested_rounds;         /* how often all places in use at the time had their turn */
    uint64_t unguarded_allocations; /* left to the driver, on all devices: see cufence_get_unguarded() */
    uint64_t unguarded_bytes;
    /* Small buffers that share pages: small=pack, or small=auto once they are many. Of the device, unlike those above. */
    uint64_t packed_buffers;      /* live */
    uint64_t packed_bytes;        /* of these, as requested */
    uint64_t packed_mapped_bytes; /* part of mapped_bytes: such pages */
    uint64_t packed_allocations;  /* since cufence_init() */
} cufence_stats;

/* Buffers that are not guarded for one reason: the options leave them out, or there was no room for their pages. */
typedef struct cufence_unguarded {
    size_t struct_size;
    const char *what;     /* which ones: "smaller than skip=smaller"; static */
    uint64_t allocations; /* since cufence_init() */
    uint64_t bytes;
    uint64_t live_buffers; /* not freed yet */
    uint64_t live_bytes;
} cufence_unguarded;

/* A mapping, with the buffer in it. */
typedef struct cufence_mapping {
    size_t struct_size;
    uint64_t pool[2];      /* the pool that it belongs to (cufence_pool_begin()); zeros: none */
    int32_t is_live;       /* the buffer is */
    int32_t is_waiting;    /* freed, and not yet usable again: a stream may still use it */
    cufence_buffer buffer; /* id 0: it had none yet. Freed: the last one */
} cufence_mapping;

typedef enum cufence_access {
    CUFENCE_ACCESS_UNKNOWN = 0,
    CUFENCE_ACCESS_READ = 1,
    CUFENCE_ACCESS_WRITE = 2,
    CUFENCE_ACCESS_ATOMIC = 3
} cufence_access;

/* How certain a fact is; docs/report.md says what each takes. */
typedef enum cufence_certainty {
    CUFENCE_CERTAINTY_UNKNOWN = 0,
    CUFENCE_CERTAINTY_CANDIDATE = 1, /* one of several that fit */
    CUFENCE_CERTAINTY_DERIVED = 2,   /* the only one that fits */
    CUFENCE_CERTAINTY_RERUN = 3,     /* seen when the kernel ran a second time */
    CUFENCE_CERTAINTY_EXACT = 4
} cufence_certainty;

/* A fault, as passed to the handler. Valid only during the call. */
typedef struct cufence_fault {
    size_t struct_size;
    const char *text;             /* the report as printed: UTF-8, ends with a newline */
    const char *kind;             /* "overrun", "underrun", "use-after-free", "wild address", "illegal access", ... */
    int device;                   /* -1: unknown */
    cufence_access access;        /* UNKNOWN also for a call on the host */
    uint64_t width;               /* of the access, in bytes per thread; 0: unknown */
    int is_address_known;         /* `address` is valid */
    uint64_t address;             /* of the first faulting thread, or the one passed to the host call */
    const cufence_buffer *buffer; /* the buffer that the access was meant for, or NULL */
    cufence_place place;          /* of the access relative to the buffer; UNKNOWN without one */
    uint64_t distance;            /* from the buffer to the access, counted like cufence_description.offset */
    cufence_certainty certainty;  /* of the buffer; without one, of the address */
    const char *kernel;           /* demangled name, or NULL */
    const char *file;             /* source file of the access, or NULL */
    int line;                     /* its line, or 0 */
    int is_thread_known;          /* `block` and `thread` are valid */
    uint32_t block[3];            /* x, y, z of the first faulting thread's block */
    uint32_t thread[3];           /* x, y, z of the thread in it */
} cufence_fault;

/*
 * Called once per fault, after its report was written and counted. For a kernel fault it runs on a thread of cufence that
 * blocks all signals except those of its own faults; for a faulty host call, on the thread that made the call. The device is
 * stopped and the driver's locks may be held.
 *
 * The handler may call cufence_fault_count(), cufence_last_report(), cufence_last_report_json(), cufence_describe(),
 * cufence_stack(), cufence_get_stats(), cufence_set_fault_handler(), and the functions about versions, options and errors. It
 * may end the process. It must not call CUDA, or anything that does: cufence_malloc(), cufence_free(), cufence_record_stream(),
 * cufence_context_gone(), cufence_trim() and the pool functions may deadlock. cufence_wait_reports() returns UNSUPPORTED at
 * once, because the handler is part of a report. Faults that happen meanwhile are reported once it has returned.
 */
typedef void (*cufence_fault_handler)(const cufence_fault *fault, void *user);

/* Returns CUFENCE_VERSION of the loaded library. */
int cufence_version(void);

/* Returns the version as text, "0.2.0". Static. */
const char *cufence_version_string(void);

/* Returns a sentence that describes a status, also for an unknown number. Static, never NULL. */
const char *cufence_strerror(cufence_status status);

/* Returns the message of the calling thread's last failed call, or "". Valid until the thread's next failed call. */
const char *cufence_error_detail(void);

/*
 * Starts cufence: reads the options, opens the driver and arms GPU core dumps. Call before the process creates its first CUDA
 * context. Otherwise faults are caught but not explained, and a warning on stderr says so.
 *   options  "key=value,key=value", or NULL. They override CUFENCE_OPTIONS in the environment, which overrides the defaults.
 *            `cufence options` lists them all. The string is copied.
 * Errors: OPTION, DRIVER_NOT_FOUND, DRIVER_TOO_OLD, DRIVER, UNSUPPORTED (no device; an option that this build lacks),
 * OUT_OF_ADDRESS_SPACE, OUT_OF_MEMORY, SYSTEM; ALREADY_INITIALIZED if cufence already runs with other options. After a failure
 * nothing is left behind, and the call may be retried. A second call with the same options returns OK. Thread-safe.
 */
cufence_status cufence_init(const char *options);

/*
 * Checks an options string without starting anything. NULL is allowed.
 * Errors: OPTION; the detail names the key, the value and what is allowed.
 */
cufence_status cufence_check_options(const char *options);

/*
 * Allocates `size` bytes on `device` (a driver ordinal; uses its primary context) or, with device = -1, in the calling thread's
 * current context. The memory may be used on `stream` at once. The caller must order other streams behind `stream`, and name
 * those that may still use the buffer at its free with cufence_record_stream(). size = 0 gives NULL. The content is undefined.
 * *pointer is unchanged on failure. Allowed while `stream` is capturing. What skip= leaves out, and what has
 * no room in whole pages, comes from the driver's own allocator, unguarded. Errors: INVALID_ARGUMENT, NOT_INITIALIZED,
 * OVERFLOW, OUT_OF_MEMORY, OUT_OF_ADDRESS_SPACE, DRIVER, FAULTED.
 */
cufence_status cufence_malloc(void **pointer, size_t size, int device, cufence_stream stream);

/*
 * Frees a buffer in the order of `stream`: work submitted to it earlier may still use the buffer, later work must not. Never
 * waits, except for an unguarded buffer (see cufence_malloc()) that a stream of another context or thread may still use: the
 * driver has no order for that, so the free waits for all contexts. NULL is allowed. The stream may belong to any context. A
 * default stream means that of the calling thread's current context and also that of the buffer's own context, so the latter
 * need not be current. Errors: NOT_INITIALIZED, INVALID_FREE, DOUBLE_FREE.
 */
cufence_status cufence_free(void *pointer, cufence_stream stream);

/*
 * Announces the end of a stream. Call right before cudaStreamDestroy() or cuStreamDestroy(). The driver reuses handles: without
 * this call the next stream with the same handle would be taken for the old one, and memory freed on the old stream could be
 * handed out on the new one while work still uses it. Not needed for a thread's own default stream, nor under the preload
 * library, which sees streams end. Errors: NOT_INITIALIZED.
 */
cufence_status cufence_stream_gone(cufence_stream stream);

/*
 * Announces the end of a context. Call right before cuCtxDestroy(), or before a primary context is reset or released for the
 * last time, if cufence was ever called while the context was current, or with its device. Without this call cufence may later
 * make the destroyed context current: when memory runs out, in the background, or at process exit; the driver then crashes or
 * aborts. cufence does ask the driver first whether a primary context still exists; about other contexts there is no safe
 * question. Not needed under the preload library, which sees contexts end; there this call does nothing.
 *
 * Waits for the context's work and for reports of its faults. From then on the context's buffers are gone: their pointers are
 * invalid, and freeing one returns DOUBLE_FREE. If cufence has retained it (a primary context, for cufence_malloc() with its
 * device), it releases it. Memory that another context may still use, as far as cufence knows, stays mapped. No thread may call
 * cufence with this context current, or with one of its streams, from the beginning of this call until the context is
 * destroyed. A context that cufence does not know is ignored. Errors: NOT_INITIALIZED, INVALID_ARGUMENT (NULL), DRIVER (the
 * driver can't wait for the work, for example because a stream is capturing; nothing has changed).
 */
cufence_status cufence_context_gone(cufence_context context);

/*
 * Declares that work on `stream` uses the buffer too: a later free waits (on the device, never on the host) for the work
 * submitted to the stream up to that free. `stream` must still exist when the buffer is freed. Errors: NOT_INITIALIZED,
 * NOT_FOUND.
 */
cufence_status cufence_record_stream(void *pointer, cufence_stream stream);

/*
 * Says that the host is about to read the result of a copy from the device, `size` bytes of page-locked memory. With
 * streams=on+host, under the preload library, it is a finding if the host has not waited for an asynchronous copy to it.
 * by: what reads it, for the report; NULL: this function. Returns OK otherwise, also if nobody knows.
 * Errors: INVALID_ARGUMENT (it is a finding).
 */
cufence_status cufence_check_host(const void *memory, size_t size, const char *by);

/*
 * Labels: buffers that the calling thread allocates between push and pop carry `label`, and reports show it. Labels nest, up to
 * 32 deep. The text is copied, cut to the size of cufence_buffer.label. cufence keeps 16384 different labels; any further one
 * is replaced by a text that says so. Errors: INVALID_ARGUMENT (NULL, too deep, pop without push), OUT_OF_MEMORY (the host's).
 */
cufence_status cufence_label_push(const char *label);
cufence_status cufence_label_pop(void);

/*
 * Describes what is, or was, at a device address. Never accesses the memory.
 * Errors: NOT_INITIALIZED, INVALID_ARGUMENT. An unknown address returns CUFENCE_OK with CUFENCE_PLACE_UNKNOWN.
 */
cufence_status cufence_describe(const void *address, cufence_description *description);

/*
 * Writes the frames for cufence_buffer.allocated_stack or freed_stack, innermost first, one line "file:line in function" each,
 * or "function (library+0x1a2b)" for a native frame without source line. *size is the room, then the text's size with its NUL.
 * Naming native frames may take a tenth of a second. Errors: INVALID_ARGUMENT, NOT_FOUND (no frames are known).
 */
cufence_status cufence_stack(uint32_t stack, char *text, size_t *size);

/*
 * Gets statistics of one device, or of all with device = -1. Errors: NOT_INITIALIZED, INVALID_ARGUMENT.
 */
cufence_status cufence_get_stats(int device, cufence_stats *stats);

/*
 * Gets the mappings of one device (-1: all), live or not, in no particular order. *count is the room, then their number. Takes
 * milliseconds with thousands of live buffers. A page that small buffers share counts as one for each of them.
 * Errors: NOT_INITIALIZED, INVALID_ARGUMENT, OUT_OF_MEMORY (the host's).
 */
cufence_status cufence_get_mappings(int device, cufence_mapping *out, size_t *count);

/*
 * Gets what was left to the driver, unguarded. *count is the room, then the number of reasons that occurred: 0 if every buffer
 * was guarded. Errors: INVALID_ARGUMENT.
 */
cufence_status cufence_get_unguarded(cufence_unguarded *out, size_t *count);

/*
 * Releases what is kept for reuse on `device` (-1: all) to the driver: idle mappings whose streams have passed the free, and
 * cached physical memory. Does not wait for streams, with one exception: if memory of released pools is still mapped, it
 * synchronises the context, because it can't know on which streams their graphs were replayed. Of what was freed within the
 * last 5 ms of frees on a stream, only the hooks of `cufence run` and the preload know that it has passed; with the C API alone
 * the next free on the stream shows it. Errors: NOT_INITIALIZED, INVALID_ARGUMENT, DRIVER.
 */
cufence_status cufence_trim(int device);

/*
 * Checks the slack of all buffers of `device` (-1: all devices), live and freed, and reports what was written there since the
 * last check (not with slack=off). Synchronises the contexts of the device first, and then waits for its own kernels, at most
 * 10 s; other threads wait meanwhile if they allocate or free. *findings, unless NULL, is the number of findings reported.
 * Errors: NOT_INITIALIZED, INVALID_ARGUMENT, UNSUPPORTED (slack=off, a stream is capturing, or called from a fault handler),
 * FAULTED, DRIVER, TIMEOUT.
 */
cufence_status cufence_check(int device, uint64_t *findings);

/* Sets the function to call at each fault, NULL for none. May be called before cufence_init(). */
void cufence_set_fault_handler(cufence_fault_handler handler, void *user);

/* Returns the number of faults reported in this process. */
uint64_t cufence_fault_count(void);

/* Copies the text of the last report. *size is the room, then the text's size with its NUL. Errors: INVALID_ARGUMENT,
 * NOT_FOUND (there was no fault yet). */
cufence_status cufence_last_report(char *text, size_t *size);

/* The same as JSON: one object on one line, in the schema of docs/json.md. NOT_FOUND also if the host had no memory for it. */
cufence_status cufence_last_report_json(char *text, size_t *size);

/*
 * Waits, at most `timeout_ms`, until all that cufence finds in work that the devices have already executed is reported: faults,
 * with nan= the launches that make NaN. Does not wait for pending work: synchronise first. Errors:
 * NOT_INITIALIZED, TIMEOUT (a report is still being made), UNSUPPORTED (called from a fault handler).
 */
cufence_status cufence_wait_reports(unsigned timeout_ms);

/*
 * Memory pools for CUDA graphs. Memory allocated or freed on the pool's streams between begin and end stays mapped until the
 * pool is released as often as it was begun, because a replay of the graph uses the same addresses. Between two begins of the
 * same pool, its freed buffers are reused only for its own allocations. Without a pool, cufence detects captures by itself, and
 * keeps what a capture allocated until the process ends or, under the preload library, until nothing can launch the graph any
 * more.
 *   id        two numbers that identify the pool (PyTorch's MempoolId_t)
 *   contains  returns whether a stream allocates from the pool. Called on the allocating thread; must not call cufence.
 *             NULL means every stream that is capturing
 *   user, destroy   `user` is passed to `contains`. destroy(user) is called once for each begin that succeeds, as soon as it is
 *             not needed any more: by cufence_pool_end(), or if the context ends first, by the call that ends it or tells of
 *             that (cufence_context_gone()); where nobody tells, by a later pool function. No lock is held: it may call
 *             cufence. It is not called if the begin fails, nor by the end of the process. destroy may be NULL
 * Errors: NOT_INITIALIZED, INVALID_ARGUMENT, OUT_OF_MEMORY, NOT_FOUND (end or release of a pool that was not begun).
 */
typedef int (*cufence_pool_filter)(cufence_stream stream, void *user);
cufence_status cufence_pool_begin(int device, const uint64_t id[2], cufence_pool_filter contains, void *user,
                                  void (*destroy)(void *user));
cufence_status cufence_pool_end(int device, const uint64_t id[2]);
cufence_status cufence_pool_release(int device, const uint64_t id[2]);

/*
 * Poison: bytes of a live buffer that must not be used, such as a free row of a pool of the program's own (see docs/poison.md).
 * They are filled with NaN (0x7fff in each two bytes, no likely index either), and a write into them is a finding of kind
 * "write to poisoned memory": it is found when they are unpoisoned, by cufence_check(), when the buffer is freed, and before
 * its context or the process ends. Unpoisoned bytes keep the NaN until they are written.
 *
 * Both are done in the order of `stream`, one of the buffer's context: what used the bytes before must have been submitted to
 * it, or it been made to wait for that. Any part of what is poisoned may be unpoisoned, and bytes may be poisoned again. A
 * program that runs without cufence too declares both __attribute__((weak)).
 *
 * Errors: NOT_INITIALIZED; INVALID_ARGUMENT (not in one live buffer that cufence guards; a stream of another context).
 * cufence_poison(): also UNSUPPORTED (the stream is capturing or has failed; nothing is poisoned), OUT_OF_MEMORY, NOT_FOUND
 * (another thread has freed the buffer meanwhile). cufence_unpoison(): also NOT_FOUND (none of the bytes is poisoned). On a
 * stream that is capturing it works, without a check. Both: TIMEOUT (the bytes are still being filled on another stream, which
 * `stream` cannot be made to wait for).
 */
cufence_status cufence_poison(const void *pointer, size_t bytes, cufence_stream stream);
cufence_status cufence_unpoison(const void *pointer, size_t bytes, cufence_stream stream);

#ifdef __cplusplus
}
#endif

#endif
