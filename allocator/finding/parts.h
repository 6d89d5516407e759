/*
 * Helpers of the functions that build findings. Pure; any thread.
 */
#pragma once

#include "base/text.h"
#include "finding.h"

/* Appends to a text of `size` bytes and truncates what doesn't fit. part_add() takes an array. */
void part_append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define part_add(text, ...) part_append(text, sizeof(text), __VA_ARGS__)

#define note_add(finding, ...) part_add((finding)->notes.list[(finding)->notes.count++].text, __VA_ARGS__)

/* Returns the buffer with the known frames of its allocation and free. The caller fills in its part in the finding. */
struct buffer_fact part_buffer(const cufence_buffer *buffer, struct buffer_frames frames);

/* Makes the finding about the address, which is in the buffer. */
void part_inside(struct finding *finding, const cufence_buffer *buffer, struct buffer_frames frames, uint64_t address,
                 enum certainty certainty);

/* Appends "argument 2", "argument 2 at byte 16", or, if the layout is unknown, "argument word 4". */
void part_append_argument(char *text, size_t size, struct argument_name name);

/* Fills in what follows from the other facts; the last thing that a function does that builds a finding. */
void finding_complete(struct finding *finding);
void finding_free_values(struct finding *finding);

/* Each fills in a part of the finding from the diagnosis, and requires the facts that come before it. */
void figures_take(struct finding *finding,
                  const struct launch_function *layout); /* of what pointers among the arguments lead to */
void cause_facts_take(struct finding *finding, const struct diagnosis *diagnosis); /* `cause` */
void notes_take(struct finding *finding, const struct diagnosis *diagnosis);       /* `meaning` and `notes` */
void note_possible(struct finding *finding,
                   const struct fault_memory *memory); /* if the dump names no kernel: those that it may have been */
void hint_take(struct finding *finding, const struct diagnosis *diagnosis);     /* `hint`, if a rule recognises a common bug */
void hint_take_slack(struct finding *finding, const struct slack_write *write); /* likewise; or what tells more */

/* Fills in finding->used, and what the reader may do about it. Requires misuse->earlier. */
void earlier_take(struct finding *finding, const struct misuse *misuse);
