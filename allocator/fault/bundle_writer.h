/*
 * A bundle in the making (analysis/bundle/bundle.h): of a fault, or of a launch that is saved. Its files are open to their
 * owner alone, and none is overwritten. If one cannot be written, that is said, and the others are not tried.
 *
 * Thread safety: one thread at a time for each writer.
 */
#pragma once

#include "analysis/bundle/bundle.h"
#include "analysis/verdict/rerun_result.h"
#include "rerun/dump_stream.h"

struct bundle_writer {
    const char *option; /* what asked for it, for messages: "keep", "save_values" */
    char folder[1100];
    struct bundle_buffer *buffers, pinned[RERUN_PINNED];
    size_t buffer_count, pinned_count;
    uint64_t bytes; /* of the arrays */
    int has_failed;
};

/* Makes the folder NAME, or NAME.2 and so on, in a folder that is made too if need be. Returns 0 after a message. Release it
 * with writer_end() in any case. */
int writer_begin(struct bundle_writer *writer, const char *option, const char *parent, const char *name);
void writer_end(struct bundle_writer *writer);

/* Write a file: bytes behind a head, which may be NULL; the elements of an array of this type, or of VALUE_TYPES as bytes; a
 * text, which is freed; a dump, packed where there is libz.so.1. NULL: the host has no memory for it, or of a dump: there is
 * none. */
void writer_put(struct bundle_writer *writer, const char *name, const void *head, size_t head_size, const void *bytes,
                uint64_t size);
void writer_put_array(struct bundle_writer *writer, const char *name, enum value_type type, const void *bytes, uint64_t size);
void writer_put_text(struct bundle_writer *writer, const char *name, char *text);
void writer_put_dump(struct bundle_writer *writer, const char *stem, const struct dump *dump);

/* Writes what is known of the launch: in the program's own words. rerun: NULL if there was no second launch. */
void writer_put_facts(struct bundle_writer *writer, const struct fault_memory *memory, const struct rerun_result *rerun);

/* Lists a buffer, whose bytes writer_open() or writer_put_bytes() may then write. Returns NULL if there are too many. */
struct bundle_buffer *writer_add(struct bundle_writer *writer, const cufence_buffer *from);
struct bundle_buffer *writer_add_pinned(struct bundle_writer *writer, const struct bundle_buffer *from);

void writer_leave_out(struct bundle_buffer *buffer, const char *why);

/* Makes the file for the bytes of a buffer before the launch, or after it, for somebody else to write them behind the head
 * (NPY_HEADER). Returns a descriptor, or -1 if that failed, and the buffer is left out. */
int writer_open(struct bundle_writer *writer, struct bundle_buffer *buffer, int is_after);

/* The same, and writes them. */
void writer_put_bytes(struct bundle_writer *writer, struct bundle_buffer *buffer, int is_after, const void *bytes);

/* Lists the launch, and the buffers for it: a bundle that has this list can be launched again. Returns the number of buffers
 * that are left out, with those whose files are not whole. */
size_t writer_finish_launch(struct bundle_writer *writer, struct bundle *launch);

/* Removes what only another launch needs; the folder, too, if nothing else is in it. */
void writer_drop_launch(struct bundle_writer *writer);
