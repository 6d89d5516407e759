/*
 * What the builders of a finding share. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_PARTS_H
#define CUFENCE_FINDING_PARTS_H

#include "finding.h"

/* Appends to a text of `size` bytes, and cuts what does not fit. part_add() takes an array. */
void part_append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define part_add(text, ...) part_append(text, sizeof(text), __VA_ARGS__)

/* The buffer with the frames of its allocation and free, as far as they are known; nothing is said of its part yet. */
struct buffer_fact part_buffer(const cufence_buffer *buffer, struct buffer_frames frames);

/* Appends "argument 2", "argument 2 at byte 16", or "argument word 4" where the layout is not known. */
void part_append_argument(char *text, size_t size, struct argument_name name);

const char *plural(uint64_t count); /* "s" or "" */

#endif
