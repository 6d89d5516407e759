/* The members of a finding's JSON (docs/json.md): a table for each fact. */
#include "facts.h"

#include "json.h"
#include "base/version.h"

const char *const certainty_words[] = {"", "candidate", "derived", "re-run", "exact", NULL};
/* clang-format off */
static const char *const kind_words[] = {
    "overrun", "underrun", "use-after-free", "wild address", "null pointer", "host pointer", "misaligned access",
    "illegal access", "exception", "unexplained", "double free", "invalid free", "host write out of bounds",
    "host read out of bounds", "stream race", "slack write", "leak", "first NaN", "first Inf", "run", "guarded", NULL};
/* clang-format on */
static const char *const known_word[] = {"suppressed", "baseline", NULL};
static const char *const access_words[] = {"", "read", "write", "atomic", NULL};
static const char *const from_words[] = {"", "the start", "past the end", "before the start", NULL};
static const char *const side_words[] = {"past_end", "before_start", NULL};
static const char *const source_words[] = {"live buffers", "arguments", "launches", "running", NULL};
static const char *const exact_word[] = {"exact", NULL}, *const derived_word[] = {"derived", NULL},
                         *const version_word[] = {VERSION_TEXT, NULL};

/* ---- who called ---- */

static const struct field of_frame[] = {
    FIELD(CHARS, struct stack_frame, function, "function"),
    FIELD(CHARS, struct stack_frame, file, "file"),
    FIELD(INT, struct stack_frame, line, "line", .flags = NOT_ZERO),
    FIELD(CHARS, struct stack_frame, module, "module"),
    FIELD(NUMBER, struct stack_frame, offset, "offset", WHEN(struct stack_frame, module[0])),
    FIELD(TRUE, struct stack_frame, is_python, "python"),
};
const struct record frame_facts = NAMED_RECORD("frame", struct stack_frame, of_frame);

#define FRAMES(of, frames, count)                                                                                              \
    FIELD(LIST, of, frames, "frames", .flags = NOT_ZERO | BEHIND, .record = &frame_facts, COUNT(of, count))

/* ---- buffers ---- */

static const struct field of_mapping[] = {FIELD(HEX, cufence_buffer, mapping_start, "start", .flags = REQUIRED),
                                          FIELD(HEX, cufence_buffer, mapping_end, "end", .flags = REQUIRED)};
static const struct record mapping = RECORD(cufence_buffer, of_mapping);
static const struct field of_guard[] = {FIELD(HEX, cufence_buffer, guard_start, "start", .flags = REQUIRED),
                                        FIELD(HEX, cufence_buffer, guard_end, "end", .flags = REQUIRED)};
static const struct record guard = RECORD(cufence_buffer, of_guard);
static const struct field of_redzone[] = {FIELD(NUMBER, cufence_buffer, redzone_before, "before", .flags = REQUIRED),
                                          FIELD(NUMBER, cufence_buffer, redzone_after, "after", .flags = REQUIRED)};
static const struct record redzone = RECORD(cufence_buffer, of_redzone);
static const struct field of_allocated[] = {
    FIELD(NUMBER, cufence_buffer, allocated_ns, "ns", .flags = REQUIRED),
    FIELD(AGO, cufence_buffer, allocated_ns, "ago_ns"),
    FIELD(NUMBER, cufence_buffer, allocated_tid, "tid", .flags = REQUIRED),
    FIELD(HEX, cufence_buffer, stream, "stream", .flags = REQUIRED),
};
static const struct record allocated = RECORD(cufence_buffer, of_allocated);
static const struct field of_freed[] = {
    FIELD(NUMBER, cufence_buffer, freed_ns, "ns", .flags = REQUIRED),
    FIELD(AGO, cufence_buffer, freed_ns, "ago_ns"),
    FIELD(NUMBER, cufence_buffer, freed_tid, "tid", .flags = REQUIRED),
    FIELD(HEX, cufence_buffer, free_stream, "stream", .flags = REQUIRED),
    FIELD(NUMBER, cufence_buffer, freed_ago, "ago_allocations", .flags = NOT_ZERO),
};
static const struct record freed = RECORD(cufence_buffer, of_freed);
static const struct field of_memory[] = {
    FIELD(NUMBER, cufence_buffer, id, "id", .flags = REQUIRED),
    FIELD(HEX, cufence_buffer, address, "address", .flags = REQUIRED),
    FIELD(NUMBER, cufence_buffer, size, "size", .flags = REQUIRED),
    FIELD(CHARS, cufence_buffer, label, "label"),
    FIELD(INT, cufence_buffer, device, "device", .flags = REQUIRED),
    GROUP(cufence_buffer, mapping, "mapping", .flags = REQUIRED),
    GROUP(cufence_buffer, guard, "guard", .flags = REQUIRED),
    FIELD(BOOL, cufence_buffer, is_mapped, "is_mapped", .flags = REQUIRED),
};
static const struct record memory = RECORD(cufence_buffer, of_memory);

