/*
 * Which frames of a stack a report has lines for, and how their files are written. Pure.
 *
 * Between a program's own line and the launch there are often a dozen frames of PyTorch and Triton. Those of the program are
 * what its author knows, so they have their lines first.
 */
#ifndef CUFENCE_FINDING_FRAMES_H
#define CUFENCE_FINDING_FRAMES_H

#include "analysis/snapshot/snapshot.h"

/* Fills in `shown` (1 or 0 for each frame) and returns how many are 1: at most `lines`, all where there are no more, the
 * innermost one always. lines > 0, count <= STACK_READ. */
size_t frames_choose(const struct stack_frame *frames, size_t count, size_t lines, unsigned char *shown);

/* The innermost frame of the program's own, or the innermost one where there is none. count > 0. */
const struct stack_frame *frames_own(const struct stack_frame *frames, size_t count);

/* The file as Python's import would find it, "torch/nn/functional.py", if it is of an installed package; else as it is. */
const char *frames_file(const struct stack_frame *frame);

#endif
