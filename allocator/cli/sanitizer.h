/*
 * Reads what compute-sanitizer prints: its text, which all its versions have in common; the XML of newer ones has no documented
 * schema. Lines of it begin with "=========", and what follows one blank is an error, what follows more is about that error:
 *
 *   ========= Invalid __global__ write of size 4 bytes
 *   =========     at store(float *, int)+0x80 in /src/k.cu:12
 *   =========     by thread (3,0,0) in block (0,0,0)
 *   ========= ERROR SUMMARY: 1 error
 *
 * Pure. The text may be anything: `tests/fuzz/fuzz_sanitizer.c`.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* An error that the tool has found in the kernel's code. */
struct sanitizer_error {
    char text[768];     /* its own words, in one line */
    char function[256]; /* that it was found in, "" if unknown */
    uint64_t offset;    /* of the instruction in it; UINT64_MAX if unknown */
    char file[256];     /* "" without line information */
    int line;
    int has_thread;
    uint32_t thread[3], block[3];
    uint64_t times; /* that it was printed for this place, by this thread or others */
};

#define SANITIZER_ERRORS 64 /* places */

struct sanitizer_output {
    struct sanitizer_error errors[SANITIZER_ERRORS];
    size_t count;
    uint64_t read;    /* errors about code, those beyond the places too */
    int has_summary;  /* it came to its end, ... */
    uint64_t summary; /* ... and has counted so many errors, and warnings of hazards */
    char other[256];  /* the last of what is not about code, such as an error of the tool's own; "" if there is none */
    char said[256];   /* the last line that is not the tool's, nor about the launch's outputs */
};

void sanitizer_read(const char *text, size_t size, struct sanitizer_output *out);