static const struct field of_argument[] = {FIELD(INT, struct argument_name, word, "argument_word", .flags = OR_NONE),
                                           FIELD(INT, struct argument_name, number, "argument", .flags = OR_NONE)};
static const struct record argument_name = RECORD(struct argument_name, of_argument);

#define BUFFER struct buffer_fact
static const struct field of_stack[] = {FRAMES(struct called_from, frames, count)};
static const struct record stack = RECORD(struct called_from, of_stack);
static const struct field of_allocation[] = {FIELD(PART, BUFFER, buffer, NULL, .flags = BEHIND, .record = &allocated),
                                             FIELD(PART, BUFFER, allocated, NULL, .record = &stack)};
static const struct record allocation = RECORD(BUFFER, of_allocation);
static const struct field of_free[] = {FIELD(PART, BUFFER, buffer, NULL, .flags = BEHIND, .record = &freed),
                                       FIELD(PART, BUFFER, freed, NULL, .record = &stack)};
static const struct record free_of_it = RECORD(BUFFER, of_free);
static const struct field of_distance[] = {FIELD(NUMBER, BUFFER, distance, "bytes", .flags = REQUIRED),
                                           FIELD(WORD, BUFFER, from, "from", .words = from_words, .flags = REQUIRED)};
static const struct record distance = RECORD(BUFFER, of_distance);
static const struct field of_buffer[] = {
    FIELD(PART, BUFFER, buffer, NULL, .flags = BEHIND, .record = &memory),
    FIELD(PART, BUFFER, buffer, "redzone", .flags = BEHIND, .record = &redzone, WHEN(BUFFER, has_redzone)),
    GROUP(BUFFER, allocation, "allocated", WHEN(BUFFER, is_allocated)),
    GROUP(BUFFER, free_of_it, "freed", WHEN(BUFFER, is_freed)),
    FIELD(WORD, BUFFER, certainty, "certainty", .words = certainty_words),
    FIELD(TEXT, BUFFER, reason, "reason"),
    GROUP(BUFFER, distance, "distance", WHEN(BUFFER, from)),
    FIELD(PART, BUFFER, argument, NULL, .record = &argument_name),
};
static const struct record buffer = NAMED_RECORD("buffer", BUFFER, of_buffer);

/* ---- where it happened ---- */

static const struct field of_exception[] = {
    FIELD(NUMBER, struct exception, number, "number", .flags = REQUIRED),
    FIELD(TEXT, struct exception, name, "name", .flags = REQUIRED),
    FIELD(TEXT, struct exception, meaning, "meaning"),
    FIELD(TEXT, struct exception, cause, "possible_cause"),
};
static const struct record exception = NAMED_RECORD("exception", struct exception, of_exception);

#define SITE struct evidence_site
static const struct field of_code[] = {
    FIELD(TEXT, SITE, kernel, "name"),
    FIELD(TEXT, SITE, symbol, "symbol"),
    {.name = "certainty", .type = FIELD_FIXED, .words = exact_word, .flags = REQUIRED},
    FIELD(TEXT, SITE, file, "file"),
    FIELD(INT, SITE, line, "line", .flags = NOT_ZERO, WHEN(SITE, file)),
    FIELD(TEXT, SITE, instruction, "instruction"),
    FIELD(NUMBER, SITE, kernel_offset, "offset", .flags = OR_NONE),
    FIELD(HEX, SITE, error_pc, "pc", .flags = NOT_ZERO),
};
static const struct record code = NAMED_RECORD("code", SITE, of_code);
static const struct field of_grid[] = {FIELD(TRIPLE, SITE, grid, "grid", WHEN(SITE, has_grid)),
                                       FIELD(TRIPLE, SITE, block, "block", WHEN(SITE, has_grid))};
static const struct record grid = RECORD(SITE, of_grid);
static const struct field of_cluster[] = {FIELD(TRIPLE, SITE, cluster, "cluster", WHEN(SITE, has_grid))};
static const struct record cluster = RECORD(SITE, of_cluster);
static const struct field of_also[] = {FIELD(PART, SITE, exception, "exception", .record = &exception, .flags = REQUIRED),
                                       GROUP(SITE, code, "kernel", .flags = REQUIRED)};
