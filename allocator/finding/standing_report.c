#include "report.h"

#include "parts.h"
#include "report_common.h"

#include <inttypes.h>

enum { WORDS = 16, WORDS_A_LINE = 4 };

/* ---- text ---- */

void standing_add_wait(const struct standing_place *place, char *text, size_t size)
{
    const struct standing_wait *wait = &place->wait;
    static const char *const words[] = {"not known to wait", "at a barrier", "waiting for other lanes of the warp",
                                        "in a loop until "};
    part_append(text, size, "%s", words[wait->kind]);
    if (wait->absent)
        part_append(text, size, "; %zu other thread%s ha%s not come", wait->absent, plural(wait->absent),
                    wait->absent == 1 ? "s" : "ve");
    if (wait->address)
        part_append(text, size, "the %u bytes at 0x%" PRIx64 " change", wait->at->access.bytes, wait->address);
    else if (wait->kind == WAIT_POLL)
        part_append(text, size, "a value in %smemory changes", wait->at->has_access ? "" : "shared ");
    if (wait->is_timed)
        part_append(text, size, ", or a time is up");
}

static void place_lines(struct report *report, const struct standing_place *place)
{
    char wait[160] = "";
    const struct location *at = place->wait.at ? place->wait.at : place->at;
    char count[32];
    snprintf(count, sizeof count, "%zu", place->threads);
    report_begin(report, "", count);
    report_put_code(report, &(struct report_code){at->file, at->line, at->text, at->symbol, at->kernel_offset});
    if (!at->symbol)
        report_put(report, "%sPC 0x%" PRIx64, at->file ? "   " : "", place->pc);
    if (place->exception.number)
        report_put(report, ", %s", place->exception.name);
    report_end(report, CERTAIN_NOT);
    standing_add_wait(place, wait, sizeof wait);
    if (place->wait.kind)
        report_line(report, "", "", CERTAIN_DERIVED, "%s", wait);
    report_begin(report, "", "");
    report_put(report, "%sblock %s thread %s, ", place->threads == 1 ? "" : "the first: ", dim_of(place->block).text,
               dim_of(place->thread).text);
    if (place->gpu >= 0)
        report_put(report, "GPU %d ", place->gpu);
    report_put(report, "SM %" PRIu32 " warp %" PRIu32, place->sm, place->warp);
    if (place->warps > 1)
        report_put(report, "; %zu warps", place->warps);
    report_end(report, CERTAIN_NOT);
}

/* Returns the last of a run of consecutive lanes whose accesses are equally spaced. */
static size_t run_end(const struct evidence_stop *stop, size_t first)
{
    const struct evidence_lane *lanes = stop->lanes;
    size_t last = first;
    while (last + 1 < stop->lane_count && lanes[last + 1].certainty == lanes[first].certainty &&
           lanes[last + 1].lane == lanes[last].lane + 1 &&
           (lanes[first].certainty == CERTAIN_NOT ||
            lanes[last + 1].address - lanes[last].address == lanes[first + 1].address - lanes[first].address))
        last++;
    return last;
}

static void lane_lines(struct report *report, const struct evidence_stop *stop)
{
    for (size_t i = 0, last; i < stop->lane_count; i = last + 1) {
        const struct evidence_lane *lanes = stop->lanes;
        last = run_end(stop, i);
        report_begin(report, i ? "" : "lanes", NULL);
        report_put(report, "%" PRIu32, lanes[i].lane);
        if (last > i)
            report_put(report, " to %" PRIu32, lanes[last].lane);
        report_put(report, ", thread%s %s", last > i ? "s" : "", dim_of(lanes[i].thread).text);
        if (last > i)
            report_put(report, " to %s", dim_of(lanes[last].thread).text);
        if (lanes[i].certainty == CERTAIN_NOT)
            report_put(report, ": not known");
        else
            report_put(report, ": 0x%" PRIx64, lanes[i].address);
        if (last > i && lanes[i].certainty != CERTAIN_NOT)
            report_put(report, ", then every %" PRId64 " bytes", (int64_t)(lanes[i + 1].address - lanes[i].address));
        report_end(report, lanes[i].certainty);
    }
}

