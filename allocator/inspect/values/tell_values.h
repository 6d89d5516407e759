/*
 * The values of a launch as text and as a line of JSON (docs/values.md). Thread safety: any thread.
 */
#pragma once

#include "measure.h"
#include "types.h"

/* A pointer among the arguments, and what it led to. */
struct shown_pointer {
    const struct reached *reached;
    struct known_type type;
    int is_measured; /* before and after are valid; the launch has changed the bytes if their hashes differ */
    struct measured before, after;
    cufence_buffer buffer; /* id 0: it is gone */
    char beside[192];      /* what may have written there meanwhile, "" for nothing */
};

struct shown_launch {
    const struct visit *visit;
    enum visit_end how;
    const struct kernel_names *names; /* NULL: a graph launch */
    const struct stack_frame *frames; /* where it was launched, innermost first */
    size_t frame_count;
    const struct shown_pointer *pointers; /* in the order of visit->reached */
    size_t pointer_count;                 /* at most visit->reached_count */
    const char *graph_kernels;            /* of a graph launch: names, joined by ", " */
};

/* Return text that the caller frees; NULL: out of host memory. */
char *values_text(const struct shown_launch *launch);
char *values_json(const struct shown_launch *launch);
