/*
 * cufence: Electric Fence for CUDA. The public C API.
 *
 * Every device buffer gets its own mapping, ends flush against unmapped address space, and so an access past its end
 * faults at the access itself. When a kernel faults, cufence reports the buffer, the kernel, the thread and the source line.
 *
 * Conventions, for every function below unless it says otherwise:
 *   - sizes are bytes, times are nanoseconds of CLOCK_MONOTONIC, device numbers are CUDA driver ordinals from 0;
 *   - thread safety: every function may be called from any thread at any time after cufence_init() has returned;
 *   - errors: a cufence_status. cufence_error_detail() then names the value, the limit and the way out;
 *   - nothing here exits the process, except a fault under on_fault=abort (option of cufence_init).
 */
#ifndef CUFENCE_H
#define CUFENCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUFENCE_VERSION_MAJOR 0
#define CUFENCE_VERSION_MINOR 1
#define CUFENCE_VERSION_PATCH 0

typedef enum cufence_status {
    CUFENCE_OK = 0,
    CUFENCE_ERROR_INVALID_ARGUMENT = 1,     /* a null pointer, an impossible device number, ... */
    CUFENCE_ERROR_OPTION = 2,               /* an unknown option or a value that it does not allow */
    CUFENCE_ERROR_NOT_INITIALIZED = 3,      /* cufence_init() has not been called, or has failed */
    CUFENCE_ERROR_ALREADY_INITIALIZED = 4,  /* cufence_init() has succeeded before, with other options */
    CUFENCE_ERROR_DRIVER_NOT_FOUND = 5,     /* no CUDA driver library could be opened */
    CUFENCE_ERROR_DRIVER_TOO_OLD = 6,       /* the driver lacks a function that cufence requires */
    CUFENCE_ERROR_DRIVER = 7,               /* a driver call failed; the detail names the call and its CUresult */
    CUFENCE_ERROR_OUT_OF_MEMORY = 8,        /* the device's memory is used up, also after cached memory was given back */
    CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE = 9, /* the reservation is used up by live buffers and their guards */
    CUFENCE_ERROR_OVERFLOW = 10,            /* a size so large that its layout overflows an address */
    CUFENCE_ERROR_INVALID_FREE = 11,        /* not the address of a buffer; the detail says what lies there */
    CUFENCE_ERROR_DOUBLE_FREE = 12,         /* the buffer has been freed already; the detail says when and by whom */
    CUFENCE_ERROR_NOT_FOUND = 13,           /* nothing known about what was asked for */
    CUFENCE_ERROR_FAULTED = 14,             /* a kernel has faulted in this context and on_fault=error */
    CUFENCE_ERROR_SYSTEM = 15,              /* a system call failed; the detail names it */
    CUFENCE_ERROR_CORRUPT = 16,             /* a core dump that cannot be what it says it is */
    CUFENCE_ERROR_UNSUPPORTED = 17,         /* not possible on this driver, device or system */
    CUFENCE_ERROR_TIMEOUT = 18              /* the time given to a wait has passed */
} cufence_status;

/* A CUstream or cudaStream_t. NULL is the legacy default stream, (cufence_stream)2 the calling thread's default stream. */
typedef struct CUstream_st *cufence_stream;

/* What cufence knows of one buffer, live or freed. Plain data: it stays valid whatever happens to the buffer. */
typedef struct cufence_buffer {
    uint64_t id;            /* from 1, in the order of a thread's allocations, never given out twice */
    uint64_t address;       /* the buffer's first byte */
    uint64_t size;          /* as requested */
    uint64_t mapping_start; /* [mapping_start, mapping_end) is the memory mapped for it; what is outside the buffer is slack */
    uint64_t mapping_end;
    uint64_t guard_start; /* unmapped from mapping_end up to guard_end, and from guard_start up to mapping_start */
    uint64_t guard_end;
    uint64_t stream; /* the stream it was allocated on, as a number */
    uint64_t allocated_ns;
    uint64_t freed_ns;      /* 0 while it is live */
    uint64_t free_stream;   /* the stream it was freed on */
    uint64_t allocated_tid; /* thread ids of the kernel (gettid) */
    uint64_t freed_tid;
    uint32_t allocated_stack; /* where in Python it was allocated, for cufence_stack(); 0 if that is not known */
    uint32_t freed_stack;     /* with uaf=strict */
    int32_t device;
    int32_t is_mapped; /* 0: an access to it faults (a freed buffer, retired) */
    char label[64];    /* the innermost label at allocation, cut to fit; empty without one */
} cufence_buffer;