static void put_parameters(struct report *report, struct span parameters)
{
    size_t words = parameters.size / sizeof(uint64_t), shown = words < WORDS ? words : WORDS;
    for (size_t i = 0; i < shown; i += WORDS_A_LINE) {
        report_begin(report, "", i ? "" : "parameters");
        for (size_t k = i; k < shown && k < i + WORDS_A_LINE; k++)
            report_put(report, "%s0x%" PRIx64, k == i ? "" : " ", load_u64(parameters.bytes + k * sizeof(uint64_t)));
        report_end(report, CERTAIN_NOT);
    }
    if (words > shown || parameters.size % sizeof(uint64_t))
        report_line(report, "", shown ? "" : "parameters", CERTAIN_NOT, "%zu bytes in all", parameters.size);
}

/* Puts which block of the grid has no thread left, or none yet. */
static void absent_line(struct report *report, const struct standing_grid *grid)
{
    const uint32_t *size = grid->row.grid;
    uint64_t all = (uint64_t)size[0] * size[1] * size[2], first = grid->absent, x = all > 1 ? size[0] : UINT64_MAX;
    uint32_t block[3] = {(uint32_t)(first % x), (uint32_t)(first / x % size[1]), (uint32_t)(first / x / size[1])};
    if (first < grid->blocks)
        report_line(report, "", "blocks", CERTAIN_DERIVED, "%" PRIu64 " are there; %s has ended", grid->blocks,
                    dim_of(block).text);
    else if (grid->blocks && grid->blocks < all)
        report_line(report, "", "blocks", CERTAIN_DERIVED,
                    "%" PRIu64 " of %" PRIu64 " are there; from %s on, they have not begun, or have ended", grid->blocks, all,
                    dim_of(block).text);
}

static void launch_lines(struct report *report, const struct standing_grid *grid, const char *key, int is_stuck)
{
    report_begin(report, key, NULL);
    report_put_kernel(report, grid->at->kernel ? grid->at->kernel : grid->at->symbol ? grid->at->symbol : "unknown kernel");
    if (grid->has_grid)
        report_put(report, "%s", grid_of(grid->row.grid, grid->row.block).text);
    else
        report_put(report, " in blocks of %s", dim_of(grid->row.block).text);
    if (grid->row.cluster[0] > 1 || grid->row.cluster[1] > 1 || grid->row.cluster[2] > 1)
        report_put(report, " in clusters of %s", dim_of(grid->row.cluster).text);
    report_put(report, ", %zu thread%s left", grid->threads, plural(grid->threads));
    report_end(report, CERTAIN_NOT);
    if (is_stuck)
        absent_line(report, grid);
    put_parameters(report, grid->parameters);
}

void standing_lines(struct report *report, const struct standing *standing, size_t places)
{
    size_t shown = standing->place_count < places ? standing->place_count : places;
    report_begin(report, "threads", NULL);
    if (standing->threads)
        report_put(report, "%zu in %zu warp%s had not exited; by place:", standing->threads, standing->warps,
                   plural(standing->warps));
    else
        report_put(report, "none is in the dump: all warps had exited");
    report_end(report, CERTAIN_NOT);
    for (size_t i = 0; i < shown; i++)
        place_lines(report, &standing->places[i]);
    if (shown < standing->place_count)
        report_line(report, "", "", CERTAIN_NOT, "and %zu more place%s%s", standing->place_count - shown,
                    plural(standing->place_count - shown), report->pid ? "" : " (--all-threads)");
    for (size_t i = 0; i < standing->grid_count; i++)
        launch_lines(report, &standing->grids[i], i ? "" : "launches", standing->is_stuck);
}

char *standing_text(const struct standing *standing, const struct evidence_stop *stop, size_t places)
{
    struct report report;
    if (!report_open(&report, 0))
        return NULL;
    if (stop)
        lane_lines(&report, stop);
    standing_lines(&report, standing, places);
    return report_close(&report);
}

/* ---- JSON ---- */

#define PLACE(kind, ...) FIELD(kind, struct standing_place, __VA_ARGS__)
#define GRID(kind, ...) FIELD(kind, struct standing_grid, __VA_ARGS__)
#define LANE(kind, ...) FIELD(kind, struct evidence_lane, __VA_ARGS__)
#define SITE(kind, ...) FIELD(kind, struct evidence_stop, __VA_ARGS__)
#define SHOWN(kind, ...) FIELD(kind, struct shown, __VA_ARGS__)
#define NAMES(of) FIELD(TEXT, of, kernel, "kernel"), FIELD(TEXT, of, symbol, "symbol")
#define CODE(of, instruction)                                                                                                  \
    NAMES(of), FIELD(NUMBER, of, kernel_offset, "offset", WHEN(of, symbol)), FIELD(TEXT, of, file, "file"),                    \
        FIELD(INT, of, line, "line", .flags = NOT_ZERO, WHEN(of, file)), FIELD(TEXT, of, instruction, "instruction")

