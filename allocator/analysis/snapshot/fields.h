/*
 * The plain fields of the structs in a snapshot, with their JSON names. Pure.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_FIELDS_H
#define CUFENCE_ANALYSIS_SNAPSHOT_FIELDS_H

#include <stddef.h>

enum field_type { NUMBER, ADDRESS, TEXT }; /* an integer; a string "0x..."; a string */

struct field {
    const char *name;
    enum field_type type;
    size_t at, size; /* offset and size in the struct */
};

struct fields {
    const struct field *all;
    size_t count;
};

extern const struct fields buffer_fields, frame_fields, launch_fields, memory_fields, origin_fields;

#endif
