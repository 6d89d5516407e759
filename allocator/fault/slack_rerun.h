/*
 * Launches a kernel again that may have written into the slack of a buffer, where no access faults: on a copy of the buffer
 * whose edge lies at unmapped memory, with the pointers into it in the arguments moved likewise. So the write faults, and a
 * core dump has its line and its thread. Where the pointer is not an argument, nothing is found.
 *
 * Thread safety: any thread; the program's work goes on meanwhile.
 */
#pragma once

#include "base/options.h"
#include "finding/slack_finding.h"
#include "base/image.h"

/* Returns a copy of the cubin that has the kernel, for the caller to free; empty if it is not known, or if several have one of
 * the name. */
typedef struct span (*kernel_code)(const char *symbol, int device);

struct slack_rerun;

/* Takes up to the options' time for second launches. Where one of write->launches did it, it becomes the first, and
 * write->again says what it did; that is valid until slack_rerun_free(). Returns NULL if nothing is known of them. */
struct slack_rerun *slack_rerun(const struct options *options, struct slack_write *write, kernel_code code);
void slack_rerun_free(struct slack_rerun *again); /* NULL is allowed */
