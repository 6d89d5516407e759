/*
 * A story: a child process in which cufence runs on the real GPU, and what its parent can see of it. Every story forks, since
 * a fault poisons the process and CUDA does not survive a fork.
 */
#ifndef CUFENCE_TESTS_GPU_STORY_H
#define CUFENCE_TESTS_GPU_STORY_H

#include "driver/driver.h"

#include <stdio.h>

/* The first fault, as the handler saw it, in memory that parent and child share. */
struct witness {
    int faults;
    char kind[64], kernel[128], file[256], text[32 * 1024];
    int line, is_address_known, has_buffer;
    uint64_t address;
    cufence_buffer buffer;
    uint64_t launched_ns, reported_ns; /* CLOCK_MONOTONIC; launched_ns is story_launch()'s latest */
    uint64_t value[8];                 /* whatever a story wants to tell */
};

struct story {
    int exit_status; /* -1 if it died of a signal */
    int signal;      /* 0 if it ended by itself */
    char stderr_text[64 * 1024];
    struct witness *witness;
};

/* Shared by parent and child. */
extern struct witness *witness;

/*
 * Runs tell() in a child process with a deadline of a minute, and then exit(its result).
 *   options  of cufence_init(), which runs before; NULL: cufence is not started, only the driver is loaded
 * device 0's primary context is current in tell(). The result stays valid until the next story.
 */
const struct story *story_run(const char *options, int (*tell)(void));

/* 0, or why there can be no story here (a sentence): no driver, no device, built without nvcc, the simulated device. */
const char *story_impossible(void);

/* Ends the program with status 77 and that sentence if there can be no story. First thing in main(). */
void story_require_gpu(void);

/* ---- for tell(): each ends the child with status 99 and a message when it fails ---- */

void story_check(int condition, const char *format, ...) __attribute__((format(printf, 2, 3)));
void story_ok(CUresult result, const char *call);
void *story_buffer(const char *label, size_t size, CUstream stream); /* from cufence, its bytes set to 0 */
CUstream story_stream(void);                                         /* non-blocking */
void *story_symbol(const char *name);                                /* of a driver function that driver.h does not have */

/* Launches a kernel of kernels.cu with blocks of 128 threads. */
CUresult story_launch(const char *kernel, unsigned blocks, CUstream stream, void **arguments);
#define ARGUMENTS(...) ((void *[]){__VA_ARGS__})

/* Waits, without any CUDA call, until a fault has been reported. 0: none within `seconds`. */
int story_wait_report(unsigned seconds);
void story_sleep_ms(unsigned ms);
uint64_t story_now(void);

/* ---- kernels.c ---- */

const void *kernels_image(void);      /* NULL if built without nvcc */
int kernels_line(const char *kernel); /* the line in kernels.cu of that kernel's fault */

#endif
