/* The members of a finding's JSON (docs/json.md): a table for each fact. */
#include "json.h"

#include "report.h"

#include "base/text.h"

static const char *const certainty_words[] = {"", "candidate", "derived", "re-run", "exact", NULL};
/* clang-format off */
static const char *const kind_words[] = {
    "overrun", "underrun", "use-after-free", "wild address", "null pointer", "host pointer", "misaligned access",
    "illegal access", "exception", "unexplained", "double free", "invalid free", "host write out of bounds",
    "host read out of bounds", "stream race", "slack write", "write to poisoned memory", "leak",
    "first NaN", "first Inf", "stuck", "run", "guarded", NULL};
/* clang-format on */
static const char *const known_word[] = {"suppressed", "baseline", NULL};
static const char *const access_words[] = {"", "read", "write", "atomic", NULL};
static const char *const from_words[] = {"", "the start", "past the end", "before the start", NULL};
static const char *const side_words[] = {"past_end", "before_start", NULL};
static const char *const source_words[] = {"live buffers", "arguments", "launches", "running", NULL};
static const char *const exact_word[] = {"exact", NULL}, *const derived_word[] = {"derived", NULL},
                         *const candidate_word[] = {"candidate", NULL}, *const version_word[] = {VERSION_TEXT, NULL};

/* Rows of a table: kind, member, and the name in the JSON. */
#define FRAME(kind, ...) FIELD(kind, struct stack_frame, __VA_ARGS__)
#define MEMORY(kind, ...) FIELD(kind, cufence_buffer, __VA_ARGS__)
#define BUFFER(kind, ...) FIELD(kind, struct buffer_fact, __VA_ARGS__)
#define EXCEPTION(kind, ...) FIELD(kind, struct exception, __VA_ARGS__)
#define SITE(kind, ...) FIELD(kind, struct evidence_stop, __VA_ARGS__)
#define ENTRY(kind, ...) FIELD(kind, struct launch_entry, __VA_ARGS__)
#define LAUNCH(kind, ...) FIELD(kind, struct fault_launch, __VA_ARGS__)
#define FIGURE(kind, ...) FIELD(kind, struct figures_fact, __VA_ARGS__)
#define VALUE(kind, ...) FIELD(kind, struct value_fact, __VA_ARGS__)
#define WRITE(kind, ...) FIELD(kind, struct rerun_write, __VA_ARGS__)
#define RERUN(kind, ...) FIELD(kind, struct rerun_result, __VA_ARGS__)
#define USE(kind, ...) FIELD(kind, struct earlier_use, __VA_ARGS__)
#define USED(kind, ...) FIELD(kind, struct used_fact, __VA_ARGS__)
#define SLACK(kind, ...) FIELD(kind, struct slack_write, __VA_ARGS__)
#define INPUT(kind, ...) FIELD(kind, struct nan_input, __VA_ARGS__)
#define BY(kind, ...) FIELD(kind, struct launched_fact, __VA_ARGS__)
#define NAN_OF(kind, ...) FIELD(kind, struct nan_fact, __VA_ARGS__)
#define PROCESS(kind, ...) FIELD(kind, struct finding_process, __VA_ARGS__)
#define ORIGIN(kind, ...) FIELD(kind, struct finding_source, __VA_ARGS__)
#define GUARDED(kind, ...) FIELD(kind, struct guarded, __VA_ARGS__)
#define WAITING(kind, ...) FIELD(kind, struct waiting_fact, __VA_ARGS__)
#define ROW(kind, ...) FIELD(kind, struct finding, __VA_ARGS__)
#define MUST .flags = REQUIRED
#define FRAMES(of, frames, count)                                                                                              \
    FIELD(LIST, of, frames, "frames", .flags = NOT_ZERO | BEHIND, .table = &frame, COUNT(of, count))
#define CERTAINTY(of, member, ...) FIELD(WORD, of, member, "certainty", .words = certainty_words, __VA_ARGS__)

/* ---- who called ---- */

