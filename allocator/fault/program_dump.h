/*
 * Core dumps that the program asks the driver for: by variables, by attributes (cuCoredumpSetAttribute), or by its trigger
 * pipe. The driver writes a dump to one place, and that is cufence's pipe. So what the program asks for is noted here, and its
 * file is written from what came through the pipe.
 *
 * In the driver, variables win over attributes for good if they are set when CUDA is initialised (cuda.h). So they are out of
 * the environment meanwhile, and back in it for the program and its children.
 *
 * Thread safety: all functions, any thread; program_dump_write(): one thread.
 */
#pragma once

#include "contexts/contexts.h"
#include "rerun/dump_stream.h"

/* Bracket cuInit and dumps_arm(). Between them the variables are not in the environment, and what they ask for is noted. May be
 * nested. Where cuInit was called before, or the driver cannot be armed (before CUDA 12.1), they stay. */
void program_dump_hide(void);
void program_dump_show(void);

/* Notes what the program has set in the driver before dumps_arm(). */
void program_dump_learn(void);

/* cufence arms no dumps: gives the driver what was asked for by variables that it has not seen. */
void program_dump_hand_back(void);

/* Returns the name of a variable that the driver may have seen; NULL: there is none. */
const char *program_dump_variable(void);

/* ---- the attributes, while dumps are armed. context: NULL for those of all contexts ---- */

/* Whether the attribute is one that is noted. Those of the trigger pipe are the driver's. */
int program_dump_has(CUcoredumpSettings attribute);

/* As cuCoredumpSetAttribute() and cuCoredumpGetAttribute(), with a value. What a variable says is refused: NOT_PERMITTED. */
CUresult program_dump_set(const struct context *context, CUcoredumpSettings attribute, const void *value, size_t size);
CUresult program_dump_get(const struct context *context, CUcoredumpSettings attribute, void *value, size_t *size);

/* The trigger pipe was switched on or off: dumps without an exception may come. */
void program_dump_triggers(int is_on);
int program_dump_has_trigger(void);

/* Writes the program's file, if it has asked for one, and says so in a line. Waits for the reader of a pipe for seconds at
 * most. device: on which a kernel has faulted, -1: unknown. is_triggered: no kernel has, the dump was asked for. */
void program_dump_write(const struct dump *dump, int device, int is_triggered);
