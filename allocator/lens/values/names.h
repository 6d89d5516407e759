/*
 * Names of streams, buffers and places that are the same in the next run of a program, unlike handles, addresses and the
 * numbers of buffers.
 *
 * A stream's name is a number, from 1, in the order of first use. A buffer's is its label, or else the place of its allocation
 * (in programs without Python: its size), and a number: how many buffers of that place have been used before, and itself.
 * Of the names of buffers the latest 200,000 or so are kept; one that is used after longer gets a new one.
 *
 * Thread safety: any thread.
 */
#pragma once

#include "finding/launched.h"
#include "lens/visits/visits.h"

#define NAME_BYTES 256

/* Gives names to the stream of a launch and to the buffers that it reaches, if they have none yet: on the launching thread, so
 * that the order is the program's. */
void names_note(const struct visit *visit);

/* The number that the visit's stream has been given; 0: none. */
uint64_t names_stream(const struct visit *visit);

/* Writes the kernel's name, or those of a graph's kernels: "gemm, softmax". */
void names_kernels(const struct visit *visit, char *out, size_t room);

/* What a finding says of the launch. It borrows frames and `plain`, which receive its stack and names_kernels(). */
void names_launched(const struct visit *visit, struct launched_fact *out, struct stack_frame frames[STACK_READ], char *plain,
                    size_t room);

/* "train.py:17 in forward #2". */
void names_buffer(uint64_t id, char out[NAME_BYTES]);

/* The place of a launch, "train.py:41 in step"; "" if unknown. Valid for ever. May take milliseconds the first time. */
const char *names_place(const struct visit *visit);