static const struct record also = RECORD(SITE, of_also);
static const struct field of_block[] = {FIELD(TRIPLE, SITE, block_index, "block", .flags = REQUIRED)};
static const struct record block = RECORD(SITE, of_block);
static const struct field of_lane[] = {FIELD(TRIPLE, struct evidence_lane, thread, "thread", .flags = REQUIRED)};
static const struct record lane = RECORD(struct evidence_lane, of_lane);

static const struct field of_access[] = {
    FIELD(WORD, struct access_fact, kind, "kind", .words = access_words),
    FIELD(NUMBER, struct access_fact, bytes, "bytes", .flags = NOT_ZERO),
    FIELD(NUMBER, struct access_fact, bytes_past_end, "bytes_past_end", .flags = NOT_ZERO),
    FIELD(PART, struct access_fact, source, NULL, .record = &argument_name),
    FIELD(TRUE, struct access_fact, is_loaded, "loaded"),
};
static const struct record access = RECORD(struct access_fact, of_access);
static const struct field of_address[] = {
    FIELD(HEX, struct address_fact, value, "value", .flags = REQUIRED),
    FIELD(WORD, struct address_fact, certainty, "certainty", .words = certainty_words, .flags = REQUIRED),
    FIELD(BOOL, struct address_fact, is_in_arena, "in_arena", .flags = REQUIRED),
    FIELD(TRUE, struct address_fact, is_completed, "completed"),
    FIELD(TRUE, struct address_fact, is_misaligned, "misaligned"),
};
static const struct record address = RECORD(struct address_fact, of_address);

/* ---- launches ---- */

#define ENTRY struct launch_entry
static const struct field of_function[] = {FIELD(TEXT, struct launch_function, name, "symbol")};
static const struct record function = RECORD(struct launch_function, of_function);
static const struct field of_time[] = {
    FIELD(NUMBER, ENTRY, time_ns, "ns", .flags = REQUIRED),
    FIELD(AGO, ENTRY, time_ns, "ago_ns"),
    FIELD(NUMBER, ENTRY, tid, "tid", .flags = REQUIRED),
    FIELD(HEX, ENTRY, stream, "stream", .flags = REQUIRED),
};
static const struct record launch_time = RECORD(ENTRY, of_time);
static const struct field of_shape[] = {FIELD(TRIPLE, ENTRY, grid, "grid"), FIELD(TRIPLE, ENTRY, block, "block")};
static const struct record shape = RECORD(ENTRY, of_shape);
static const struct field of_entry[] = {
    FIELD(PART, ENTRY, function, NULL, .flags = BEHIND, .record = &function),
    GROUP(ENTRY, shape, NULL),
    GROUP(ENTRY, launch_time, NULL),
};
static const struct record entry = RECORD(ENTRY, of_entry);

#define LAUNCH struct fault_launch
static const struct field of_given[] = {FIELD(PART, LAUNCH, entry, NULL, .flags = BEHIND, .record = &entry),
                                        FRAMES(LAUNCH, frames, frame_count)};
static const struct record given = RECORD(LAUNCH, of_given);
static const struct field of_graph[] = {FIELD(TRUE, ENTRY, graph, "graph")};
static const struct record graph = RECORD(ENTRY, of_graph);
static const struct field of_launched[] = {
    FIELD(PART, LAUNCH, entry, NULL, .flags = BEHIND, .record = &graph),
    FIELD(PART, LAUNCH, entry, "launched", .flags = BEHIND | REQUIRED, .record = &launch_time),
    FRAMES(LAUNCH, frames, frame_count)};
static const struct record launched = RECORD(LAUNCH, of_launched);
static const struct field of_origin[] = {
    FIELD(WORD, struct fault_origin, certainty, "certainty", .words = certainty_words, .flags = REQUIRED),
    FIELD(NUMBER, struct fault_origin, fits, "fits", .flags = REQUIRED),
    FIELD(PART, struct fault_origin, launch, NULL, .flags = BEHIND, .record = &launched),
};
static const struct record launch = RECORD(struct fault_origin, of_origin);

/* ---- arguments ---- */

static const struct field of_first[] = {{.type = FIELD_SCALAR, .size = sizeof(struct scalar)}};
static const struct record first = {.fields = of_first, .count = 1, .bytes = sizeof(struct scalar)};

