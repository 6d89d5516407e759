/*
 * The input: what a second launch of a kernel needs, but for the memory that it reaches. The process that faulted writes it
 * into a memory file and passes that to the rerun process, which launches the kernel again (rerun.h). The two then exchange
 * messages over a socket (SOCK_SEQPACKET), because only the kernel's arguments and the memory itself tell which memory it
 * reaches.
 *
 * Units: bytes, device addresses. Ownership: a struct rerun_input borrows what it points to; the image of one that was read is
 * in the bytes, and the rest in its bundle's memory. Thread safety: none.
 */
#pragma once

#include "analysis/bundle/bundle.h"
#include "analysis/sass/origin.h"
#include "analysis/values/figures.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define RERUN_VERSION 14
#define RERUN_RANGES 16 /* of memory that is described */
#define MOVED_ROOM                                                                                                             \
    ((uint64_t)64 << 20)              /* that stays free at the ends of the address space, and around a buffer that is moved */
#define RERUN_IMAGE ((size_t)1 << 30) /* most bytes of an image */

enum rerun_mode {
    RERUN_WHOLE,  /* launch with patterns in the guards, then with the guards unmapped */
    RERUN_BARE,   /* only with the guards unmapped */
    RERUN_TRACED, /* launch nothing: follow one thread, to tell what its address is made of */
    RERUN_MODES
};

/* The file: this, the input as JSON, and the image. */
#define RERUN_MAGIC "cufscene"
struct rerun_head {
    char magic[8];
    uint32_t version;
    uint32_t json_bytes;
};
extern const struct json_table rerun_input_record;

struct rerun_range {
    uint64_t address, bytes;
};

struct rerun_input {
    struct bundle bundle;        /* without its buffers. has_outputs: what each mapping holds after a launch that ended well
                                    is handed over with MESSAGE_RESULT */
    uint64_t device[2];          /* the UUID */
    uint32_t mode;               /* enum rerun_mode */
    uint32_t is_saved;           /* ask with MESSAGE_SAVE where the bytes of each mapping are to be kept */
    const char *dump;            /* file or pipe for the core dump of the second fault; "" if none is to be written */
    uint64_t first_blocks;       /* the launch that is to fault is tried with so many of its blocks first; 0: with all */
    struct origin_access traced; /* of the thread that RERUN_TRACED follows */
    const uint8_t *image;        /* its module: a cubin */
    size_t image_bytes;
    struct rerun_range ranges[RERUN_RANGES]; /* whose figures are wanted: what the arguments point to */
    size_t range_count;
    uint64_t moved_from, moved_bytes, moved_to; /* a buffer whose copy is there instead, in memory of its own; bytes 0: none */
};

/* Writes the input into a new memory file and returns its descriptor, -1 with errno set on error. */
int rerun_input_write(const struct rerun_input *input);

/* Reads an input. The caller frees bundle.memory with json_memory_free(). Errors: CORRUPT, UNSUPPORTED (another version),
 * OUT_OF_MEMORY; there is nothing to free then. */
cufence_status rerun_input_read(const void *bytes, size_t size, struct rerun_input *input, struct problem *problem);

/* Adds to the ranges, as far as there is room, the bytes from each address in the launch's arguments to the end of its buffer.
 */
void rerun_input_describe(struct rerun_input *input, const struct rerun_launch *launch, const struct fault_memory *memory);

/* ---- messages ---- */

enum rerun_message_type {
    MESSAGE_INPUT,  /* to the rerun process, first; comes with the descriptor of the input. It has `number` ms, 0: without limit
                     */
    MESSAGE_NEED,   /* from the rerun process: the memory at `address`, cufence's or pinned */
    MESSAGE_GIVE,   /* the answer: `bytes` mapped at `address`; comes with the descriptor of a handle */
    MESSAGE_FILE,   /* or: `bytes` at `address` are zeros, but for `data_bytes` at `data`, which lie at `number` in the file
                     whose descriptor comes with it. The answer to MESSAGE_SAVE and MESSAGE_RESULT: that part is to be written
                     there */
    MESSAGE_ZEROS,  /* or: all `bytes` at `address` are zeros */
    MESSAGE_NONE,   /* or: nothing is mapped there, or it is not to be kept */
    MESSAGE_CANNOT, /* or: it is there, but could not be handed over; `number` is the errno value. Ends the second launch */
    MESSAGE_RESULT, /* from the rerun process: the last launch ended well; which of the `bytes` at `address` are wanted?
                       Answered like: */
    MESSAGE_SAVE,   /* from the rerun process: it has mapped `bytes` at `address`; which of them are to be kept? */
    MESSAGE_LAUNCHES, /* from the rerun process: launches number `number` of the input; `address` is 1 with patterns in the
                         guards; `bytes`: with so many of its blocks, 0: all */
    MESSAGE_WROTE,    /* `bytes` bytes out of bounds from `address` on, the first of them in `values`; `number` is 1 in slack.
                         With `data_bytes`: so many of the `bytes`, in too many pieces to tell each */
    MESSAGE_FIGURES,  /* what a range of the input holds before the first launch, in `figures` */
    MESSAGE_CAUSE,    /* what the address of the traced access is made of, in `cause` */
    MESSAGE_UNSET,    /* the variable in `text` could not be set */
    MESSAGE_NOTE,     /* something that the report should say, in `text` */
    MESSAGE_FAILED,   /* cannot be launched again; `text` says why. `number` is 1 if the driver refuses the image */
    MESSAGE_DONE      /* no launch has faulted */
};

struct rerun_message {
    uint32_t type;
    uint32_t number;
    uint64_t address, bytes;
    uint64_t data, data_bytes;
    uint32_t
        is_bounded; /* MESSAGE_GIVE, MESSAGE_FILE: the buffer is `data_bytes` at `data`, and the rest of the mapping is slack */
    uint32_t value_bytes;
    uint8_t values[64];
    char text[228];
    union {
        struct figures figures;
        struct origin cause;
    };
};

/* Sends a message, with a descriptor if fd is not -1. Returns 0, or -1 if the other side is gone. */
int rerun_send(int socket, const struct rerun_message *message, int fd);

/* Receives a message; *fd gets the descriptor that came with it, or -1. Waits for it. Returns 1, or 0 if the other side is gone
 * or sent something that is no message. */
int rerun_receive(int socket, struct rerun_message *message, int *fd);

/* Sends the answer to a question, and closes fd unless it is -1. If a descriptor belongs to the answer and there is none, errno
 * says why, and the answer is MESSAGE_CANNOT. */
void rerun_answer(int socket, const struct rerun_message *answer, int fd);

/* Sends a question, and replaces it with its answer: GIVE or FILE with its descriptor in *fd, which the caller closes; ZEROS or
 * NONE with -1. Errors: SYSTEM (the other side is gone, or cannot answer; the text says what), CORRUPT (this is no answer). */
cufence_status rerun_ask(int socket, struct rerun_message *message, int *fd);
