/*
 * The scene: what a second launch of a kernel needs, but for the memory that it reaches. The process that faulted writes it
 * into a memory file and passes that to the stage, the process that launches the kernel again. The two then exchange messages
 * over a socket (SOCK_SEQPACKET), because only the kernel's arguments and the memory itself tell which memory it reaches.
 *
 * Units: bytes, device addresses. Ownership: a struct scene borrows what it points to; one that was read points into the bytes.
 * Thread safety: none.
 */
#ifndef CUFENCE_RESTAGE_SCENE_H
#define CUFENCE_RESTAGE_SCENE_H

#include "analysis/snapshot/scene_launch.h"
#include "analysis/snapshot/scene_pinned.h"
#include "analysis/values/figures.h"
#include "base/problem.h"

#include <stddef.h>
#include <stdint.h>

#define SCENE_VERSION 7
#define SCENE_RANGES 16 /* of memory that is described */
#define SCENE_RESERVED 256
#define SCENE_IMAGE ((size_t)1 << 30) /* most bytes of an image */

enum scene_mode {
    SCENE_WHOLE,    /* launch with patterns in the guards, then with the guards unmapped */
    SCENE_BARE,     /* only with the guards unmapped */
    SCENE_ZEROS,    /* only with pages of zeros in the guards */
    SCENE_FOLLOWED, /* launch nothing, only emulate */
    SCENE_MODES
};

struct scene {
    uint8_t device[16];              /* the UUID */
    uint64_t arena_start, arena_end; /* cufence's address space in the process that faulted */
    uint32_t mode;                   /* enum scene_mode */
    uint32_t is_compared;            /* hand over with STAGE_RESULT what each mapping holds after a launch that ended well */
    uint32_t is_saved;               /* ask with STAGE_SAVE where the bytes of each mapping are to be kept */
    const char *dump;                /* file or pipe for the core dump of the second fault; "" if none is to be written */
    const char *symbol;              /* the kernel's mangled name */
    uint64_t access_at;              /* for emulation: offset of the access that faulted in the kernel's code */
    const uint8_t *image;            /* its module: a cubin */
    size_t image_bytes;
    const struct scene_launch *launches; /* to be tried in this order */
    size_t launch_count;
    struct scene_range ranges[SCENE_RANGES]; /* whose figures are wanted: what the arguments point to */
    size_t range_count;
    struct scene_range reserved[SCENE_RESERVED]; /* the parts of the address space to reserve, in order; none: all of it */
    size_t reserved_count;
    struct scene_range pinned[SCENE_PINNED]; /* host memory at these addresses, in order. Its bytes are asked for */
    size_t pinned_count;
};

/* Writes the scene into a new memory file and returns its descriptor, -1 with errno set on error. */
int scene_write(const struct scene *scene);

/* Reads a scene. `launches` receives the launches. Errors: CORRUPT, UNSUPPORTED (another version). */
cufence_status scene_read(const void *bytes, size_t size, struct scene *scene, struct scene_launch launches[SCENE_LAUNCHES],
                          struct problem *problem);

/* ---- messages ---- */

enum stage_message_type {
    STAGE_SCENE,  /* to the stage, first; comes with the descriptor of the scene. It has `number` ms, 0: without limit */
    STAGE_NEED,   /* from the stage: the memory at `address`, cufence's or pinned */
    STAGE_GIVE,   /* the answer: `bytes` mapped at `address`; comes with the descriptor of a handle */
    STAGE_FILE,   /* or: `bytes` at `address` are zeros, but for `data_bytes` at `data`, which lie at `number` in the file
                     whose descriptor comes with it. The answer to STAGE_SAVE and STAGE_RESULT: that part is to be written
                     there */
    STAGE_ZEROS,  /* or: all `bytes` at `address` are zeros */
    STAGE_NONE,   /* or: nothing is mapped there, or it is not to be kept */
    STAGE_CANNOT, /* or: it is there, but could not be handed over; `number` is the errno value. Ends the second launch */
    STAGE_RESULT, /* from the stage: the last launch ended well; which of the `bytes` at `address` are wanted? Answered like: */
    STAGE_SAVE,   /* from the stage: it has mapped `bytes` at `address`; which of them are to be kept? */
    STAGE_LAUNCHES, /* from the stage: launches number `number` of the scene; `address` is 1 with patterns in the guards */
    STAGE_WROTE,    /* `bytes` bytes out of bounds from `address` on, the first of them in `values`; `number` is 1 in slack */
    STAGE_FIGURES,  /* what a range of the scene holds before the first launch, in `figures` */
    STAGE_LANE,     /* emulated: lane `number` of a warp accesses `address`, which is outside, in `block` and `thread` */
    STAGE_LOST,     /* emulated, but no lane was found: why, in `text` */
    STAGE_NOTE,     /* something that the report should say, in `text` */
    STAGE_FAILED,   /* cannot be staged; `text` says why. `number` is 1 if the driver refuses the image */
    STAGE_DONE      /* no launch has faulted */
};

struct stage_message {
    uint32_t type;
    uint32_t number;
    uint64_t address, bytes;
    uint64_t data, data_bytes;
    uint32_t
        is_bounded; /* STAGE_GIVE, STAGE_FILE: the buffer is `data_bytes` at `data`, and the rest of the mapping is slack */
    uint32_t value_bytes;
    uint8_t values[64];
    uint32_t block[3], thread[3];
    char text[228];
    struct figures figures;
};

/* Sends a message, with a descriptor if fd is not -1. Returns 0, or -1 if the other side is gone. */
int stage_send(int socket, const struct stage_message *message, int fd);

/* Receives a message; *fd gets the descriptor that came with it, or -1. Waits for it. Returns 1, or 0 if the other side is gone
 * or sent something that is no message. */
int stage_receive(int socket, struct stage_message *message, int *fd);

/* Sends the answer to a question, and closes fd unless it is -1. If a descriptor belongs to the answer and there is none, errno
 * says why, and the answer is STAGE_CANNOT. */
void stage_answer(int socket, const struct stage_message *answer, int fd);

/* Sends a question, and replaces it with its answer: GIVE or FILE with its descriptor in *fd, which the caller closes; ZEROS or
 * NONE with -1. Errors: SYSTEM (the other side is gone, or cannot answer; the text says what), CORRUPT (this is no answer). */
cufence_status stage_ask(int socket, struct stage_message *message, int *fd);

#endif
