/*
 * A story: a child process that runs cufence on the real GPU, and what the parent can see of it. Every story forks, because a
 * fault poisons the process and CUDA does not survive a fork.
 */
#pragma once

#include "driver/driver.h"

#include <stdio.h>

/* The first fault, as the handler got it, in memory shared by parent and child. */
struct witness {
    int faults;
    uint64_t launched_ns, reported_ns; /* CLOCK_MONOTONIC; launched_ns is that of the latest story_launch() */
    uint64_t value[8];                 /* for use by the story */
};

struct story {
    int exit_status; /* -1 if a signal killed it */
    int signal;      /* 0 if no signal killed it */
    char stderr_text[64 * 1024];
    struct witness *witness;
};

/* Shared by parent and child. */
extern struct witness *witness;

/*
 * Runs tell() in a child process with a deadline of one minute. The child exits with its result.
 *   options: passed to cufence_init(), which runs first; NULL: loads only the driver, without cufence
 * Device 0's primary context is current in tell(). The result is valid until the next story.
 */
const struct story *story_run(const char *options, int (*tell)(void));

/* Returns NULL, or a sentence that says why stories can't run: no driver, no device, built without nvcc, the simulated
 * device. */
const char *story_impossible(void);

/* Exits with status 77 and that sentence if stories can't run. Call it first in main(). */
void story_require_gpu(void);

/* ---- for tell(): on failure, each ends the child with status 99 and a message ---- */

void story_check(int condition, const char *format, ...) __attribute__((format(printf, 2, 3)));
void story_ok(CUresult result, const char *call);
void *story_buffer(const char *label, size_t size, CUstream stream); /* from cufence, zeroed */
CUstream story_stream(void);                                         /* non-blocking */
void *story_symbol(const char *name);                                /* a driver function that is not in driver.h */

/* Launches a kernel of kernels.cu with blocks of 128 threads. */
CUresult story_launch(const char *kernel, unsigned blocks, CUstream stream, void **arguments);
#define ARGUMENTS(...) ((void *[]){__VA_ARGS__})

/* Waits, without any CUDA call, until a fault is reported. Returns 0 if there is none within `seconds`. */
int story_wait_report(unsigned seconds);
void story_sleep_ms(unsigned ms);
uint64_t story_now(void);

/* ---- kernels.c ---- */

const void *kernels_image(void); /* NULL if built without nvcc */
