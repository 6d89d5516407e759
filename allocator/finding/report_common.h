/*
 * What reports of kernels and of calls on the host have in common. One thread at a time, as writer.h.
 */
#ifndef CUFENCE_FINDING_REPORT_COMMON_H
#define CUFENCE_FINDING_REPORT_COMMON_H

#include "finding.h"
#include "writer.h"

/* "(8,1,1)", and "<<<(8,1,1), (128,1,1)>>>" */
void report_put_dim(struct report *report, const uint32_t dim[3]);
void report_put_grid(struct report *report, const uint32_t grid[3], const uint32_t block[3]);

/* "#7, 4000 bytes [0x7e0000ff060, 0x7e0001000000)" */
void report_put_buffer(struct report *report, const cufence_buffer *buffer);
/* ", label "layer 3"", if it has one. */
void report_put_label(struct report *report, const cufence_buffer *buffer);

/* "oob.py:9   STG.E [R2.64], R5   (k_oob+0x400)", as far as it is known: NULL where it is not. */
struct report_code {
    const char *file;
    int line; /* 0 if unknown */
    const char *instruction, *symbol;
    uint64_t offset; /* in the function of that symbol */
};
void report_put_code(struct report *report, const struct report_code *code);

/* "model.py:12 in forward" */
void report_put_frame(struct report *report, const struct stack_frame *frame);

/* Lines for the frames of a stack (frames.h). What belongs to the first one: the keys, as those of report_begin(), a certainty
 * (CERTAIN_NOT: none), and a remark, which may be NULL. */
struct report_stack {
    const char *key, *subkey, *remark;
    enum certainty certainty;
    const struct stack_frame *frames;
    size_t count;
};
void report_frame_lines(struct report *report, const struct report_stack *stack);

/* The lines of the buffer: where it lies, and who allocated and freed it, when and where. */
void report_buffer_lines(struct report *report, const struct buffer_fact *fact, uint64_t now_ns);

#endif