NAMED(frame, struct stack_frame, FRAME(CHARS, function, "function"), FRAME(CHARS, file, "file"),
      FRAME(INT, line, "line", .flags = NOT_ZERO), FRAME(CHARS, module, "module"),
      FRAME(NUMBER, offset, "offset", WHEN(struct stack_frame, module[0])), FRAME(TRUE, is_python, "python"));

/* ---- buffers ---- */

TABLE(memory, cufence_buffer, MEMORY(NUMBER, id, "id", MUST), MEMORY(HEX, address, "address", MUST),
      MEMORY(NUMBER, size, "size", MUST), MEMORY(CHARS, label, "label"), MEMORY(INT, device, "device", MUST),
      OPEN("mapping", MUST), MEMORY(HEX, mapping_start, "start", MUST), MEMORY(HEX, mapping_end, "end", MUST), CLOSE,
      OPEN("guard", MUST), MEMORY(HEX, guard_start, "start", MUST), MEMORY(HEX, guard_end, "end", MUST), CLOSE,
      MEMORY(BOOL, is_mapped, "is_mapped", MUST));
TABLE(redzone, cufence_buffer, MEMORY(NUMBER, redzone_before, "before", MUST), MEMORY(NUMBER, redzone_after, "after", MUST));
TABLE(allocated, cufence_buffer, MEMORY(NUMBER, allocated_ns, "ns", MUST), MEMORY(AGO, allocated_ns, "ago_ns"),
      MEMORY(NUMBER, allocated_tid, "tid", MUST), MEMORY(HEX, stream, "stream", MUST));
TABLE(freed, cufence_buffer, MEMORY(NUMBER, freed_ns, "ns", MUST), MEMORY(AGO, freed_ns, "ago_ns"),
      MEMORY(NUMBER, freed_tid, "tid", MUST), MEMORY(HEX, free_stream, "stream", MUST),
      MEMORY(NUMBER, freed_ago, "ago_allocations", .flags = NOT_ZERO));
TABLE(pointed, cufence_buffer, MEMORY(NUMBER, id, "buffer"));
TABLE(argument_name, struct argument_name, FIELD(INT, struct argument_name, word, "argument_word", .flags = OR_NONE),
      FIELD(INT, struct argument_name, number, "argument", .flags = OR_NONE));

NAMED(buffer, struct buffer_fact, BUFFER(PART, buffer, NULL, .flags = BEHIND, .table = &memory),
      BUFFER(PART, buffer, "redzone", .flags = BEHIND, .table = &redzone, WHEN(struct buffer_fact, has_redzone)),
      OPEN("allocated", WHEN(struct buffer_fact, is_allocated)),
      BUFFER(PART, buffer, NULL, .flags = BEHIND, .table = &allocated),
      FRAMES(struct buffer_fact, allocated.frames, allocated.count), CLOSE, OPEN("freed", WHEN(struct buffer_fact, is_freed)),
      BUFFER(PART, buffer, NULL, .flags = BEHIND, .table = &freed), FRAMES(struct buffer_fact, freed.frames, freed.count),
      CLOSE, CERTAINTY(struct buffer_fact, certainty, .flags = 0), BUFFER(TEXT, reason, "reason"),
      OPEN("distance", WHEN(struct buffer_fact, from)), BUFFER(NUMBER, distance, "bytes", MUST),
      BUFFER(WORD, from, "from", .words = from_words, MUST), CLOSE, BUFFER(PART, argument, NULL, .table = &argument_name));

/* ---- where it happened ---- */

NAMED(exception, struct exception, EXCEPTION(NUMBER, number, "number", MUST), EXCEPTION(TEXT, name, "name", MUST),
      EXCEPTION(TEXT, meaning, "meaning"), EXCEPTION(TEXT, cause, "possible_cause"));
TABLE(named, struct evidence_stop, SITE(TEXT, kernel, "name"), SITE(TEXT, symbol, "symbol"));
NAMED(code, struct evidence_stop, SITE(TEXT, file, "file"),
      SITE(INT, line, "line", .flags = NOT_ZERO, WHEN(struct evidence_stop, file)), SITE(TEXT, instruction, "instruction"),
      SITE(NUMBER, kernel_offset, "offset", .flags = OR_NONE), SITE(HEX, error_pc, "pc", .flags = NOT_ZERO));