/* Where an address lies, by what is known. */
typedef enum cufence_place {
    CUFENCE_PLACE_UNKNOWN = 0,      /* not in cufence's address space */
    CUFENCE_PLACE_INSIDE = 1,       /* in a live buffer; offset counts from its first byte */
    CUFENCE_PLACE_PAST_END = 2,     /* offset counts from the first byte behind the buffer: 0 is the byte right behind it */
    CUFENCE_PLACE_BEFORE_START = 3, /* offset counts backwards from the first byte: 1 is the byte right before it */
    CUFENCE_PLACE_FREED = 4,        /* in a buffer that has been freed; offset counts from its first byte */
    CUFENCE_PLACE_NO_BUFFER = 5     /* in cufence's address space, where no buffer that it remembers has been */
} cufence_place;

typedef struct cufence_description {
    cufence_place place;
    uint64_t offset;       /* see cufence_place */
    cufence_buffer buffer; /* the buffer that `place` speaks of; zero for UNKNOWN and NO_BUFFER */
} cufence_description;

typedef struct cufence_stats {
    uint64_t live_buffers;
    uint64_t live_bytes;      /* as requested */
    uint64_t peak_live_bytes; /* exact to 1 MiB for each stream */
    uint64_t mapped_bytes;    /* physical memory in mappings: live, idle and waiting for their stream */
    uint64_t idle_bytes;      /* of those, in freed mappings kept for reuse */
    uint64_t cached_bytes;    /* physical memory without a mapping, kept for the next one */
    uint64_t captured_bytes;  /* mapped for the sake of a CUDA graph, live or not */
    uint64_t allocations;     /* since cufence_init() */
    uint64_t frees;
    uint64_t fresh_mappings;   /* allocations that had to map; the others reused a mapping */
    uint64_t retired_mappings; /* unmapped so that a late access faults (uaf=strict), or given back */
    uint64_t reserved_address_bytes;
    uint64_t used_address_bytes;
    uint64_t faults; /* of the whole process */
} cufence_stats;

/* A fault, as the handler sees it. Valid during the call of the handler only. */
typedef struct cufence_fault {
    const char *text;   /* the report, as printed: UTF-8, ends with a newline */
    const char *kind;   /* "overrun", "underrun", "use-after-free", "wild address", "illegal access", ... */
    const char *kernel; /* demangled name, or NULL */
    const char *file;   /* source file of the access, or NULL */
    int line;           /* its line, or 0 */
    int is_address_known;
    uint64_t address;             /* of the first faulting lane, or that the call on the host was given */
    const cufence_buffer *buffer; /* the buffer that the access was meant for, or NULL */
    int device;
} cufence_fault;

/*
 * Called once a fault, after its report was written and counted: on a thread of cufence's, which has all signals blocked but
 * those of its own faults; of a call on the host, on the thread that made it. The device is stopped and the driver's locks may
 * be held, so it may call    cufence_fault_count(), cufence_last_report(), cufence_last_report_json(), cufence_describe(),
 * cufence_stack(), cufence_get_stats(), cufence_set_fault_handler(), and all that is about versions, options and errors; it
 * must not    call CUDA, nor what calls it: cufence_malloc(), cufence_free(), cufence_record_stream(), cufence_trim() and the
 * pools may wait for ever; it cannot wait for reports: cufence_wait_reports() returns UNSUPPORTED at once, because the
 * handler is part of one. It may end the process. Faults that come meanwhile are reported once it has returned.
 */
