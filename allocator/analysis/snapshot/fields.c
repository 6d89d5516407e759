#include "fields.h"

#include "keep.h"

#define FIELD(type, struct_type, member)                                                                                       \
    {                                                                                                                          \
#member, type, offsetof(struct struct_type, member), sizeof(((struct struct_type *)0)->member)                         \
    }

#define FIELDS(list)                                                                                                           \
    {                                                                                                                          \
        list, sizeof list / sizeof *list                                                                                       \
    }

static const struct field of_buffer[] = {
    FIELD(NUMBER, cufence_buffer, id),
    FIELD(ADDRESS, cufence_buffer, address),
    FIELD(NUMBER, cufence_buffer, size),
    FIELD(ADDRESS, cufence_buffer, mapping_start),
    FIELD(ADDRESS, cufence_buffer, mapping_end),
    FIELD(ADDRESS, cufence_buffer, guard_start),
    FIELD(ADDRESS, cufence_buffer, guard_end),
    FIELD(ADDRESS, cufence_buffer, stream),
    FIELD(NUMBER, cufence_buffer, allocated_ns),
    FIELD(NUMBER, cufence_buffer, freed_ns),
    FIELD(ADDRESS, cufence_buffer, free_stream),
    FIELD(NUMBER, cufence_buffer, allocated_tid),
    FIELD(NUMBER, cufence_buffer, freed_tid),
    FIELD(NUMBER, cufence_buffer, allocated_stack),
    FIELD(NUMBER, cufence_buffer, freed_stack),
    FIELD(NUMBER, cufence_buffer, device),
    FIELD(NUMBER, cufence_buffer, is_mapped),
    FIELD(TEXT, cufence_buffer, label),
    FIELD(NUMBER, cufence_buffer, freed_ago),
    FIELD(NUMBER, cufence_buffer, redzone_before),
    FIELD(NUMBER, cufence_buffer, redzone_after),
};
static const struct field of_frame[] = {
    FIELD(NUMBER, stack_frame, is_python), FIELD(TEXT, stack_frame, function), FIELD(TEXT, stack_frame, file),
    FIELD(NUMBER, stack_frame, line),      FIELD(TEXT, stack_frame, module),   FIELD(ADDRESS, stack_frame, offset),
};
static const struct field of_launch[] = {
    FIELD(NUMBER, launch_entry, sequence),
    FIELD(NUMBER, launch_entry, time_ns),
    FIELD(ADDRESS, launch_entry, graph),
    FIELD(ADDRESS, launch_entry, stream),
    FIELD(NUMBER, launch_entry, tid),
    FIELD(NUMBER, launch_entry, device),
    FIELD(NUMBER, launch_entry, is_cooperative),
    FIELD(NUMBER, launch_entry, shared_bytes),
    FIELD(NUMBER, launch_entry, argument_bytes),
    FIELD(NUMBER, launch_entry, kept_bytes),
};
static const struct field of_memory[] = {
    FIELD(NUMBER, fault_memory, live_total), FIELD(NUMBER, fault_memory, device),
    FIELD(ADDRESS, fault_memory, shared),    FIELD(ADDRESS, fault_memory, arena_start),
    FIELD(ADDRESS, fault_memory, arena_end), FIELD(NUMBER, fault_memory, is_host_address),
    FIELD(NUMBER, fault_memory, now_ns),
};
static const struct field of_origin[] = {
    FIELD(NUMBER, snapshot_origin, pid),       FIELD(NUMBER, snapshot_origin, rank),  FIELD(NUMBER, snapshot_origin, device),
    FIELD(TEXT, snapshot_origin, device_name), FIELD(TEXT, snapshot_origin, program), FIELD(TEXT, snapshot_origin, options),
    FIELD(NUMBER, snapshot_origin, time_ns),
};

const struct fields buffer_fields = FIELDS(of_buffer);
const struct fields frame_fields = FIELDS(of_frame);
const struct fields launch_fields = FIELDS(of_launch);
const struct fields memory_fields = FIELDS(of_memory);
const struct fields origin_fields = FIELDS(of_origin);