#define FIGURES struct figures_fact
static const struct field of_figures[] = {
    FIELD(WORD, FIGURES, type, "type", .words = value_names, .flags = REQUIRED),
    FIELD(TRUE, FIGURES, is_guess, "is_guess"),
    FIELD(NUMBER, FIGURES, count, "count", .flags = REQUIRED),
    FIELD(NUMBER, FIGURES, seen, "of_bytes", .flags = REQUIRED),
    FIELD(SCALAR, FIGURES, min, "min", WHEN(FIGURES, has_finite)),
    FIELD(SCALAR, FIGURES, max, "max", WHEN(FIGURES, has_finite)),
    FIELD(REAL, FIGURES, mean, "mean", WHEN(FIGURES, has_finite)),
    FIELD(NUMBER, FIGURES, zeros, "zeros", .flags = REQUIRED),
    FIELD(NUMBER, FIGURES, nans, "nan", WHEN(FIGURES, is_float)),
    FIELD(NUMBER, FIGURES, infinities, "inf", WHEN(FIGURES, is_float)),
    FIELD(LIST, FIGURES, first, "first", .record = &first, .flags = REQUIRED, COUNT(FIGURES, first_count)),
};
static const struct record figures = RECORD(FIGURES, of_figures);

#define VALUE struct value_fact
static const struct field of_pointed[] = {FIELD(NUMBER, cufence_buffer, id, "buffer")};
static const struct record pointed = RECORD(cufence_buffer, of_pointed);
static const struct field of_target[] = {
    FIELD(PART, VALUE, target, NULL, .flags = BEHIND, .record = &pointed),
    FIELD(NUMBER, VALUE, offset, "offset", WHEN(VALUE, target)),
    FIELD(PART, VALUE, told, "figures", .record = &figures, WHEN(VALUE, figures)),
};
static const struct record target = RECORD(VALUE, of_target);
static const struct field of_pointer[] = {FIELD(NUMBER, VALUE, at, "at", .flags = REQUIRED), GROUP(VALUE, target, NULL)};
static const struct record pointer = RECORD(VALUE, of_pointer);
static const struct field of_value[] = {
    FIELD(NUMBER, VALUE, size, "size", .flags = REQUIRED),
    FIELD(HEX, VALUE, bits, "value", WHEN(VALUE, has_bits)),
    GROUP(VALUE, target, NULL),
    FIELD(LIST, VALUE, members, "pointers", .record = &pointer, .flags = BEHIND, COUNT(VALUE, member_count),
          WHEN(VALUE, has_members)),
};
static const struct record value = RECORD(VALUE, of_value);

/* ---- the second launch ---- */

static const struct field of_write[] = {
    FIELD(PART, struct rerun_write, buffer, NULL, .flags = BEHIND, .record = &pointed),
    FIELD(WORD, struct rerun_write, is_before, "side", .words = side_words, WHEN(struct rerun_write, buffer)),
    FIELD(NUMBER, struct rerun_write, distance, "distance", WHEN(struct rerun_write, buffer)),
    FIELD(TRUE, struct rerun_write, is_slack, "slack"),
    FIELD(HEX, struct rerun_write, address, "address", .flags = REQUIRED),
    FIELD(NUMBER, struct rerun_write, bytes, "bytes", .flags = REQUIRED),
    FIELD(BYTES, struct rerun_write, values, "values", .flags = NOT_ZERO, COUNT(struct rerun_write, value_bytes)),
};
static const struct record write = RECORD(struct rerun_write, of_write);

#define RERUN struct rerun_result
static const struct field of_rerun[] = {
    FIELD(WORD, RERUN, outcome, "outcome", .words = rerun_outcome_words, .flags = REQUIRED),
    FIELD(CHARS, RERUN, reason, "reason"),
    FIELD(NUMBER, RERUN, launches_tried, "launches", .flags = REQUIRED),
    FIELD(NUMBER, RERUN, written_bytes, "written_bytes", .flags = NOT_ZERO),
    FIELD(NUMBER, RERUN, took_ms, "ms", .flags = REQUIRED),
};
static const struct record rerun_of = RECORD(RERUN, of_rerun);
static const struct field of_reruns[] = {
    FIELD(LIST, RERUN, writes, "written", .flags = NOT_ZERO, .record = &write, COUNT(RERUN, write_count)),
    GROUP(RERUN, rerun_of, "rerun"),
};
static const struct record rerun = RECORD(RERUN, of_reruns);

/* ---- the stream race, slack and NaN ---- */