struct shown {
    struct standing standing;
    const struct evidence_stop *stop;
};

TABLE(exception, struct exception, FIELD(NUMBER, struct exception, number, "number"),
      FIELD(TEXT, struct exception, name, "name"));
TABLE(names, struct location, NAMES(struct location));
TABLE(code, struct location, CODE(struct location, text));
static const char *const wait_words[] = {"", "barrier", "warp", "value", NULL};
#define WAIT(kind, ...) FIELD(kind, struct standing_wait, __VA_ARGS__)
TABLE(wait_code, struct location, FIELD(TEXT, struct location, file, "file"),
      FIELD(INT, struct location, line, "line", .flags = NOT_ZERO, WHEN(struct location, file)),
      FIELD(NUMBER, struct location, kernel_offset, "offset"), FIELD(TEXT, struct location, text, "instruction"),
      FIELD(NUMBER, struct location, access.bytes, "bytes", .flags = NOT_ZERO));
TABLE(wait_table, struct standing_wait, WAIT(WORD, kind, "for", .words = wait_words),
      WAIT(PART, at, NULL, .flags = BEHIND, .table = &wait_code), WAIT(HEX, address, "address", .flags = NOT_ZERO),
      WAIT(NUMBER, absent, "absent", .flags = NOT_ZERO), WAIT(TRUE, is_timed, "timed"));
TABLE(place_table, struct standing_place, PLACE(NUMBER, threads, "threads"), PLACE(NUMBER, warps, "warps"),
      PLACE(NUMBER, sm, "sm"), PLACE(NUMBER, warp, "warp"), PLACE(TRIPLE, block, "block"), PLACE(TRIPLE, thread, "thread"),
      PLACE(HEX, grid_id, "launch"), PLACE(HEX, pc, "pc"), PLACE(PART, at, NULL, .flags = BEHIND, .table = &code),
      PLACE(PART, exception, "exception", .table = &exception, WHEN(struct standing_place, exception.number)),
      PLACE(PART, wait, "waits", .table = &wait_table, WHEN(struct standing_place, wait.kind)));
TABLE(grid_table, struct standing_grid, GRID(NUMBER, threads, "threads"), GRID(NUMBER, blocks, "blocks"),
      GRID(HEX, row.id, "id"), GRID(PART, at, NULL, .flags = BEHIND, .table = &names),
      GRID(TRIPLE, row.grid, "grid", WHEN(struct standing_grid, has_grid)), GRID(TRIPLE, row.block, "block"),
      GRID(TRIPLE, row.cluster, "cluster", WHEN(struct standing_grid, row.cluster[0])),
      GRID(BYTES, parameters.bytes, "parameters", .flags = BEHIND | NOT_ZERO, COUNT(struct standing_grid, parameters.size)));
TABLE(lane, struct evidence_lane, LANE(NUMBER, lane, "lane"), LANE(TRIPLE, thread, "thread"),
      LANE(HEX, address, "address", WHEN(struct evidence_lane, certainty)));
TABLE(lanes, struct evidence_stop,
      SITE(LIST, lanes, "lanes", .flags = BEHIND | NOT_ZERO, .table = &lane, COUNT(struct evidence_stop, lane_count)));
#define STANDING(kind, ...) FIELD(kind, struct standing, __VA_ARGS__)
static const struct field of_standing[] = {
    STANDING(NUMBER, threads, "threads"), STANDING(NUMBER, warps, "warps"),
    STANDING(LIST, places, "places", .flags = BEHIND, .table = &place_table, COUNT(struct standing, place_count)),
    STANDING(LIST, grids, "launches", .flags = BEHIND, .table = &grid_table, COUNT(struct standing, grid_count))};
const struct json_table standing_facts = TABLE_OF(struct standing, of_standing);
TABLE(shown_table, struct shown, SHOWN(PART, standing, NULL, .table = &standing_facts),
      SHOWN(PART, stop, NULL, .flags = BEHIND, .table = &lanes));

json_t *standing_json(const struct standing *standing, const struct evidence_stop *stop, size_t places)
{
    struct shown shown = {*standing, stop};
    if (shown.standing.place_count > places)
        shown.standing.place_count = places;
    return json_table_write(&shown_table, &shown);
}
