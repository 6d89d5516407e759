#include "fields.h"

#include "keep.h"

#define BUFFER(kind, member) FIELD(kind, cufence_buffer, member, #member, .flags = NOT_ZERO)
#define FRAME(kind, member) FIELD(kind, struct stack_frame, member, #member, .flags = NOT_ZERO)
#define LAUNCH(kind, member) FIELD(kind, struct launch_entry, member, #member, .flags = NOT_ZERO)
#define MEMORY(kind, member) FIELD(kind, struct fault_memory, member, #member, .flags = NOT_ZERO)
#define MAP(kind, member) FIELD(kind, struct tensor_map, member, #member, .flags = NOT_ZERO)
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
static const struct field of_entry[] = {
    LAUNCH(NUMBER, sequence),
    LAUNCH(NUMBER, time_ns),
    LAUNCH(HEX, graph),
    LAUNCH(HEX, stream),
    LAUNCH(NUMBER, tid),
    LAUNCH(INT, device),
    LAUNCH(INT, is_cooperative),
    LAUNCH(NUMBER, shared_bytes),
    LAUNCH(NUMBER, argument_bytes),
    LAUNCH(NUMBER, kept_bytes),
    FIELD(NUMBER, struct launch_entry, node, "node", .flags = NOT_ZERO),
};
static const struct record entry_record = RECORD(struct launch_entry, of_entry);
static const struct field of_launch[] = {
    FIELD(PART, struct kept_launch, entry, NULL, .record = &entry_record),
    FIELD(NUMBER, struct kept_launch, function, "function", WHEN(struct kept_launch, has_function)),
    FIELD(TRIPLE, struct kept_launch, entry.grid, "grid"),
    FIELD(TRIPLE, struct kept_launch, entry.block, "block"),
    FIELD(TRIPLE, struct kept_launch, entry.cluster, "cluster"),
    FIELD(BYTES, struct kept_launch, entry.bytes, "bytes", COUNT(struct kept_launch, byte_count)),
    FIELD(NUMBER, struct kept_launch, place, "place", .flags = NOT_ZERO),
    FIELD(LIST, struct kept_launch, frames, "frames", .flags = BEHIND | NOT_ZERO, .record = &kept_frame,
          COUNT(struct kept_launch, frame_count)),
};
static const struct field of_word[] = {{.type = FIELD_NUMBER, .size = sizeof(uint64_t)}};
static const struct field of_side[] = {{.type = FIELD_NUMBER, .size = sizeof(uint32_t)}};
static const struct record word = {.fields = of_word, .count = 1, .bytes = sizeof(uint64_t)};
static const struct record side = {.fields = of_side, .count = 1, .bytes = sizeof(uint32_t)};
static const struct field of_map[] = {
    MAP(BYTES, bytes),
    MAP(CHARS, call),
    MAP(HEX, base),
    MAP(NUMBER, element_bits),
    FIELD(LIST, struct tensor_map, size, "size", .record = &word, COUNT(struct tensor_map, rank)),
    FIELD(LIST, struct tensor_map, stride, "stride", .record = &word, COUNT(struct tensor_map, rank)),
    FIELD(LIST, struct tensor_map, box, "box", .record = &side, COUNT(struct tensor_map, rank)),
    MAP(NUMBER, buffer),
    MAP(NUMBER, room),
    MAP(HEX, copied_to),
    MAP(NUMBER, time_ns),
    MAP(NUMBER, stack),
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
const struct record kept_launch = RECORD(struct kept_launch, of_launch);
const struct record kept_map = RECORD(struct tensor_map, of_map);
const struct record kept_memory = RECORD(struct fault_memory, of_memory);
const struct record kept_origin = RECORD(struct snapshot_origin, of_origin);

static const struct field of_write[] = {
    FIELD(NUMBER, struct kept_write, buffer, "buffer", .flags = NOT_ZERO),
    FIELD(BOOL, struct kept_write, write.is_before, "is_before"),
    FIELD(BOOL, struct kept_write, write.is_slack, "is_slack"),
    FIELD(NUMBER, struct kept_write, write.distance, "distance"),
    FIELD(HEX, struct kept_write, write.address, "address"),
    FIELD(NUMBER, struct kept_write, write.bytes, "bytes"),
    FIELD(BYTES, struct kept_write, write.values, "values", COUNT(struct kept_write, write.value_bytes)),
};
static const struct record write_record = RECORD(struct kept_write, of_write);
#define TERM(kind, member, ...) FIELD(kind, struct origin_term, member, #member, __VA_ARGS__)
#define WRAP(kind, member, ...) FIELD(kind, struct origin_wrap, member, #member, __VA_ARGS__)
#define CAUSE(kind, member, ...) FIELD(kind, struct origin, member, #member, __VA_ARGS__)
TABLE(place, struct origin_place, FIELD(HEX, struct origin_place, code_at, "code_at"),
      FIELD(INT, struct origin_place, line, "line"), FIELD(CHARS, struct origin_place, file, "file"));
TABLE(term, struct origin_term, TERM(NUMBER, input, .most = ORIGIN_PARAMETER), TERM(NUMBER, at), TERM(HEX, value),
      TERM(BOOL, is_negative), TERM(HEX, adds), TERM(HEX, factor), TERM(INT, times, .flags = OR_NONE),
      TERM(NUMBER, times_value), TERM(HEX, from), TERM(NUMBER, bytes), TERM(PART, place, .record = &place));
TABLE(wrap, struct origin_wrap, WRAP(PART, place, .record = &place), WRAP(NUMBER, kind, .most = ORIGIN_WRAPPED_SHIFT),
      WRAP(HEX, a), WRAP(HEX, b), WRAP(HEX, c), WRAP(HEX, exact), WRAP(HEX, wrapped), WRAP(HEX, address));
TABLE(cause, struct origin, CAUSE(BOOL, has_formula), CAUSE(HEX, address), CAUSE(HEX, base),
      CAUSE(INT, base_at, .flags = OR_NONE), CAUSE(HEX, base_from), CAUSE(HEX, constant),
      CAUSE(LIST, terms, .record = &term, COUNT(struct origin, term_count)),
      CAUSE(LIST, wraps, .record = &wrap, COUNT(struct origin, wrap_count)));
static const struct field of_rerun[] = {
    FIELD(WORD, struct kept_rerun, result.outcome, "outcome", .words = rerun_outcome_words),
    FIELD(CHARS, struct kept_rerun, result.reason, "reason", .flags = EVEN_EMPTY),
    FIELD(CHARS, struct kept_rerun, result.note, "note", .flags = EVEN_EMPTY),
    FIELD(NUMBER, struct kept_rerun, launch, "launch", WHEN(struct kept_rerun, has_launch)),
    FIELD(CHARS, struct kept_rerun, result.unset, "unset"),
    FIELD(NUMBER, struct kept_rerun, result.launches_tried, "launches_tried"),
    FIELD(NUMBER, struct kept_rerun, result.took_ms, "took_ms"),
    FIELD(NUMBER, struct kept_rerun, result.written_bytes, "written_bytes"),
    FIELD(HEX, struct kept_rerun, result.rest_start, "rest_start", .flags = NOT_ZERO),
    FIELD(HEX, struct kept_rerun, result.rest_end, "rest_end", .flags = NOT_ZERO),
    FIELD(LIST, struct kept_rerun, writes, "writes", .record = &write_record, COUNT(struct kept_rerun, write_count)),
    FIELD(PART, struct kept_rerun, result.cause, "cause", .record = &cause, WHEN(struct kept_rerun, result.cause.is_known)),
};
const struct record kept_rerun = RECORD(struct kept_rerun, of_rerun);

static const struct field of_lane[] = {
    FIELD(NUMBER, struct evidence_lane, lane, "lane"),
    FIELD(TRIPLE, struct evidence_lane, thread, "thread"),
};
const struct record kept_lane = RECORD(struct evidence_lane, of_lane);

static const struct field of_figures[] = {
    FIELD(HEX, struct figures, address, "address"),
    FIELD(NUMBER, struct figures, bytes, "bytes"),
    FIELD(NUMBER, struct figures, seen, "seen"),
    FIELD(BYTES, struct figures, first, "first"),
};
const struct record kept_figures = RECORD(struct figures, of_figures);