TABLE(also, struct evidence_stop, SITE(PART, exception, "exception", .table = &exception, MUST), OPEN("kernel", MUST),
      GROUP(struct evidence_stop, named, NULL), {.name = "certainty", .type = FIELD_FIXED, .words = exact_word, MUST},
      GROUP(struct evidence_stop, code, NULL), CLOSE);
TABLE(lane, struct evidence_lane, FIELD(TRIPLE, struct evidence_lane, thread, "thread", MUST));
TABLE(access, struct access_fact, FIELD(WORD, struct access_fact, kind, "kind", .words = access_words),
      FIELD(NUMBER, struct access_fact, bytes, "bytes", .flags = NOT_ZERO),
      FIELD(NUMBER, struct access_fact, bytes_past_end, "bytes_past_end", .flags = NOT_ZERO),
      FIELD(PART, struct access_fact, source, NULL, .table = &argument_name),
      FIELD(TRUE, struct access_fact, is_loaded, "loaded"));
TABLE(address, struct address_fact, FIELD(HEX, struct address_fact, value, "value", MUST),
      CERTAINTY(struct address_fact, certainty, MUST), FIELD(BOOL, struct address_fact, is_in_arena, "in_arena", MUST),
      FIELD(TRUE, struct address_fact, is_misaligned, "misaligned"));

/* ---- launches ---- */

TABLE(function, struct launch_function, FIELD(TEXT, struct launch_function, name, "symbol"));
TABLE(launch_time, struct launch_entry, ENTRY(NUMBER, time_ns, "ns", MUST), ENTRY(AGO, time_ns, "ago_ns"),
      ENTRY(NUMBER, tid, "tid", MUST), ENTRY(HEX, stream, "stream", MUST));
TABLE(shape, struct launch_entry, ENTRY(TRIPLE, grid, "grid"), ENTRY(TRIPLE, block, "block"));
TABLE(entry, struct launch_entry, ENTRY(PART, function, NULL, .flags = BEHIND, .table = &function),
      GROUP(struct launch_entry, shape, NULL), GROUP(struct launch_entry, launch_time, NULL));
TABLE(given, struct fault_launch, LAUNCH(PART, entry, NULL, .flags = BEHIND, .table = &entry),
      FRAMES(struct fault_launch, frames, frame_count));
TABLE(graph, struct launch_entry, ENTRY(TRUE, graph, "graph"));
TABLE(launched, struct fault_launch, LAUNCH(PART, entry, NULL, .flags = BEHIND, .table = &graph),
      LAUNCH(PART, entry, "launched", .flags = BEHIND | REQUIRED, .table = &launch_time),
      FRAMES(struct fault_launch, frames, frame_count));
TABLE(launch, struct launch_match, CERTAINTY(struct launch_match, certainty, MUST),
      FIELD(NUMBER, struct launch_match, fits, "fits", MUST),
      FIELD(PART, struct launch_match, launch, NULL, .flags = BEHIND, .table = &launched));

/* ---- arguments ---- */

TABLE(first, struct scalar, {.type = FIELD_SCALAR, .size = sizeof(struct scalar)});
TABLE(figures, struct figures_fact, FIGURE(WORD, type, "type", .words = value_names, MUST),
      FIGURE(NUMBER, count, "count", MUST), FIGURE(NUMBER, seen, "of_bytes", MUST),
      FIGURE(SCALAR, min, "min", WHEN(struct figures_fact, has_finite)),
      FIGURE(SCALAR, max, "max", WHEN(struct figures_fact, has_finite)),
      FIGURE(REAL, mean, "mean", WHEN(struct figures_fact, has_finite)), FIGURE(NUMBER, zeros, "zeros", MUST),
      FIGURE(NUMBER, nans, "nan", WHEN(struct figures_fact, is_float)),
      FIGURE(NUMBER, infinities, "inf", WHEN(struct figures_fact, is_float)),
      FIGURE(LIST, first, "first", .table = &first, MUST, COUNT(struct figures_fact, first_count)));