typedef void (*cufence_fault_handler)(const cufence_fault *fault, void *user);

/* Returns major * 10000 + minor * 100 + patch of the library in use. */
int cufence_version(void);

/* Returns "0.1.0". Static. */
const char *cufence_version_string(void);

/* Returns a sentence for a status; for an unknown number, one that says so. Static, never NULL. */
const char *cufence_strerror(cufence_status status);

/* Returns what the calling thread's last failed call had to say, or "". Valid until the thread's next failed call. */
const char *cufence_error_detail(void);

/*
 * Starts cufence: reads the options, opens the driver and arms GPU core dumps. Must run before the process creates its
 * first CUDA context, else faults are still caught but not explained (a warning on stderr says so).
 *   options  "key=value,key=value", or NULL. They win over the environment's CUFENCE_OPTIONS, which wins over the defaults.
 *            `cufence options` lists them all. The string is copied.
 * Errors: OPTION, DRIVER_NOT_FOUND, DRIVER_TOO_OLD, DRIVER, UNSUPPORTED (no device), OUT_OF_ADDRESS_SPACE, OUT_OF_MEMORY,
 * SYSTEM; ALREADY_INITIALIZED if it runs with other options now. A start that failed leaves nothing behind and may be tried
 * again. A second call with the same options is fine. Thread-safe.
 */
cufence_status cufence_init(const char *options);

/*
 * Says whether options are allowed, without starting anything. NULL is fine.
 * Errors: OPTION; the detail names the key, the value and what is allowed.
 */
cufence_status cufence_check_options(const char *options);

/*
 * Allocates `size` bytes on `device` (a driver ordinal; its primary context is used), or, with device = -1, in the
 * calling thread's current context. The memory may be used on `stream` at once; other streams must be ordered behind it
 * by the caller, and named with cufence_record_stream() if they may still run when it is freed. size = 0 gives NULL.
 * The content is undefined. *pointer is untouched on failure. Allowed while `stream` is being captured.
 * Errors: INVALID_ARGUMENT, NOT_INITIALIZED, OVERFLOW, OUT_OF_MEMORY, OUT_OF_ADDRESS_SPACE, DRIVER, FAULTED.
 */
cufence_status cufence_malloc(void **pointer, size_t size, int device, cufence_stream stream);

/*
 * Frees a buffer, ordered on `stream`: work that was put on it before may still use the buffer, work put on it later
 * must not. Never waits. NULL is allowed. The stream may be of any context; a default stream is the calling thread's current
 * context's, and the buffer's own context's too, so that it need not be current.
 * Errors: NOT_INITIALIZED, INVALID_FREE, DOUBLE_FREE.
 */
cufence_status cufence_free(void *pointer, cufence_stream stream);

/*
 * Says that a stream is about to be destroyed: call it right before cudaStreamDestroy() or cuStreamDestroy(). The driver gives
 * the handle out again, and without this call the next stream would be taken for the same one: what was freed on the old one
 * could be handed out on the new one while work still uses it. A thread's own default stream needs no call, nor does any
 * stream under the preload library, which sees the end. Errors: NOT_INITIALIZED.
 */
cufence_status cufence_stream_gone(cufence_stream stream);

/*
 * Says that work on `stream` uses the buffer too: a later free waits (on the device, never on the host) for the work that
 * the stream has got by then. `stream` must still exist when the buffer is freed. Errors: NOT_INITIALIZED, NOT_FOUND.
 */
cufence_status cufence_record_stream(void *pointer, cufence_stream stream);

/*
 * Labels: the buffers that the calling thread allocates between push and pop carry `label`, and reports show it. They nest,
 * 32 deep. The text is copied, cut to what cufence_buffer.label holds. cufence keeps 16384 different labels; each one after
 * that shows as one text that says so. Errors: INVALID_ARGUMENT (NULL, too deep, pop without push).
 */
