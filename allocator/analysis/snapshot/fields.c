#include "fields.h"

#include "keep.h"

#define BUFFER(kind, member) FIELD(kind, cufence_buffer, member, #member, .flags = NOT_ZERO)
#define FRAME(kind, member) FIELD(kind, struct stack_frame, member, #member, .flags = NOT_ZERO)
#define LAUNCH(kind, member) FIELD(kind, struct launch_entry, member, #member, .flags = NOT_ZERO)
#define MEMORY(kind, member) FIELD(kind, struct fault_memory, member, #member, .flags = NOT_ZERO)
#define ORIGIN(kind, member) FIELD(kind, struct snapshot_origin, member, #member, .flags = NOT_ZERO)

static const struct field of_buffer[] = {
    BUFFER(NUMBER, id),
    BUFFER(HEX, address),
    BUFFER(NUMBER, size),
    BUFFER(HEX, mapping_start),
    BUFFER(HEX, mapping_end),
    BUFFER(HEX, guard_start),
    BUFFER(HEX, guard_end),
    BUFFER(HEX, stream),
    BUFFER(NUMBER, allocated_ns),
    BUFFER(NUMBER, freed_ns),
    BUFFER(HEX, free_stream),
    BUFFER(NUMBER, allocated_tid),
    BUFFER(NUMBER, freed_tid),
    BUFFER(NUMBER, allocated_stack),
    BUFFER(NUMBER, freed_stack),
    BUFFER(INT, device),
    BUFFER(INT, is_mapped),
    BUFFER(CHARS, label),
    BUFFER(NUMBER, freed_ago),
    BUFFER(NUMBER, redzone_before),
    BUFFER(NUMBER, redzone_after),
};
static const struct field of_frame[] = {
    FRAME(INT, is_python), FRAME(CHARS, function), FRAME(CHARS, file),
    FRAME(INT, line),      FRAME(CHARS, module),   FRAME(HEX, offset),
};
static const struct field of_launch[] = {
    LAUNCH(NUMBER, sequence),    LAUNCH(NUMBER, time_ns),      LAUNCH(HEX, graph),
    LAUNCH(HEX, stream),         LAUNCH(NUMBER, tid),          LAUNCH(INT, device),
    LAUNCH(INT, is_cooperative), LAUNCH(NUMBER, shared_bytes), LAUNCH(NUMBER, argument_bytes),
    LAUNCH(NUMBER, kept_bytes),
};
static const struct field of_memory[] = {
    MEMORY(NUMBER, live_total), MEMORY(INT, device),          MEMORY(HEX, shared),    MEMORY(HEX, arena_start),
    MEMORY(HEX, arena_end),     MEMORY(INT, is_host_address), MEMORY(NUMBER, now_ns),
};
static const struct field of_origin[] = {
    ORIGIN(INT, pid),       ORIGIN(INT, rank),      ORIGIN(INT, device),     ORIGIN(CHARS, device_name),
    ORIGIN(CHARS, program), ORIGIN(CHARS, options), ORIGIN(NUMBER, time_ns),
};

const struct record kept_buffer = RECORD(cufence_buffer, of_buffer);
const struct record kept_frame = RECORD(struct stack_frame, of_frame);
const struct record kept_launch = RECORD(struct launch_entry, of_launch);
const struct record kept_memory = RECORD(struct fault_memory, of_memory);
const struct record kept_origin = RECORD(struct snapshot_origin, of_origin);
