/*
 * The program that `cufence demo` plants its bugs in: a plain CUDA program, which a process of its own plays under `cufence
 * run`. It finds the driver with dlopen() and dlsym(), as programs do, and knows of cufence only to label its buffers.
 *
 * Its functions are exported from the command (demo_bugs.list), so that reports name them where the command is stripped.
 * CMakeLists.txt has the options for that: none is inlined, left with a jump, or hidden.
 */
#pragma once

#define PLANTED __attribute__((visibility("default")))

/* Whether there is machine code for a GPU in it: only if it was built with nvcc. */
extern const int planted_has_kernels;

/* Plays the bug of that name with the driver in that library. Returns the exit status: 0 even after the fault, which the driver
 * has returned by then, or 1 after a message. */
int planted_main(const char *bug, const char *library);