#define USE struct earlier_use
static const struct field of_earlier_name[] = {FIELD(TEXT, USE, kernel, "symbol"), FIELD(TEXT, USE, call, "call")};
static const struct record earlier_name = RECORD(USE, of_earlier_name);
static const struct field of_earlier[] = {
    FIELD(PART, USE, entry, NULL, .flags = BEHIND, .record = &shape),
    FIELD(NUMBER, USE, time_ns, "ns", .flags = NOT_ZERO),
    FIELD(AGO, USE, time_ns, "ago_ns", WHEN(USE, time_ns)),
    FIELD(NUMBER, USE, tid, "tid", .flags = REQUIRED),
    FIELD(HEX, USE, stream, "stream", .flags = REQUIRED),
    FIELD(HEX, USE, by_stream, "by_stream", .flags = REQUIRED),
    FRAMES(USE, frames, frame_count),
};
static const struct record earlier = RECORD(USE, of_earlier);
static const struct field of_used[] = {
    {.name = "certainty", .type = FIELD_FIXED, .words = derived_word, .flags = REQUIRED},
    FIELD(CHARS, struct used_fact, kernel, "kernel"),
    FIELD(PART, struct used_fact, use, NULL, .flags = BEHIND, .record = &earlier_name),
    FIELD(CHARS, struct used_fact, order, "reason", .flags = REQUIRED),
    FIELD(PART, struct used_fact, use, NULL, .flags = BEHIND, .record = &earlier),
};
static const struct record used = RECORD(struct used_fact, of_used);

#define SLACK struct slack_write
static const struct field of_launches[] = {
    FIELD(WORD, SLACK, certainty, "certainty", .words = certainty_words, .flags = REQUIRED),
    FIELD(NUMBER, SLACK, launch_total, "total", .flags = REQUIRED | NOT_ZERO),
    FIELD(LIST, SLACK, launches, "list", .record = &given, .flags = REQUIRED, COUNT(SLACK, launch_count)),
};
static const struct record launches = RECORD(SLACK, of_launches);
static const struct field of_slack[] = {
    FIELD(NUMBER, SLACK, changed, "changed", .flags = REQUIRED),
    FIELD(NUMBER, SLACK, span, "span", .flags = REQUIRED),
    FIELD(BYTES, SLACK, bytes, "found", .flags = REQUIRED | NOT_ZERO, COUNT(SLACK, byte_count)),
    FIELD(NUMBER, SLACK, since_ns, "good_ns", .flags = REQUIRED),
    FIELD(NUMBER, SLACK, buffers, "buffers", .flags = REQUIRED),
    FIELD(NUMBER, SLACK, first_id, "first_buffer"),
    GROUP(SLACK, launches, "launches", WHEN(SLACK, launch_total)),
};
static const struct record slack = RECORD(SLACK, of_slack);

#define INPUT struct nan_input
static const struct field of_input[] = {
    FIELD(INT, INPUT, argument, "argument", .flags = OR_NONE),
    FIELD(NUMBER, INPUT, at, "at", .flags = REQUIRED),
    FIELD(NUMBER, INPUT, buffer, "buffer", .flags = REQUIRED),
    FIELD(NUMBER, INPUT, offset, "offset", .flags = REQUIRED),
    FIELD(TEXT, INPUT, label, "label"),
    FIELD(WORD, INPUT, type, "type", .words = value_names, .flags = REQUIRED),
    FIELD(TRUE, INPUT, is_guess, "type_is_guess"),
    FIELD(TRUE, INPUT, is_unwritten, "never_written"),
    FIELD(NUMBER, INPUT, count, "count", .flags = REQUIRED),
    FIELD(NUMBER, INPUT, nans, "nan", .flags = REQUIRED),
    FIELD(NUMBER, INPUT, infinities, "inf", .flags = REQUIRED),
    FIELD(NUMBER, INPUT, zeros, "zeros", WHEN(INPUT, finite)),
    FIELD(REAL, INPUT, min, "min", .flags = OR_NONE, WHEN(INPUT, finite)),
    FIELD(REAL, INPUT, max, "max", .flags = OR_NONE, WHEN(INPUT, finite)),
    FIELD(REAL, INPUT, mean, "mean", .flags = OR_NONE, WHEN(INPUT, finite)),
    FIELD(REAL, INPUT, deviation, "std", .flags = OR_NONE, WHEN(INPUT, finite)),
};
static const struct record input = RECORD(INPUT, of_input);

