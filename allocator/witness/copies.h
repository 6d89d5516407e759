/*
 * Pinned host memory that the arguments of a launch name, for its second launch. It is copied before the program goes on, which
 * may free it then, and is handed over as files.
 *
 * Units: bytes, host addresses. Thread safety: one thread at a time for each struct copies.
 */
#ifndef CUFENCE_WITNESS_COPIES_H
#define CUFENCE_WITNESS_COPIES_H

#include "rerun/input.h"
#include "surroundings.h"

struct copies {
    struct rerun_range pieces[RERUN_PINNED]; /* by address */
    int files[RERUN_PINNED];                 /* memory files with the bytes of each piece */
    size_t count;
    uint64_t total;
    char left_out[160]; /* why some memory is not there; "" if all is */
};

/* Copies what the launch's arguments name and is not there yet: at most RERUN_PINNED_BYTES in all. */
void copies_take(struct copies *copies, const struct rerun_launch *launch);

/* Answers a MESSAGE_NEED with the piece that begins at the address, if there is one; else *answer is unchanged. Returns the
 * descriptor for it, or -1, and sets errno if it cannot be had. */
int copies_answer(const struct copies *copies, uint64_t address, struct rerun_message *answer);

void copies_free(struct copies *copies);

#endif
