#include "standing_report.h"

#include "base/text.h"
#include "parts.h"
#include "report_common.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

enum {
    REGISTERS = 256,
    REGISTERS_A_LINE = 8,
    MEMORY_BYTES = 128,
    BYTES_A_LINE = 16,
    WORDS = 16,
    WORDS_A_LINE = 4,
    EXCEPTIONS = 8
};

/* Sites grouped by exception and PC. */
struct exceptions {
    const struct evidence_site *first[EXCEPTIONS];
    size_t sms[EXCEPTIONS], count;
    uint32_t last[EXCEPTIONS]; /* the SM counted last; sites of one SM are adjacent */
};

static struct exceptions exceptions_of(const struct evidence *evidence)
{
    struct exceptions found = {.count = 0};
    for (size_t i = 0; evidence && i < evidence->site_count; i++) {
        const struct evidence_site *site = &evidence->sites[i];
        size_t k = 0;
        while (k < found.count &&
               (found.first[k]->error_pc != site->error_pc || found.first[k]->exception.number != site->exception.number))
            k++;
        if (k == EXCEPTIONS)
            continue;
        if (k == found.count)
            found.first[found.count++] = site;
        found.sms[k] += !found.sms[k] || found.last[k] != site->sm;
        found.last[k] = site->sm;
    }
    return found;
}

/* ---- text ---- */

static void exception_lines(struct report *report, const struct coredump *dump, const struct evidence *evidence)
{
    const struct exceptions found = exceptions_of(evidence);
    for (size_t i = 0; i < found.count; i++) {
        const struct evidence_site *site = found.first[i];
        report_begin(report, i ? "" : "exception", NULL);
        report_put(report, "%s", site->exception.name);
        if (site->kernel || site->symbol) {
            report_put(report, " in ");
            report_put_kernel(report, site->kernel ? site->kernel : site->symbol);
        }
        report_put(report, ", SM %" PRIu32, site->sm);
        if (found.sms[i] > 1)
            report_put(report, " and %zu more", found.sms[i] - 1);
        report_end(report, CERTAIN_NOT);
        report_begin(report, "", "at");
        report_put_code(report, &(struct report_code){site->file, site->line, site->instruction,
                                                      site->is_in_driver ? NULL : site->symbol, site->kernel_offset});
        if (!site->symbol || site->is_in_driver)
            report_put(report, "PC 0x%" PRIx64, site->error_pc);
        report_end(report, CERTAIN_NOT);
    }
    if (!found.count)
        report_line(report, "exception", NULL, CERTAIN_NOT,
                    coredump_next(dump, COREDUMP_SMS, 0) ? "none is in the remaining part of the dump"
                                                         : "unknown: no SM table was found");
}

static const char *dump_of(const struct standing_wishes *wishes)
{
    return wishes->remains ? "the remaining part of the dump" : "the dump";
}

static const char *at_least(const struct standing_wishes *wishes)
{
    return wishes->remains ? "at least " : "";
}

static void register_lines(struct report *report, const struct coredump *dump, const struct standing_place *place,
                           const struct standing_wishes *wishes)
{
    uint32_t registers[REGISTERS];
    size_t count = coredump_words(dump, place->lane, COREDUMP_REGISTERS, registers, REGISTERS);
    for (size_t i = 0; i < count; i += REGISTERS_A_LINE) {
        char name[32];
        snprintf(name, sizeof name, "R%zu", i);
        report_begin(report, "", name);
        for (size_t k = i; k < count && k < i + REGISTERS_A_LINE; k++)
            report_put(report, "%s%08" PRIx32, k == i ? "" : " ", registers[k]);
        report_end(report, CERTAIN_NOT);
    }
    if (!count)
        report_line(report, "", "", CERTAIN_NOT, "%s has no registers of it", dump_of(wishes));
}

static void place_lines(struct report *report, const struct coredump *dump, const struct standing_place *place,
                        const struct standing_wishes *wishes)
{
    char count[32];
    snprintf(count, sizeof count, "%zu", place->threads);
    report_begin(report, "", count);
    report_put_code(report,
                    &(struct report_code){place->file, place->line, place->instruction, place->symbol, place->kernel_offset});
    if (!place->symbol)
        report_put(report, "%sPC 0x%" PRIx64, place->file ? "   " : "", place->pc);
    if (place->exception.number)
        report_put(report, ", %s", place->exception.name);
    report_end(report, CERTAIN_NOT);
    report_begin(report, "", "");
    report_put(report, "%sblock ", place->threads == 1 ? "" : "the first: ");
    report_put_dim(report, place->block);
    report_put(report, " thread ");
    report_put_dim(report, place->thread);
    report_put(report, ", SM %" PRIu32 " warp %" PRIu32, place->sm, place->warp);
    if (place->warps > 1)
        report_put(report, "; %zu warps", place->warps);
    report_end(report, CERTAIN_NOT);
    if (wishes->has_registers)
        register_lines(report, dump, place, wishes);
}