#define NAN_OF struct nan_fact
static const struct field of_line[] = {FIELD(TEXT, NAN_OF, file, "file", .flags = REQUIRED),
                                       FIELD(INT, NAN_OF, line, "line", .flags = REQUIRED)};
static const struct record nan_line = RECORD(NAN_OF, of_line);
static const struct field of_nan[] = {
    FIELD(TEXT, NAN_OF, kernel, "kernel"),
    FIELD(TEXT, NAN_OF, symbol, "symbol"),
    FIELD(TEXT, NAN_OF, graph_kernels, "graph_kernels"),
    FIELD(TRIPLE, NAN_OF, grid, "grid", WHEN(NAN_OF, kernel)),
    FIELD(TRIPLE, NAN_OF, block, "block", WHEN(NAN_OF, kernel)),
    FIELD(NUMBER, NAN_OF, launch, "launch", .flags = REQUIRED),
    FIELD(HEX, NAN_OF, stream, "stream", .flags = REQUIRED),
    FIELD(NUMBER, NAN_OF, tid, "tid", .flags = REQUIRED),
    FRAMES(NAN_OF, frames, frame_count),
    FIELD(INT, NAN_OF, argument, "argument", .flags = OR_NONE),
    GROUP(NAN_OF, nan_line, "written_at", WHEN(NAN_OF, file)),
    FIELD(NUMBER, NAN_OF, index, "index", .flags = REQUIRED),
    FIELD(NUMBER, NAN_OF, made, "made", .flags = REQUIRED),
    FIELD(NUMBER, NAN_OF, count, "count", .flags = REQUIRED),
    FIELD(WORD, NAN_OF, type, "type", .words = value_names, .flags = REQUIRED),
    FIELD(TRUE, NAN_OF, is_guess, "type_is_guess"),
    FIELD(TRUE, NAN_OF, is_of_unwritten, "of_unwritten"),
    FIELD(LIST, NAN_OF, inputs, "inputs", .record = &input, .flags = REQUIRED | BEHIND, COUNT(NAN_OF, input_count)),
};
static const struct record nan_of = RECORD(NAN_OF, of_nan);

/* ---- the process and the device ---- */

#define PROCESS struct finding_process
static const struct field of_word[] = {{.type = FIELD_TEXT, .size = sizeof(char *), .flags = EVEN_EMPTY}};
static const struct record word = {.fields = of_word, .count = 1, .bytes = sizeof(char *)};
static const struct field of_variable[] = {FIELD(TEXT, struct job_variable, name, "name"),
                                           FIELD(TEXT, struct job_variable, value, "value")};
static const struct record variable = RECORD(struct job_variable, of_variable);
static const struct field of_now[] = {FIELD(TEXT, PROCESS, time, "time")};
static const struct record now = RECORD(PROCESS, of_now);
static const struct field of_known[] = {
    FIELD(TEXT, PROCESS, host, "host"),
    FIELD(LIST, PROCESS, command, "command", .flags = NOT_ZERO | BEHIND, .record = &word, COUNT(PROCESS, word_count)),
    FIELD(PAIRS, PROCESS, job, "job", .flags = NOT_ZERO, .record = &variable, COUNT(PROCESS, job_count)),
};
static const struct record known = RECORD(PROCESS, of_known);
#define ORIGIN struct finding_origin
static const struct field of_process[] = {
    FIELD(INT, ORIGIN, pid, "pid", .flags = REQUIRED),
    FIELD(INT, ORIGIN, rank, "rank", .flags = OR_NONE),
    FIELD(PART, ORIGIN, process, NULL, .flags = BEHIND, .record = &known),
};
const struct record process_facts = RECORD(ORIGIN, of_process);
static const struct field of_where[] = {FIELD(PART, ORIGIN, process, NULL, .flags = BEHIND, .record = &now),
                                        GROUP(ORIGIN, process_facts, "process")};
static const struct record where = RECORD(ORIGIN, of_where);

/* ---- the whole ---- */

#define FINDING struct finding
static const struct field of_ordinal[] = {FIELD(INT, ORIGIN, device, "ordinal", .flags = OR_NONE),
                                          FIELD(TEXT, ORIGIN, device_name, "name")};
static const struct record ordinal = RECORD(ORIGIN, of_ordinal);
static const struct field of_device[] = {
    FIELD(PART, FINDING, origin, NULL, .record = &ordinal),
    FIELD(TEXT, FINDING, architecture, "architecture"),
    FIELD(CHARS, FINDING, driver, "driver"),
};
static const struct record device = RECORD(FINDING, of_device);
static const struct field of_called[] = {FIELD(NUMBER, FINDING, caller_tid, "tid", .flags = REQUIRED),
                                         FRAMES(FINDING, caller, caller_count)};
