/*
 * A bundle that was opened (docs/replay.md). It may come from a stranger: only regular files in its folder are read, none
 * through a link, and every size is checked before anything is launched. Thread safety: no global state.
 */
#pragma once

#include "analysis/snapshot/bundle.h"
#include "analysis/snapshot/keep.h"
#include "loaded.h"
#include "rerun/input.h"

enum { OPENED_REPLACED = 64 };

struct opened {
    int folder, buffers; /* descriptors of the folders */
    struct bundle *bundle;
    struct rerun_launch launches[BUNDLE_LAUNCHES]; /* the bundle's, with arguments of our own */
    uint8_t *arguments;                            /* RERUN_ARGUMENTS bytes for each launch */
    struct loaded image, dump;                     /* dump: of the fault, empty if it cannot be read */
    struct snapshot *snapshot;                     /* NULL if it cannot be read */
    struct {
        const struct bundle_buffer *buffer;
        int fd; /* its bytes, from the start on */
    } replaced[OPENED_REPLACED];
    size_t replaced_count;
    uint64_t mapped; /* bytes that the buffers need on a GPU */
};

/* Opens the bundle. opened_close() is needed on errors too. Errors: SYSTEM, CORRUPT, UNSUPPORTED, OVERFLOW. */
cufence_status opened_open(const char *path, struct opened *opened, struct problem *problem);
void opened_close(struct opened *opened);

/* Answers a MESSAGE_NEED with the buffer or pinned memory there; one that was left out holds zeros. If there is none, *answer
 * is unchanged. Returns the descriptor that belongs to the answer, or -1, and sets errno if it cannot be had. */
int opened_answer(const struct opened *opened, const struct rerun_message *question, struct rerun_message *answer);

/* Opens what the buffer, whose bytes are in the bundle, held after the launch: its own file, or its bytes before it if it had
 * not changed. Returns a descriptor that the caller closes, or -1; *offset says where the bytes begin. */
int opened_expected(const struct opened *opened, const struct bundle_buffer *buffer, uint64_t *offset);

/* Returns when and where the program made launch `number` of the bundle; NULL if that is not known. If it made several like
 * it, the newest. */
const struct fault_launch *opened_record(const struct opened *opened, size_t number);

/* Change an argument as "K=VALUE" says, or the bytes of the buffer that it points to as "K=FILE.npy" does. Errors:
 * INVALID_ARGUMENT, or those of reading the file. */
cufence_status opened_set_argument(struct opened *opened, const char *text, struct problem *problem);
cufence_status opened_set_buffer(struct opened *opened, const char *text, struct problem *problem);
