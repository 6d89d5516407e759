/*
 * Parts that reports of kernel faults and of host misuse share. Thread safety: one thread at a time, like writer.h.
 */
#pragma once

#include "finding.h"
#include "writer.h"

/* "(8,1,1)" and "<<<(8,1,1), (128,1,1)>>>"; ":9" of a file, "" if the line is unknown. */
struct amount dim_of(const uint32_t dim[3]);
struct amount line_text(int line);
struct grid_text {
    char text[80];
};
struct grid_text grid_of(const uint32_t grid[3], const uint32_t block[3]);

/* Puts "#7, 4000 bytes [0x7e0000ff060, 0x7e0001000000)". */
void report_put_buffer(struct report *report, const cufence_buffer *buffer);
/* Puts ", label "layer 3"" if the buffer has a label, as report_put_more(). */
enum certainty report_put_label(struct report *report, const cufence_buffer *buffer, enum certainty certainty);

/* Puts "oob.py:9   STG.E [R2.64], R5   (k_oob+0x400)". Unknown parts are NULL and omitted. */
struct report_code {
    const char *file;
    int line; /* 0 if unknown */
    const char *instruction, *symbol;
    uint64_t offset; /* within the symbol's function */
};
void report_put_code(struct report *report, const struct report_code *code);

/* Puts a demangled name of a kernel, without its parameters unless the report is verbose. */
void report_put_kernel(struct report *report, const char *name);

/* Puts "model.py:12 in forward". */
void report_put_frame(struct report *report, const struct stack_frame *frame);

/* Puts lines for the frames of a stack (frames.h). The first line gets the keys (see report_begin()), the certainty
 * (CERTAIN_NOT: none), and the remark, which may be NULL. */
void report_frame_lines(struct report *report, const char *key, const char *subkey, const char *remark,
                        enum certainty certainty, const struct stack_frame *frames, size_t count);

/* Puts "61.9 ms ago by thread 4242 on stream 0x5581c0" under a key below the last one. then_ns: 0 if unknown. */
void report_when_line(struct report *report, const char *subkey, uint64_t now_ns, uint64_t then_ns, uint64_t tid,
                      uint64_t stream);

/* Puts lines for threads that wait, under keys of their own. */
void report_waiting_lines(struct report *report, const struct waiting_facts *waiting, uint64_t now_ns);

/* Puts the buffer's lines: its address range, and which thread allocated and freed it, when and where. */
void report_buffer_lines(struct report *report, const struct buffer_fact *fact, uint64_t now_ns);

/* Put the kernel, and the launch, of findings that have finding->by. */
void launched_kernel_line(struct report *report, const struct launched_fact *by, enum certainty certainty);
void launched_lines(struct report *report, const struct launched_fact *by);

/* ---- parts of a report that are files of their own ---- */

/* What an argument's buffer held: nothing if that is unknown. */
void figures_lines(struct report *report, const struct value_fact *value);

/* A line for each of the first ranges that the second launch wrote out of bounds, with the first values in the width of the
 * access. Requires finding->rerun. */
void written_lines(struct report *report, const struct finding *finding);
/* The values of a range, which the caller frees: ": 1.0 2.0 ..."; NULL if they tell nothing, or if out of host memory. */
char *written_values(const struct finding *finding, size_t i);
void written_put_values(struct report *report, const struct rerun_write *write, uint64_t width);

/* The kernel that made a NaN and its launch, and the inputs. */
void nan_launch_lines(struct report *report, const struct finding *finding);
void nan_input_lines(struct report *report, const struct finding *finding);

/* What may still use the buffer of a stream race; nothing if it is none. */
/* Puts the work, when and from where it was launched or called. */
void use_lines(struct report *report, const char *key, const struct earlier_use *use, enum certainty certainty,
               uint64_t now_ns);
void earlier_lines(struct report *report, const struct finding *finding);

/* What was found in the slack of a buffer, and the launches that may have written it. */
void slack_lines(struct report *report, const struct slack_write *write);

/* Where all threads of a dump are, with so many places at most. */
void standing_lines(struct report *report, const struct standing *standing, size_t places);