static const struct record called = RECORD(FINDING, of_called);
static const struct field of_raised[] = {FIELD(PART, FINDING, site.exception, NULL, .record = &exception),
                                         FIELD(TRUE, FINDING, has_no_buffer, "no_buffer")};
static const struct record raised = RECORD(FINDING, of_raised);
static const struct field of_kernel[] = {
    FIELD(PART, FINDING, site, NULL, .record = &code),
    FIELD(PART, FINDING, site, NULL, .record = &grid),
    FIELD(TRUE, FINDING, is_grid_of_rerun, "grid_rerun", WHEN(FINDING, site.has_grid)),
    FIELD(PART, FINDING, site, NULL, .record = &cluster, WHEN(FINDING, has_cluster)),
};
static const struct record kernel = RECORD(FINDING, of_kernel);
static const struct field of_source[] = {FIELD(INT, struct source_line, number, "line", .flags = REQUIRED),
                                         FIELD(CHARS, struct source_line, text, "text", .flags = REQUIRED | EVEN_EMPTY)};
static const struct record source = RECORD(struct source_line, of_source);
static const struct field of_thread[] = {
    FIELD(PART, FINDING, site, NULL, .record = &block),
    FIELD(PART, FINDING, lane, NULL, .flags = BEHIND, .record = &lane),
    FIELD(TRUE, FINDING, is_warp_of_rerun, "rerun"),
    FIELD(TRUE, FINDING, is_warp_emulated, "emulated"),
};
static const struct record thread = RECORD(FINDING, of_thread);
static const struct field of_counts[] = {
    FIELD(NUMBER, FINDING, faulting_threads, "threads", .flags = NOT_ZERO),
    FIELD(NUMBER, FINDING, warps, "warps", .flags = NOT_ZERO),
    FIELD(NUMBER, FINDING, sms, "sms", .flags = NOT_ZERO),
};
static const struct record counts = RECORD(FINDING, of_counts);
static const struct field of_arguments[] = {
    FIELD(WORD, FINDING, values_certainty, "certainty", .words = certainty_words, .flags = REQUIRED),
    FIELD(LIST, FINDING, values, "list", .flags = REQUIRED | BEHIND, .record = &value, COUNT(FINDING, value_count)),
};
static const struct record arguments = RECORD(FINDING, of_arguments);
static const struct field of_candidates[] = {
    FIELD(TEXT, FINDING, candidates_from, "from", .words = source_words, .flags = REQUIRED),
    FIELD(TRUE, FINDING, is_narrowed, "narrowed"),
    FIELD(TRUE, FINDING, is_const_excluded, "const_excluded"),
    FIELD(TRUE, FINDING, is_traced, "traced"),
    FIELD(NUMBER, FINDING, candidate_total, "total", .flags = REQUIRED),
    FIELD(LIST, FINDING, candidates, "buffers", .flags = REQUIRED, .record = &buffer, COUNT(FINDING, candidate_count)),
};
static const struct record candidates = RECORD(FINDING, of_candidates);
static const struct field of_note[] = {FIELD(CHARS, struct note_fact, text, NULL, .flags = EVEN_EMPTY)};
static const struct record note = RECORD(struct note_fact, of_note);
static const struct field of_event[] = {
    FIELD(NUMBER, struct timeline_event, time_ns, "ns", .flags = REQUIRED),
    FIELD(AGO, struct timeline_event, time_ns, "ago_ns"),
    FIELD(TEXT, struct timeline_event, what, "what", .words = timeline_words, .flags = REQUIRED),
    FIELD(CHARS, struct timeline_event, kernel, "kernel"),
    FIELD(PART, struct timeline_event, launch, NULL, .flags = BEHIND, .record = &shape,
          WHEN(struct timeline_event, has_kernel)),
    FIELD(NUMBER, struct timeline_event, id, "buffer", .flags = NOT_ZERO),
    FIELD(NUMBER, struct timeline_event, size, "size", WHEN(struct timeline_event, id)),
    FIELD(TEXT, struct timeline_event, label, "label"),
    FIELD(NUMBER, struct timeline_event, tid, "tid", .flags = REQUIRED),
    FIELD(HEX, struct timeline_event, stream, "stream", .flags = REQUIRED),
    FIELD(TRUE, struct timeline_event, has_faulted, "faulted"),
};
static const struct record event = RECORD(struct timeline_event, of_event);
static const struct field of_guarded[] = {
    FIELD(NUMBER, struct guarded, allocations, "allocations", .flags = REQUIRED),
    FIELD(NUMBER, struct guarded, peak_bytes, "peak_bytes"),
    FIELD(NUMBER, struct guarded, launches, "launches"),
    FIELD(NUMBER, struct guarded, left, "left_to_driver"),
    FIELD(NUMBER, struct guarded, left_bytes, "left_to_driver_bytes"),
    FIELD(NUMBER, struct guarded, findings, "findings", .flags = REQUIRED),
    FIELD(NUMBER, struct guarded, known, "known", .flags = REQUIRED),
};
static const struct record guarded = RECORD(struct guarded, of_guarded);

