/*
 * The parts of `cufence replay` (docs/replay.md).
 */
#ifndef CUFENCE_CLI_REPLAY_H
#define CUFENCE_CLI_REPLAY_H

#include "opened.h"

struct replay {
    const char *folder;
    struct opened opened;
    struct scene scene; /* of the bundle, on the GPU that was chosen */
    int device;         /* the driver's ordinal */
    char device_name[128];
    char program[4096]; /* the file of this program */
    int is_json, is_verbose;
    uint64_t seconds; /* that one run may take */
    uint8_t *image;   /* with barriers in front of the exits */
};

enum replay_outcome { REPLAY_FAILED, REPLAY_QUIET, REPLAY_FAULTED };

/* Launches the kernel once, and prints the report if it did something wrong and is_told. REPLAY_FAILED: after a message. */
enum replay_outcome replay_once(struct replay *replay, int is_told);

/* Launches the kernel once with the tool as the stage's parent: "compute-sanitizer --tool memcheck". Returns the exit status.
 */
int replay_under(struct replay *replay, const char *tool);

#endif