/* Returns the last of a run of consecutive lanes whose accesses are equally spaced. */
static size_t run_end(const struct evidence_site *site, size_t first)
{
    const struct evidence_lane *lanes = site->lanes;
    size_t last = first;
    while (last + 1 < site->lane_count && lanes[last + 1].certainty == lanes[first].certainty &&
           lanes[last + 1].lane == lanes[last].lane + 1 &&
           (lanes[first].certainty == CERTAIN_NOT ||
            lanes[last + 1].address - lanes[last].address == lanes[first + 1].address - lanes[first].address))
        last++;
    return last;
}

static void lane_lines(struct report *report, const struct evidence_site *site)
{
    for (size_t i = 0, last; i < site->lane_count; i = last + 1) {
        const struct evidence_lane *lanes = site->lanes;
        last = run_end(site, i);
        report_begin(report, i ? "" : "lanes", NULL);
        report_put(report, "%" PRIu32, lanes[i].lane);
        if (last > i)
            report_put(report, " to %" PRIu32, lanes[last].lane);
        report_put(report, ", thread%s ", last > i ? "s" : "");
        report_put_dim(report, lanes[i].thread);
        if (last > i) {
            report_put(report, " to ");
            report_put_dim(report, lanes[last].thread);
        }
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

static void launch_lines(struct report *report, const struct standing_grid *grid, const struct standing_wishes *wishes,
                         const char *key)
{
    report_begin(report, key, NULL);
    report_put_kernel(report, grid->kernel ? grid->kernel : grid->symbol ? grid->symbol : "unknown kernel");
    report_put_grid(report, grid->grid, grid->block);
    if (grid->cluster[0] > 1 || grid->cluster[1] > 1 || grid->cluster[2] > 1) {
        report_put(report, " in clusters of ");
        report_put_dim(report, grid->cluster);
    }
    if (grid->threads || !wishes->remains)
        report_put(report, ", %s%zu threads left", at_least(wishes), grid->threads);
    report_end(report, CERTAIN_NOT);
    put_parameters(report, grid->parameters);
}

static void memory_lines(struct report *report, const struct coredump *dump, const struct standing_wishes *wishes)
{
    uint64_t address = wishes->memory;
    struct span bytes = standing_memory(dump, address, MEMORY_BYTES);
    if (!bytes.size)
        report_line(report, "memory", NULL, CERTAIN_NOT, "0x%" PRIx64 ": not in %s%s", address, dump_of(wishes),
                    wishes->remains ? "" : ", which has memory only if it was asked for");
    for (size_t i = 0; i < bytes.size; i += BYTES_A_LINE) {
        report_begin(report, i ? "" : "memory", NULL);
        report_put(report, "0x%" PRIx64 ":", address + i);
        for (size_t k = i; k < bytes.size && k < i + BYTES_A_LINE; k++)
            report_put(report, "%s%02x", k % 4 ? "" : " ", bytes.bytes[k]);
        report_end(report, CERTAIN_NOT);
    }
}

char *standing_text(const struct coredump *dump, const struct standing *standing, const struct standing_wishes *wishes)
{
    struct report report;
    size_t shown = standing->place_count < wishes->places ? standing->place_count : wishes->places;
    if (!report_open(&report, 0))
        return NULL;
    if (wishes->remains)
        exception_lines(&report, dump, wishes->remains);
    if (wishes->site)
        lane_lines(&report, wishes->site);
    report_begin(&report, "threads", NULL);
    if (standing->threads)
        report_put(&report, "%s%zu in %zu warp%s had not exited; by place:", at_least(wishes), standing->threads,
                   standing->warps, plural(standing->warps));
    else
        report_put(&report, "none is in %s%s", dump_of(wishes), wishes->remains ? "" : ": all warps had exited");
    report_end(&report, CERTAIN_NOT);
    for (size_t i = 0; i < shown; i++)
        place_lines(&report, dump, &standing->places[i], wishes);
    if (shown < standing->place_count)
        report_line(&report, "", "", CERTAIN_NOT, "and %zu more place%s (--all-threads)", standing->place_count - shown,
                    plural(standing->place_count - shown));
    for (size_t i = 0; i < standing->grid_count; i++)
        launch_lines(&report, &standing->grids[i], wishes, i ? "" : "launches");
    if (wishes->has_memory)
        memory_lines(&report, dump, wishes);
    return report_close(&report);
}

/* ---- JSON ---- */

static json_t *hex(uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "0x%" PRIx64, value);
    return json_string(text);
}

static void set_text(json_t *object, const char *key, const char *text)
{
    if (text && *text)
        json_object_set_new(object, key, text_to_json(text));
}

static json_t *dim_of(const uint32_t dim[3])
{
    return json_pack("[iii]", (int)dim[0], (int)dim[1], (int)dim[2]);
}

static void set_code(json_t *object, const struct standing_place *place)
{
    set_text(object, "kernel", place->kernel ? place->kernel : place->symbol);
    set_text(object, "symbol", place->symbol);
    if (place->symbol)
        json_object_set_new(object, "offset", json_integer((json_int_t)place->kernel_offset));
    set_text(object, "file", place->file);
    if (place->file && place->line)
        json_object_set_new(object, "line", json_integer(place->line));
    set_text(object, "instruction", place->instruction);
}

static json_t *place_of(const struct coredump *dump, const struct standing_place *place, int has_registers)
{
    json_t *object = json_pack("{sIsIsisi}", "threads", (json_int_t)place->threads, "warps", (json_int_t)place->warps, "sm",
                               (int)place->sm, "warp", (int)place->warp);
    json_object_set_new(object, "block", dim_of(place->block));
    json_object_set_new(object, "thread", dim_of(place->thread));
    json_object_set_new(object, "launch", hex(place->grid_id));
    json_object_set_new(object, "pc", hex(place->pc));
    set_code(object, place);
    if (place->exception.number)
        json_object_set_new(object, "exception",
                            json_pack("{siss}", "number", (int)place->exception.number, "name", place->exception.name));
    if (has_registers) {
        uint32_t registers[REGISTERS];
        size_t count = coredump_words(dump, place->lane, COREDUMP_REGISTERS, registers, REGISTERS);
        json_t *array = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(array, hex(registers[i]));
        json_object_set_new(object, "registers", array);
    }
    return object;
}

/* Returns two hex digits per byte, in memory order. */
static json_t *bytes_of(struct span bytes)
{
    static const char digits[] = "0123456789abcdef";
    char *text = malloc(bytes.size * 2 + 1);
    if (!text)
        return NULL;
    for (size_t i = 0; i < bytes.size; i++) {
        text[2 * i] = digits[bytes.bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes.bytes[i] & 15];
    }
    json_t *string = json_stringn(text, bytes.size * 2);
    free(text);
    return string;
}

static json_t *launch_of(const struct standing_grid *grid)
{
    json_t *object = json_pack("{sI}", "threads", (json_int_t)grid->threads);
    json_object_set_new(object, "id", hex(grid->id));
    set_text(object, "kernel", grid->kernel ? grid->kernel : grid->symbol);
    set_text(object, "symbol", grid->symbol);
    json_object_set_new(object, "grid", dim_of(grid->grid));
    json_object_set_new(object, "block", dim_of(grid->block));
    if (grid->cluster[0])
        json_object_set_new(object, "cluster", dim_of(grid->cluster));
    if (grid->parameters.size)
        json_object_set_new(object, "parameters", bytes_of(grid->parameters));
    return object;
}

static json_t *lanes_of(const struct evidence_site *site)
{
    json_t *lanes = json_array();
    for (size_t i = 0; i < site->lane_count; i++) {
        json_t *lane = json_pack("{si}", "lane", (int)site->lanes[i].lane);
        json_object_set_new(lane, "thread", dim_of(site->lanes[i].thread));
        if (site->lanes[i].certainty != CERTAIN_NOT)
            json_object_set_new(lane, "address", hex(site->lanes[i].address));
        json_array_append_new(lanes, lane);
    }
    return lanes;
}

static json_t *exceptions_json(const struct evidence *evidence)
{
    const struct exceptions found = exceptions_of(evidence);
    json_t *array = json_array();
    for (size_t i = 0; i < found.count; i++) {
        const struct evidence_site *site = found.first[i];
        json_t *object = json_pack("{s{siss}sIsi}", "exception", "number", (int)site->exception.number, "name",
                                   site->exception.name, "sms", (json_int_t)found.sms[i], "sm", (int)site->sm);
        json_object_set_new(object, "pc", hex(site->error_pc));
        set_code(object, &(struct standing_place){.kernel = site->kernel,
                                                  .symbol = site->symbol,
                                                  .kernel_offset = site->kernel_offset,
                                                  .file = site->file,
                                                  .line = site->line,
                                                  .instruction = site->instruction});
        json_array_append_new(array, object);
    }
    return array;
}

char *standing_json(const struct coredump *dump, const struct standing *standing, const struct standing_wishes *wishes)
{
    json_t *object = json_pack("{sIsI}", "threads", (json_int_t)standing->threads, "warps", (json_int_t)standing->warps);
    json_t *places = json_array(), *launches = json_array();
    for (size_t i = 0; i < standing->place_count && i < wishes->places; i++)
        json_array_append_new(places, place_of(dump, &standing->places[i], wishes->has_registers));
    for (size_t i = 0; i < standing->grid_count; i++)
        json_array_append_new(launches, launch_of(&standing->grids[i]));
    json_object_set_new(object, "places", places);
    json_object_set_new(object, "launches", launches);
    struct span memory = wishes->has_memory ? standing_memory(dump, wishes->memory, MEMORY_BYTES) : (struct span){NULL, 0};
    if (memory.size) {
        json_t *block = json_object();
        json_object_set_new(block, "address", hex(wishes->memory));
        json_object_set_new(block, "bytes", bytes_of(memory));
        json_object_set_new(object, "memory", block);
    }
    if (wishes->site && wishes->site->lane_count)
        json_object_set_new(object, "lanes", lanes_of(wishes->site));
    if (wishes->remains)
        json_object_set_new(object, "exceptions", exceptions_json(wishes->remains));
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}