TABLE(target, struct value_fact, VALUE(PART, target, NULL, .flags = BEHIND, .table = &pointed),
      VALUE(NUMBER, offset, "offset", WHEN(struct value_fact, target)),
      VALUE(PART, summary, "figures", .table = &figures, WHEN(struct value_fact, figures)));
TABLE(pointer, struct value_fact, VALUE(NUMBER, at, "at", MUST), GROUP(struct value_fact, target, NULL));
TABLE(value, struct value_fact, VALUE(NUMBER, size, "size", MUST), VALUE(HEX, bits, "value", WHEN(struct value_fact, has_bits)),
      GROUP(struct value_fact, target, NULL),
      VALUE(LIST, members, "pointers", .table = &pointer, .flags = BEHIND, COUNT(struct value_fact, member_count),
            WHEN(struct value_fact, members)));

/* ---- what the address is made of ---- */

TABLE(note, struct note_fact, FIELD(CHARS, struct note_fact, text, NULL, .flags = EVEN_EMPTY));
#define CAUSE(kind, ...) FIELD(kind, struct cause_fact, __VA_ARGS__)
#define ELEMENT(kind, ...) FIELD(kind, struct element_fact, __VA_ARGS__)
#define WRAP(kind, ...) FIELD(kind, struct wrap_fact, __VA_ARGS__)
TABLE(place, struct origin_place, FIELD(CHARS, struct origin_place, file, "file"),
      FIELD(INT, struct origin_place, line, "line", .flags = NOT_ZERO));
TABLE(term, struct term_fact, FIELD(CHARS, struct term_fact, input, "input", MUST),
      FIELD(INT, struct term_fact, value, "value", MUST), FIELD(INT, struct term_fact, adds, "bytes", MUST),
      FIELD(INT, struct term_fact, times.number, "times_argument", .flags = OR_NONE));
TABLE(writer, struct launch_entry, ENTRY(PART, function, NULL, .flags = BEHIND, .table = &function),
      GROUP(struct launch_entry, launch_time, NULL));
TABLE(element, struct element_fact, ELEMENT(INT, value, "value", MUST), ELEMENT(HEX, address, "address", MUST),
      ELEMENT(NUMBER, bytes, "bytes", MUST), ELEMENT(PART, buffer, NULL, .flags = BEHIND, .table = &pointed),
      ELEMENT(PART, argument, NULL, .table = &argument_name), ELEMENT(INT, number, "element", WHEN(struct element_fact, count)),
      ELEMENT(NUMBER, count, "of", .flags = NOT_ZERO), OPEN("distance", WHEN(struct element_fact, from)),
      ELEMENT(NUMBER, distance, "bytes", MUST), ELEMENT(WORD, from, "from", .words = from_words, MUST), CLOSE,
      ELEMENT(PART, place, NULL, .flags = BEHIND, .table = &place),
      ELEMENT(PART, writer, "last_written_by", .flags = BEHIND, .table = &writer));
TABLE(wrap, struct wrap_fact, WRAP(CHARS, what, "what", MUST), WRAP(INT, wrapped, "value", MUST),
      WRAP(INT, exact, "instead_of", MUST), WRAP(HEX, address, "address", MUST),
      WRAP(PART, place, NULL, .flags = BEHIND, .table = &place));
TABLE(cause, struct cause_fact, CERTAINTY(struct cause_fact, certainty, MUST), OPEN("pointer"),
      CAUSE(PART, argument, NULL, .table = &argument_name), CAUSE(HEX, base_from, "loaded_from", .flags = NOT_ZERO),
      CAUSE(PART, base, NULL, .flags = BEHIND, .table = &pointed), CLOSE, OPEN("sum", WHEN(struct cause_fact, term_count)),
      CAUSE(INT, index, "element", MUST), CAUSE(NUMBER, unit, "element_bytes", MUST), CAUSE(INT, constant, "constant", MUST),
      CAUSE(LIST, terms, "terms", MUST, .table = &term, COUNT(struct cause_fact, term_count)), CLOSE,
      CAUSE(PART, loaded, "loaded", .table = &element, WHEN(struct cause_fact, loaded.is_known)),
      CAUSE(PART, wrap, "wrap", .table = &wrap, WHEN(struct cause_fact, wrap.is_known)),
      CAUSE(LIST, said.list, "sentences", .flags = NOT_ZERO, .table = &note, COUNT(struct cause_fact, said.count)));

