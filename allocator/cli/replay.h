/*
 * The parts of `cufence replay` (docs/replay.md).
 */
#pragma once

#include "bundle_reader.h"

#include "finding/finding.h"

#include <limits.h>

/* How the buffers after a launch compare to the saved ones. Zeroed at first. */
struct comparison {
    const struct bundle_buffer *pending; /* its bytes are being written to `file` */
    int file;
    size_t compared, different, unread;   /* buffers */
    uint64_t bytes;                       /* that were compared */
    const struct bundle_buffer *list[16]; /* the first of those that differ */
};

struct replay {
    /* of the command line: */
    char folder[PATH_MAX];
    uint64_t times, seconds; /* launches; that one may take */
    int is_json, is_verbose;

    struct bundle_reader reader;
    struct rerun_input input; /* of the bundle, on the GPU that was chosen */
    int device;               /* the driver's ordinal */
    uint32_t compute;         /* its compute capability, 90 for 9.0 */
    char device_name[128];
    char program[PATH_MAX];       /* the file of this program */
    uint8_t *image;               /* unpacked from the module; NULL: its own bytes will do */
    struct comparison comparison; /* of the last run */
};

#define REPLAY_PAGE ((uint64_t)2 << 20)  /* what the device maps at once */
#define REPLAY_UNIT ((uint64_t)32 << 20) /* the driver grants a wish for an address at multiples of this only */

#define REPLAY_DIFFERS 3 /* exit status: it ended well, but not with the saved bytes */

enum replay_outcome { REPLAY_FAILED, REPLAY_QUIET, REPLAY_FAULTED };

/* Launches the kernel once, and prints the report if it did something wrong and is_shown. REPLAY_FAILED: after a message. */
enum replay_outcome replay_once(struct replay *replay, int is_shown);

/* Answers a MESSAGE_RESULT, as bundle_answer() does a MESSAGE_NEED: with a file for the bytes of the buffer, which are compared
 * when the next one is asked for. */
int compare_answer(struct replay *replay, const struct rerun_message *question, struct rerun_message *answer);
void compare_begin(struct replay *replay);
void compare_end(struct replay *replay); /* compares the last one */

/* Says how the outputs compare, if the bundle has any. */
void compare_tell(const struct replay *replay);
