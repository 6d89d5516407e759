/*
 * Chooses which frames of a stack a report prints, and how their file names are written. Pure.
 *
 * Often a dozen frames of PyTorch and Triton separate a launch from the line of the program. The author knows the program's own
 * frames, so these are printed first.
 */
#pragma once

#include "analysis/bundle/snapshot.h"

/* Fills in `shown` (1 or 0 for each frame) and returns how many are 1: at most `lines`, or all if there are no more. The
 * innermost frame is always shown. Plumbing is not, unless there is nothing else. Requires lines > 0, count <= STACK_READ. */
size_t frames_choose(const struct stack_frame *frames, size_t count, size_t lines, unsigned char *shown);

/* Returns how many frames there are up to those of a test runner (pytest), which tell nothing of the program: all of them if
 * none runs it, and at least the innermost one. */
size_t frames_without_runner(const struct stack_frame *frames, size_t count);

/* Whether the function only passes a call on (std::function, std::thread, ...), which hides the program's line. */
int frames_is_plumbing(const struct stack_frame *frame);

/* Writes the function's short name; "" if it is unknown. */
void frames_function(const struct stack_frame *frame, char *out, size_t size);

/* Returns the innermost frame of the program's own code, else of what Inductor generated for it, else of all. Requires
 * count > 0. */
const struct stack_frame *frames_own(const struct stack_frame *frames, size_t count);

/* Returns the file as Python would import it, "torch/nn/functional.py", for installed packages; otherwise the file
 * unchanged. */
const char *frames_file(const struct stack_frame *frame);