/* ---- the second launch ---- */

TABLE(write, struct rerun_write, WRITE(PART, buffer, NULL, .flags = BEHIND, .table = &pointed),
      WRITE(WORD, is_before, "side", .words = side_words, WHEN(struct rerun_write, buffer)),
      WRITE(NUMBER, distance, "distance", WHEN(struct rerun_write, buffer)), WRITE(TRUE, is_slack, "slack"),
      WRITE(HEX, address, "address", MUST), WRITE(NUMBER, bytes, "bytes", MUST),
      WRITE(BYTES, values, "values", .flags = NOT_ZERO, COUNT(struct rerun_write, value_bytes)));
TABLE(rerun, struct rerun_result,
      RERUN(LIST, writes, "written", .flags = NOT_ZERO, .table = &write, COUNT(struct rerun_result, write_count)),
      OPEN("rerun"), RERUN(WORD, outcome, "outcome", .words = rerun_outcome_words, MUST), RERUN(CHARS, reason, "reason"),
      RERUN(NUMBER, launches_tried, "launches", MUST), RERUN(NUMBER, written_bytes, "written_bytes", .flags = NOT_ZERO),
      RERUN(NUMBER, took_ms, "ms", MUST), CLOSE);

/* ---- the stream race, slack, NaN, and what nobody has written ---- */

TABLE(earlier_name, struct earlier_use, USE(TEXT, kernel, "symbol"), USE(TEXT, call, "call"));
TABLE(earlier, struct earlier_use, USE(PART, entry, NULL, .flags = BEHIND, .table = &shape),
      USE(NUMBER, time_ns, "ns", .flags = NOT_ZERO), USE(AGO, time_ns, "ago_ns", WHEN(struct earlier_use, time_ns)),
      USE(NUMBER, tid, "tid", MUST), USE(HEX, stream, "stream", MUST), USE(HEX, by_stream, "by_stream", MUST),
      FRAMES(struct earlier_use, frames, frame_count));
TABLE(used, struct used_fact, {.name = "certainty", .type = FIELD_FIXED, .words = derived_word, MUST},
      USED(CHARS, kernel, "kernel"), USED(PART, use, NULL, .flags = BEHIND, .table = &earlier_name),
      USED(CHARS, order, "reason", MUST), USED(PART, use, NULL, .flags = BEHIND, .table = &earlier));
#define POISON(kind, ...) FIELD(kind, struct poison_fact, __VA_ARGS__)
TABLE(poison, struct poison_fact, POISON(HEX, start, "start", MUST), POISON(NUMBER, bytes, "bytes", MUST),
      POISON(NUMBER, ns, "ns", MUST), POISON(AGO, ns, "ago_ns"), POISON(NUMBER, tid, "tid", MUST),
      POISON(HEX, stream, "stream", MUST), FRAMES(struct poison_fact, frames, frame_count));
TABLE(slack, struct slack_write, SLACK(NUMBER, found.changed, "changed", MUST), SLACK(NUMBER, found.span, "span", MUST),
      SLACK(BYTES, found.bytes, "found", .flags = REQUIRED | NOT_ZERO, COUNT(struct slack_write, found.byte_count)),
      SLACK(WORD, type, "type", .words = value_names, WHEN(struct slack_write, value_count)),
      SLACK(LIST, values, "values", .flags = NOT_ZERO, .table = &first, COUNT(struct slack_write, value_count)),
      SLACK(NUMBER, found.since_ns, "good_ns", MUST), SLACK(NUMBER, found.buffers, "buffers", MUST),
      SLACK(NUMBER, found.first_id, "first_buffer"),
      SLACK(PART, found.poison, "poisoned", .table = &poison, WHEN(struct slack_write, found.poison.bytes)),
      OPEN("launches", WHEN(struct slack_write, launch_total)), CERTAINTY(struct slack_write, certainty, MUST),
      SLACK(NUMBER, launch_total, "total", MUST),
      SLACK(LIST, launches, "list", .table = &given, MUST, COUNT(struct slack_write, launch_count)), CLOSE);
