/*
 * A bundle on disk (analysis/bundle/bundle.h), for `cufence explain` and `cufence replay`. It may come from a stranger: only
 * regular files in its folder are read, none through a link, and every size is checked before anything is launched. And files
 * of which only the bytes are wanted. Thread safety: no global state.
 */
#pragma once

#include "analysis/bundle/bundle.h"
#include "analysis/bundle/snapshot_json.h"
#include "finding/finding.h"
#include "rerun/input.h"

/* ---- the bytes of a file, unpacked if it is compressed with gzip ---- */

struct file_bytes {
    void *at;
    size_t size;
};

/* Closes the descriptor, which may be -1 with errno set. Takes at most `most` bytes, and of a compressed file at most 1 GiB.
 * Returns 0 on failure, with the reason in *problem; file_forget() is allowed then too. */
int file_load(int fd, size_t most, struct file_bytes *bytes, struct problem *problem);

void file_forget(struct file_bytes *bytes);

/* Reads the finding's source lines. It comes from a dump, which may name any file: complains of one that is not the user's. */
void file_source(const char *command, struct finding *finding);

/* ---- bundles ---- */

struct bundle_reader {
    int folder;                     /* a descriptor */
    struct file_bytes dump, second; /* core dumps of the fault and of its second launch; empty: there is none */
    const char *dump_name;          /* of that file */
    struct snapshot *facts;         /* NULL: there are none */
    struct problem unread;          /* which of these could not be read, and why; "": all were, or are not there */

    struct bundle *bundle; /* NULL until bundle_open_launch(), as is what follows */
    struct file_bytes image;
    uint64_t mapped; /* bytes that the buffers need on a GPU */
};

/* Whether a folder is, or was meant to be, a bundle; has_launch: one that can be launched. */
int bundle_is(const char *path, int has_launch);

/* Opens a bundle and reads what is known of it; then what it takes to launch it. bundle_close() is needed on errors too.
 * Errors: SYSTEM, CORRUPT, UNSUPPORTED, OVERFLOW. */
cufence_status bundle_open(const char *path, struct bundle_reader *reader, struct problem *problem);
cufence_status bundle_open_launch(struct bundle_reader *reader, struct problem *problem);
void bundle_close(struct bundle_reader *reader);

/* Reads the name of the kernel that can be launched; "" if it cannot be read. */
void bundle_kernel(const char *path, char *kernel, size_t room);

/* What is known: buffers and launches, none if facts are NULL; and whose finding is made of it, on a GPU of this number. */
const struct fault_memory *facts_memory(const struct snapshot *facts);
struct finding_source facts_source(const struct snapshot *facts, int device);

/* Answers a MESSAGE_NEED with the buffer or pinned memory there; one that was left out holds zeros. If there is none, *answer
 * is unchanged. Returns the descriptor that belongs to the answer, or -1, and sets errno if it cannot be had. */
int bundle_answer(const struct bundle_reader *reader, const struct rerun_message *question, struct rerun_message *answer);

/* Opens what the buffer, whose bytes are in the bundle, held after the launch: its own file, or its bytes before it if it had
 * not changed. Returns a descriptor that the caller closes, or -1; *offset says where the bytes begin. */
int bundle_expected(const struct bundle_reader *reader, const struct bundle_buffer *buffer, uint64_t *offset);

/* Returns when and where the program made launch `number` of the bundle; NULL if that is not known. If it made several like
 * it, the newest. */
const struct fault_launch *bundle_record(const struct bundle_reader *reader, size_t number);