cufence_status cufence_label_push(const char *label);
cufence_status cufence_label_pop(void);

/*
 * Says what lies, or has lain, at a device address. Never touches the memory.
 * Errors: NOT_INITIALIZED, INVALID_ARGUMENT. An address that means nothing is CUFENCE_OK with CUFENCE_PLACE_UNKNOWN.
 */
cufence_status cufence_describe(const void *address, cufence_description *description);

/*
 * Writes the Python frames behind cufence_buffer.allocated_stack or freed_stack, innermost first, one line "file:line in
 * function" each, cut to `size` bytes with the NUL. Returns the whole text's length with the NUL, 0 if none are known.
 */
size_t cufence_stack(uint32_t stack, char *buffer, size_t size);

/*
 * Figures of one device, or with device = -1 of all. Errors: NOT_INITIALIZED, INVALID_ARGUMENT.
 */
cufence_status cufence_get_stats(int device, cufence_stats *stats);

/*
 * Gives back to the driver what is kept for reuse on `device` (-1: all): idle mappings whose streams have passed, and cached
 * physical memory. Does not wait for streams, but synchronises the context where pools were released whose memory it still
 * maps, because nobody knows which streams have replayed their graphs. Errors: NOT_INITIALIZED, INVALID_ARGUMENT, DRIVER.
 */
cufence_status cufence_trim(int device);

/* Sets the function to be called at each fault, NULL for none. Errors: none. May be called before cufence_init(). */
cufence_status cufence_set_fault_handler(cufence_fault_handler handler, void *user);

/* How many faults have been reported in this process. */
uint64_t cufence_fault_count(void);

/* Copies the text of the last report into buffer, cut to `size` bytes with the NUL. Returns the whole text's length with the
 * NUL, 0 if there was no fault yet; so a call with size 0 tells how much room it takes. */
size_t cufence_last_report(char *buffer, size_t size);

/* The same for the last report as JSON: one object on one line, in the schema of docs/report.md. */
size_t cufence_last_report_json(char *buffer, size_t size);

/*
 * Waits until the faults of all work that the devices have done are reported, at most `timeout_ms`. It does not wait for work
 * that is still to be done: synchronise first. Errors: NOT_INITIALIZED, TIMEOUT (a core dump is still being written),
 * UNSUPPORTED (the caller is a fault handler).
 */
cufence_status cufence_wait_reports(unsigned timeout_ms);

/*
 * Memory of CUDA graphs. What is allocated on a stream of the pool between begin and end, and what is freed there, stays
 * mapped until the pool is released as often as it was begun, because a replay of the graph uses the same addresses.
 * Between two begins of one pool its freed buffers serve its own allocations only. Without a pool, cufence sees by itself
 * that a stream is being captured, and then keeps what the capture got: until the process ends, or, under the preload library,
 * until nothing can launch the graph any more.
 *   id        any two numbers that name the pool (PyTorch's MempoolId_t)
 *   contains  says whether a stream allocates from the pool. Called by the allocating thread; it must not call cufence.
 *             NULL means every stream that is being captured
 *   user, destroy   handed to `contains`; destroy(user) is called once it is not needed any more. destroy may be NULL
 * Errors: NOT_INITIALIZED, INVALID_ARGUMENT, NOT_FOUND (end or release of a pool that was not begun).
 */
typedef int (*cufence_pool_filter)(cufence_stream stream, void *user);
cufence_status cufence_pool_begin(int device, const uint64_t id[2], cufence_pool_filter contains, void *user,
                                  void (*destroy)(void *user));
cufence_status cufence_pool_end(int device, const uint64_t id[2]);
cufence_status cufence_pool_release(int device, const uint64_t id[2]);

#ifdef __cplusplus
}
#endif

#endif