TABLE(input, struct nan_input, INPUT(INT, argument, "argument", .flags = OR_NONE), INPUT(NUMBER, at, "at", MUST),
      INPUT(NUMBER, buffer, "buffer", MUST), INPUT(NUMBER, offset, "offset", MUST), INPUT(TEXT, label, "label"),
      INPUT(WORD, type, "type", .words = value_names, MUST), INPUT(TRUE, is_unwritten, "never_written"),
      INPUT(NUMBER, fresh, "fresh", .flags = NOT_ZERO), INPUT(NUMBER, count, "count", MUST), INPUT(NUMBER, nans, "nan", MUST),
      INPUT(NUMBER, infinities, "inf", MUST), INPUT(NUMBER, zeros, "zeros", WHEN(struct nan_input, finite)),
      INPUT(REAL, min, "min", .flags = OR_NONE, WHEN(struct nan_input, finite)),
      INPUT(REAL, max, "max", .flags = OR_NONE, WHEN(struct nan_input, finite)),
      INPUT(REAL, mean, "mean", .flags = OR_NONE, WHEN(struct nan_input, finite)),
      INPUT(REAL, deviation, "std", .flags = OR_NONE, WHEN(struct nan_input, finite)));
TABLE(by, struct launched_fact, BY(TEXT, kernel, "kernel"), BY(TEXT, symbol, "symbol"),
      BY(TEXT, graph_kernels, "graph_kernels"), BY(TRIPLE, grid, "grid", WHEN(struct launched_fact, kernel)),
      BY(TRIPLE, block, "block", WHEN(struct launched_fact, kernel)), BY(NUMBER, launch, "launch", MUST),
      BY(HEX, stream, "stream", MUST), BY(NUMBER, tid, "tid", MUST), FRAMES(struct launched_fact, frames, frame_count));
TABLE(nan_of, struct nan_fact, NAN_OF(PART, by, NULL, .table = &by), NAN_OF(INT, argument, "argument", .flags = OR_NONE),
      NAN_OF(NUMBER, index, "index", MUST), NAN_OF(NUMBER, made, "made", MUST), NAN_OF(NUMBER, count, "count", MUST),
      NAN_OF(WORD, type, "type", .words = value_names, MUST), NAN_OF(TRUE, is_of_unwritten, "of_unwritten"),
      OPEN("beside", WHEN(struct nan_fact, other)), {.name = "certainty", .type = FIELD_FIXED, .words = candidate_word, MUST},
      NAN_OF(PART, other, NULL, .flags = BEHIND, .table = &earlier_name),
      NAN_OF(PART, other, NULL, .flags = BEHIND, .table = &earlier), CLOSE,
      NAN_OF(LIST, inputs, "inputs", .table = &input, .flags = REQUIRED | BEHIND, COUNT(struct nan_fact, input_count)));

/* ---- the process ---- */

TABLE(word, char *, {.type = FIELD_TEXT, .size = sizeof(char *), .flags = EVEN_EMPTY});
TABLE(variable, struct job_variable, FIELD(TEXT, struct job_variable, name, "name"),
      FIELD(TEXT, struct job_variable, value, "value"));
TABLE(now, struct finding_process, PROCESS(TEXT, time, "time"));
TABLE(known, struct finding_process, PROCESS(TEXT, host, "host"),
      PROCESS(LIST, command, "command", .flags = NOT_ZERO | BEHIND, .table = &word, COUNT(struct finding_process, word_count)),
      PROCESS(PAIRS, job, "job", .flags = NOT_ZERO, .table = &variable, COUNT(struct finding_process, job_count)));
