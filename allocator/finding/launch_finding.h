/*
 * Findings about a launch of which no core dump tells: it has made a NaN, or an infinity, of inputs that had none. Pure; any
 * thread.
 */
#pragma once

#include "analysis/values/value.h"
#include "misuse.h"

struct launched_fact {
    const char *kernel, *symbol; /* demangled and mangled; NULL: a graph */
    const char *graph_kernels;   /* of a graph: as `plain`; else NULL */
    const char *plain;           /* the kernel without types; of a graph: its kernels */
    uint32_t grid[3], block[3];
    uint64_t launch, stream, tid;     /* number of the launch; its stream; its thread */
    const struct stack_frame *frames; /* of the launch, innermost first */
    size_t frame_count;
};

#define FINDING_NAN "first NaN"
#define FINDING_INF "first Inf"
#define NAN_INPUTS 16

/* Memory that the launch was given, as it was before. */
struct nan_input {
    int argument; /* -1 if unknown */
    uint32_t at;  /* of the pointer, in the argument */
    uint64_t buffer, offset, count;
    const char *label; /* NULL: none */
    enum value_type type;
    int is_unwritten; /* nobody was seen to write it */
    uint64_t nans, infinities;
    uint64_t fresh;         /* elements that hold the fill of fresh memory (fill=nan): nobody has written them */
    uint64_t finite, zeros; /* finite: 0 if there is none, or the figures are unknown; those below are then not valid */
    double min, max, mean, deviation;
};

struct nan_fact {
    const char *kind;            /* FINDING_NAN or FINDING_INF */
    struct launched_fact by;     /* the launch that has made it */
    uint64_t index, made, count; /* the first such element, their number, and that of all elements */
    uint64_t pointer;            /* where the elements begin */
    int argument;                /* that points there, -1 if unknown */
    enum value_type type;
    const cufence_buffer *buffer; /* id 0: it is gone */
    struct buffer_frames buffer_frames;
    const struct nan_input *inputs; /* what was looked at before */
    size_t input_count;
    int is_of_unwritten; /* an input that nobody has written had NaN */
    const cufence_buffer
        *fresh;           /* one of the inputs with such elements, where they may have come from; NULL: unknown, or none */
    uint64_t fresh_count; /* elements of it that hold the fill */
    const struct earlier_use *other; /* on another stream, it may have written there at the same time; NULL: nothing has */
    uint64_t now_ns;
};
