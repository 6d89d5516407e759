/*
 * keep=DIR: keeps each reported fault as a bundle (analysis/bundle/bundle.h), a folder of its own in DIR, with all that a
 * second launch needs where the kernel can be launched again. The rerun process writes the bytes of the buffers while it has
 * them mapped; the rest is written once the fault has been reported.
 *
 * Thread safety: called by the monitor's thread only, after saving_open().
 */
#pragma once

#include "analysis/bundle/bundle.h"
#include "base/options.h"
#include "rerun/dump_stream.h"
#include "rerun/input.h"

struct saving;

/* Reads the folder's name from the options. May be called again. Errors: OPTION, OVERFLOW (the name). */
cufence_status saving_open(const struct options *options);

/* The most that the rerun process may take to save memory, besides its time for other work; 0 if nothing is saved. */
uint64_t saving_limit_ms(const struct options *options);

/* Makes the folder of a bundle. Returns NULL if none is wanted, or, after a line that says why, if it cannot be made. */
struct saving *saving_begin(const struct options *options);

/* Keeps the kernel's module. */
void saving_keep_image(struct saving *saving, const void *image, size_t size);

/* Answers a MESSAGE_SAVE: which bytes of the mapping are to be written, and where. owner: the buffer that has the memory, NULL
 * if none is known; all of a mapping that several buffers share is written. is_bounded: its bounds are sure (surroundings.h).
 * Returns the descriptor of the file, or -1 if they are left out. The caller closes it. */
int saving_answer(struct saving *saving, const struct rerun_message *question, const cufence_buffer *owner, int is_bounded,
                  struct rerun_message *answer);

/* Keeps pinned host memory, whose bytes are in the file. */
void saving_keep_pinned(struct saving *saving, const struct bundle_buffer *piece, int file);

/* Lists the buffer at the address, if there is one, as left out: the rerun process could not get it. */
void saving_miss(struct saving *saving, uint64_t address);

/* What is known in the end. */
struct saving_rest {
    const struct dump *dump, *second; /* second: of the second launch, NULL if there is none */
    const struct fault_memory *memory;
    const struct rerun_result *rerun; /* NULL if there was no second launch */
    const char *report;
    char *finding;         /* the report as JSON, which is freed; NULL if the host has no memory for it */
    const char *no_launch; /* why the launch cannot be done again; NULL: it can, ... */
    struct bundle launch;  /* ... and this says how, but for the buffers and the GPU */
};

/* Completes the bundle, and prints a line with its name or with the error. Frees `saving`. */
void saving_finish(struct saving *saving, struct saving_rest *rest);

/* Removes the bundle: the fault is not reported. Frees `saving`. */
void saving_drop(struct saving *saving);

/* ---- copies.c: pinned host memory that the arguments of a launch name, for its second launch. It is copied before the
 * program goes on, which may free it then, and is handed over as files. Units: bytes, host addresses. Thread safety: one
 * thread at a time for each struct copies. ---- */

struct copies {
    struct bundle_buffer pieces[RERUN_PINNED]; /* by address */
    int files[RERUN_PINNED];                   /* memory files with the bytes of each piece */
    size_t count;
    uint64_t total;
    char left_out[160]; /* why some memory is not there; "" if all is */
};

/* Copies what the launch's arguments name and is not there yet: at most RERUN_PINNED_BYTES in all. */
void copies_take(struct copies *copies, const struct rerun_launch *launch);

/* Answers a MESSAGE_NEED with the piece that begins at the address, if there is one; else *answer is unchanged. Returns the
 * descriptor for it, or -1, and sets errno if it cannot be had. */
int copies_answer(const struct copies *copies, uint64_t address, struct rerun_message *answer);

/* Whether the program has changed the memory since. */
int copies_have_changed(const struct copies *copies);

void copies_free(struct copies *copies);