static const struct field of_process[] = {ORIGIN(INT, pid, "pid", MUST), ORIGIN(INT, rank, "rank", .flags = OR_NONE),
                                          ORIGIN(PART, process, NULL, .flags = BEHIND, .table = &known)};
const struct json_table process_facts = TABLE_OF(struct finding_source, of_process);
TABLE(where, struct finding_source, ORIGIN(PART, process, NULL, .flags = BEHIND, .table = &now),
      GROUP(struct finding_source, process_facts, "process"));

/* ---- the whole ---- */

TABLE(source, struct source_line, FIELD(INT, struct source_line, number, "line", MUST),
      FIELD(CHARS, struct source_line, text, "text", .flags = REQUIRED | EVEN_EMPTY));
TABLE(guarded, struct guarded, GUARDED(NUMBER, allocations, "allocations", MUST), GUARDED(NUMBER, peak_bytes, "peak_bytes"),
      GUARDED(NUMBER, launches, "launches"), GUARDED(NUMBER, left, "left_to_driver"),
      GUARDED(NUMBER, left_bytes, "left_to_driver_bytes"), GUARDED(NUMBER, findings, "findings", MUST),
      GUARDED(NUMBER, known, "known", MUST));

TABLE(waiting, struct waiting_fact, WAITING(TEXT, call, "call"), WAITING(NUMBER, tid, "tid", MUST),
      WAITING(NUMBER, since_ns, "ns", MUST), WAITING(AGO, since_ns, "ago_ns"),
      WAITING(LIST, frames, "frames", .flags = NOT_ZERO, .table = &frame, COUNT(struct waiting_fact, frame_count)));
TABLE(stuck, struct stuck_fact, FIELD(PART, struct stuck_fact, standing, NULL, .flags = BEHIND, .table = &standing_facts),
      FIELD(HEX, struct stuck_fact, value, "polled_value", WHEN(struct stuck_fact, has_value)),
      FIELD(NUMBER, struct stuck_fact, waiting.total, "waiting_threads", .flags = NOT_ZERO),
      FIELD(LIST, struct stuck_fact, waiting.list, "waiting", .flags = NOT_ZERO, .table = &waiting,
            COUNT(struct stuck_fact, waiting.count)));