static const struct field of_finding[] = {
    {.name = "schema", .type = FIELD_FIXED, .most = JSON_SCHEMA, .flags = REQUIRED},
    {.name = "cufence", .type = FIELD_FIXED, .words = version_word},
    FIELD(TEXT, FINDING, kind, "kind", .words = kind_words),
    FIELD(CHARS, FINDING, headline, "headline"),
    FIELD(CHARS, FINDING, name, "finding_name", .about = "equal in each run of the program, for known="),
    FIELD(TEXT, FINDING, known, "known", .words = known_word, .about = "known= names it: it was counted, and not reported"),
    FIELD(PART, FINDING, origin, NULL, .record = &where),
    GROUP(FINDING, device, "device", WHEN(FINDING, has_device)),
    FIELD(TEXT, FINDING, call, "call"),
    FIELD(TEXT, FINDING, reason, "reason"),
    GROUP(FINDING, called, "called", WHEN(FINDING, call)),
    FIELD(PART, FINDING, used, "used", .record = &used, WHEN(FINDING, used.use)),
    GROUP(FINDING, raised, "exception", WHEN(FINDING, has_site)),
    FIELD(PART, FINDING, access, "access", .record = &access, WHEN(FINDING, access.is_known)),
    FIELD(PART, FINDING, address, "address", .record = &address, WHEN(FINDING, address.is_one)),
    FIELD(PART, FINDING, buffer, "buffer", .record = &buffer, WHEN(FINDING, buffer.buffer)),
    FIELD(PART, FINDING, rival, "rival", .record = &buffer, WHEN(FINDING, rival.buffer)),
    FIELD(PART, FINDING, slack, "slack", .flags = BEHIND, .record = &slack),
    GROUP(FINDING, kernel, "kernel", WHEN(FINDING, has_kernel)),
    FIELD(LIST, FINDING, source, "source", .flags = NOT_ZERO, .record = &source, COUNT(FINDING, source_count)),
    FIELD(BOOL, FINDING, has_exited, "warp_exited", WHEN(FINDING, has_site)),
    GROUP(FINDING, thread, "thread", WHEN(FINDING, lane)),
    GROUP(FINDING, counts, "counts", WHEN(FINDING, has_site)),
    FIELD(PART, FINDING, launch, "launch", .record = &launch, WHEN(FINDING, launch.launch)),
    GROUP(FINDING, arguments, "arguments", WHEN(FINDING, values_certainty)),
    FIELD(PART, FINDING, rerun, NULL, .flags = BEHIND, .record = &rerun),
    GROUP(FINDING, candidates, "candidates", WHEN(FINDING, candidate_count)),
    FIELD(LIST, FINDING, also, "also", .flags = NOT_ZERO, .record = &also, COUNT(FINDING, also_count)),
    FIELD(LIST, FINDING, notes, "notes", .flags = NOT_ZERO, .record = &note, COUNT(FINDING, note_count)),
    FIELD(PART, FINDING, nan, "nan", .flags = BEHIND, .record = &nan_of),
    FIELD(CHARS, FINDING, hint, "hint"),
    FIELD(PART, FINDING, previous, "previous", .record = &buffer, WHEN(FINDING, previous.buffer)),
    FIELD(PART, FINDING, next, "next", .record = &buffer, WHEN(FINDING, next.buffer)),
    FIELD(LIST, FINDING, timeline, "timeline", .flags = NOT_ZERO | BEHIND, .record = &event, COUNT(FINDING, timeline_count)),
    FIELD(PART, FINDING, guarded, "guarded", .flags = BEHIND, .record = &guarded,
          .about = "of a line of kind guarded: what the process has guarded by its end"),
};
const struct record finding_facts = RECORD(FINDING, of_finding);