static const struct field of_finding[] = {
    {.name = "schema", .type = FIELD_FIXED, .most = JSON_SCHEMA, MUST},
    {.name = "cufence", .type = FIELD_FIXED, .words = version_word},
    ROW(TEXT, kind, "kind", .words = kind_words),
    ROW(CHARS, headline, "headline"),
    ROW(CHARS, name, "finding_name", .about = "equal in each run of the program, for known="),
    ROW(TEXT, known, "known", .words = known_word, .about = "known= names it: it was counted, and not reported"),
    ROW(PART, origin, NULL, .table = &where),
    OPEN("device", WHEN(struct finding, device.is_known)),
    ROW(INT, origin.device, "ordinal", .flags = OR_NONE),
    ROW(TEXT, origin.device_name, "name"),
    ROW(TEXT, device.architecture, "architecture"),
    ROW(CHARS, device.driver, "driver"),
    CLOSE,
    ROW(TEXT, called.call, "call"),
    ROW(TEXT, reason, "reason"),
    OPEN("called", WHEN(struct finding, called.call)),
    ROW(NUMBER, called.tid, "tid", MUST),
    FRAMES(struct finding, called.frames, called.count),
    CLOSE,
    ROW(PART, used, "used", .table = &used, WHEN(struct finding, used.use)),
    OPEN("exception", WHEN(struct finding, where.has_exception)),
    ROW(PART, where.stop.exception, NULL, .table = &exception),
    ROW(TRUE, where.has_no_buffer, "no_buffer"),
    CLOSE,
    ROW(PART, access, "access", .table = &access, WHEN(struct finding, access.is_known)),
    ROW(PART, address, "address", .table = &address, WHEN(struct finding, address.is_one)),
    ROW(PART, buffer, "buffer", .table = &buffer, WHEN(struct finding, buffer.buffer)),
    ROW(PART, rival, "rival", .table = &buffer, WHEN(struct finding, rival.buffer)),
    ROW(PART, slack, "slack", .flags = BEHIND, .table = &slack),
    OPEN("kernel", WHEN(struct finding, where.has_kernel)),
    ROW(PART, where.stop, NULL, .table = &named),
    CERTAINTY(struct finding, where.certainty, MUST),
    ROW(PART, where.stop, NULL, .table = &code),
    ROW(TRIPLE, where.stop.grid, "grid", WHEN(struct finding, where.stop.has_grid)),
    ROW(TRIPLE, where.stop.block, "block", WHEN(struct finding, where.stop.has_grid)),
    ROW(TRUE, where.is_grid_of_rerun, "grid_rerun", WHEN(struct finding, where.stop.has_grid)),
    ROW(TRIPLE, where.stop.cluster, "cluster", WHEN(struct finding, where.has_cluster)),
    CLOSE,
    ROW(LIST, where.source, "source", .flags = NOT_ZERO, .table = &source, COUNT(struct finding, where.source_count)),
    ROW(BOOL, where.has_exited, "warp_exited", WHEN(struct finding, where.is_known)),
    OPEN("thread", WHEN(struct finding, where.lane)),
    ROW(TRIPLE, where.stop.block_index, "block", MUST),
    ROW(PART, where.lane, NULL, .flags = BEHIND, .table = &lane),
    ROW(TRUE, where.is_warp_of_rerun, "rerun"),
    CLOSE,
    OPEN("counts", WHEN(struct finding, where.is_known)),
    ROW(NUMBER, where.threads, "threads", .flags = NOT_ZERO),
    ROW(NUMBER, where.warps, "warps", .flags = NOT_ZERO),
    ROW(NUMBER, where.sms, "sms", .flags = NOT_ZERO),
    CLOSE,
    ROW(PART, cause, "cause", .table = &cause, WHEN(struct finding, cause.certainty)),
    ROW(PART, launch, "launch", .table = &launch, WHEN(struct finding, launch.launch)),
    OPEN("arguments", WHEN(struct finding, arguments.certainty)),
    CERTAINTY(struct finding, arguments.certainty, MUST),
    ROW(LIST, arguments.list, "list", .flags = REQUIRED | BEHIND, .table = &value, COUNT(struct finding, arguments.count)),
    CLOSE,
    ROW(PART, rerun, NULL, .flags = BEHIND, .table = &rerun),
    OPEN("candidates", WHEN(struct finding, candidates.count)),
    ROW(TEXT, candidates.from, "from", .words = source_words, MUST),
    ROW(TRUE, candidates.is_const_excluded, "const_excluded"),
    ROW(TRUE, candidates.is_traced, "traced"),
    ROW(NUMBER, candidates.total, "total", MUST),
    ROW(LIST, candidates.list, "buffers", MUST, .table = &buffer, COUNT(struct finding, candidates.count)),
    CLOSE,
    ROW(LIST, where.also, "also", .flags = NOT_ZERO, .table = &also, COUNT(struct finding, where.also_count)),
    ROW(LIST, notes.list, "notes", .flags = NOT_ZERO, .table = &note, COUNT(struct finding, notes.count)),
    ROW(PART, stuck, "stuck", .flags = BEHIND, .table = &stuck),
    ROW(PART, nan, "nan", .flags = BEHIND, .table = &nan_of),
    ROW(CHARS, hint, "hint"),
    ROW(PART, previous, "previous", .table = &buffer, WHEN(struct finding, previous.buffer)),
    ROW(PART, next, "next", .table = &buffer, WHEN(struct finding, next.buffer)),
    ROW(PART, guarded, "guarded", .flags = BEHIND, .table = &guarded,
        .about = "of a line of kind guarded: what the process has guarded by its end"),
};
const struct json_table finding_facts = TABLE_OF(struct finding, of_finding);
