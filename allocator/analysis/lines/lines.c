/*
 * libdw does not work here: until relocated, all line sequences of a cubin start at address 0, and only the relocation of a
 * sequence's DW_LNE_set_address tells which function it belongs to. libdw's sorted table loses that. ptxas also writes its own
 * extended opcode, 0x90, which says at which call code was inlined; libdw skips it.
 */
#include "cubin.h"

#include <dwarf.h>
#include <limits.h>
#include <string.h>

/* NVIDIA's extended opcode: the following code was inlined at the call in row n of the sequence; 0 ends that. Number and
 * operands were derived from line tables of ptxas 13.0. 0x91 (function name) is not needed. */
#define LNE_INLINED_CALL 0x90

#define INLINE_DEPTH 16

/* The header of a unit. */
struct unit {
    struct reader program;
    struct reader tables; /* the tables of directories and files */
    unsigned version, address_size, offset_size;
    uint8_t minimum_length, line_range, opcode_base;
    int8_t line_base;
    uint8_t operands[256]; /* of the standard opcodes */
};

struct state {
    uint64_t address;
    uint64_t file;
    uint64_t line;
    int is_ours; /* the sequence belongs to the PC's section */
    int has_row;
    uint64_t context; /* the row of the call that the code was inlined at, 0 if none */
    uint64_t rows;    /* number of rows in this sequence so far */
    uint64_t row_address, row_file, row_line, row_context;
};

/* Reads the unit header at *table and moves *table behind the unit. Returns 0 if there is no readable unit. */
static int open_unit(struct reader *table, struct unit *unit)
{
    memset(unit, 0, sizeof(*unit));
    unit->offset_size = 4;
    uint64_t length = reader_u32(table);
    if (length == 0xffffffffu) {
        unit->offset_size = 8;
        length = reader_u64(table);
    }
    struct reader body = reader_cut(table, length);
    if (!body.at || length == 0)
        return 0;
    unit->version = reader_u16(&body);
    unit->address_size = 8;
    if (unit->version >= 5) {
        unit->address_size = reader_u8(&body);
        reader_u8(&body); /* segment selector size */
    }
    struct reader header = reader_cut(&body, reader_unsigned(&body, unit->offset_size));
    unit->minimum_length = reader_u8(&header);
    if (unit->version >= 4)
        reader_u8(&header); /* operations per instruction: GPUs don't have VLIW bundles */
    reader_u8(&header);     /* default_is_stmt */
    unit->line_base = (int8_t)reader_u8(&header);
    uint8_t line_range = reader_u8(&header);
    unit->opcode_base = reader_u8(&header);
    for (unsigned i = 1; i < unit->opcode_base; i++)
        unit->operands[i] = reader_u8(&header);
    if (!header.at || unit->version < 2 || unit->version > 5)
        return 1; /* line_range 0: an empty unit */
    unit->line_range = line_range;
    unit->tables = header;
    unit->program = body;
    return 1;
}

/* Versions 2 to 4: directories, then files; an empty string ends each list. File 0 means none, directory 0 is the unit's
 * own. */
static int find_file_v2(const struct unit *unit, uint64_t file, struct cubin_line *place)
{
    struct reader directories = unit->tables, files = directories;
    for (const char *text = reader_string(&files); text && *text; text = reader_string(&files))
        continue;
    for (uint64_t number = 1;; number++) {
        const char *name = reader_string(&files);
        uint64_t directory = reader_uleb(&files);
        reader_uleb(&files);
        reader_uleb(&files);
        if (!files.at || !*name)
            return 0;
        if (number != file)
            continue;
        place->file = name;
        place->directory = NULL;
        for (uint64_t i = 1; i <= directory; i++) {
            place->directory = reader_string(&directories);
            if (!place->directory || !*place->directory) {
                place->directory = NULL;
                break;
            }
        }
        return 1;
    }
}

/* Reads one attribute of a version 5 entry: a string into *text or a number into *number. */
static void take_form(const struct line_query *query, const struct unit *unit, struct reader *tables, uint64_t form,
                      const char **text, uint64_t *number)
{
    switch (form) {
    case DW_FORM_string:
        *text = reader_string(tables);
        return;
    case DW_FORM_line_strp:
        *text = span_string(query->line_str, reader_unsigned(tables, unit->offset_size));
        return;
    case DW_FORM_strp:
        *text = span_string(query->str, reader_unsigned(tables, unit->offset_size));
        return;
    case DW_FORM_udata:
        *number = reader_uleb(tables);
        return;
    case DW_FORM_data1:
    case DW_FORM_data2:
    case DW_FORM_data4:
    case DW_FORM_data8:
        *number = reader_unsigned(tables, form == DW_FORM_data1   ? 1
                                          : form == DW_FORM_data2 ? 2
                                          : form == DW_FORM_data4 ? 4
                                                                  : 8);
        return;
    case DW_FORM_data16:
        reader_skip(tables, 16);
        return;
    case DW_FORM_block:
        reader_skip(tables, reader_uleb(tables));
        return;
    default:
        reader_break(tables);
    }
}

/* Reads a version 5 table (directories or files) and keeps entry `wanted`. */
static void take_table_v5(const struct line_query *query, const struct unit *unit, struct reader *tables, uint64_t wanted,
                          const char **name, uint64_t *directory)
{
    uint64_t format[16][2] = {{0}};
    unsigned formats = reader_u8(tables);
    if (formats > sizeof(format) / sizeof(format[0]))
        reader_break(tables);
    for (unsigned i = 0; i < formats && tables->at; i++) {
        format[i][0] = reader_uleb(tables);
        format[i][1] = reader_uleb(tables);
    }
    uint64_t count = reader_uleb(tables);
    if (formats == 0)
        return;
    for (uint64_t entry = 0; entry < count && tables->at; entry++) {
        uint64_t before = tables->position;
        for (unsigned i = 0; i < formats && tables->at; i++) {
            const char *text = NULL;
            uint64_t number = 0;
            take_form(query, unit, tables, format[i][1], &text, &number);
            if (entry != wanted)
                continue;
            if (format[i][0] == DW_LNCT_path)
                *name = text;
            else if (format[i][0] == DW_LNCT_directory_index)
                *directory = number;
        }
        if (tables->position == before)
            reader_break(tables); /* entries without bytes: the loop over their count would be unbounded */
    }
}

static int find_file_v5(const struct line_query *query, const struct unit *unit, uint64_t file, struct cubin_line *place)
{
    struct reader tables = unit->tables;
    uint64_t directory = 0, ignored = 0;
    take_table_v5(query, unit, &tables, UINT64_MAX, &place->directory, &ignored);
    take_table_v5(query, unit, &tables, file, &place->file, &directory);
    if (!place->file)
        return 0;
    tables = unit->tables;
    take_table_v5(query, unit, &tables, directory, &place->directory, &ignored);
    return 1;
}

/* Ends a row at the current address. Returns 1 if the row covers the PC. */
static int covers(const struct line_query *query, const struct state *state)
{
    return state->is_ours && state->has_row && state->row_address <= query->offset && query->offset < state->address;
}

static const struct state first = {.file = 1, .line = 1}; /* of a sequence */

static void add_row(struct state *state)
{
    state->has_row = 1;
    state->row_address = state->address;
    state->row_file = state->file;
    state->row_line = state->line;
    state->row_context = state->context;
    state->rows++;
}

/* DW_LNE_set_address: sets the section, and the address in it. */
static void set_address(const struct line_query *query, struct state *state, uint64_t operand_at, uint64_t value)
{
    uint64_t base = 0;
    int found = query->relocation ? query->relocation(query->user, operand_at, &base) : -1;
    if (found < 0 && value >= query->start && query->start != 0) {
        state->is_ours = 1; /* already relocated: an absolute address */
        state->address = value - query->start;
        return;
    }
    state->is_ours = found > 0;
    state->address = base;
}

enum event { EVENT_NONE, EVENT_ROW, EVENT_END };

static enum event extended(const struct line_query *query, const struct unit *unit, struct reader *program, struct state *state)
{
    struct reader body = reader_cut(program, reader_uleb(program));
    uint8_t opcode = reader_u8(&body);
    uint64_t operand_at = body.position;
    if (!body.at)
        reader_break(program);
    else if (opcode == DW_LNE_end_sequence)
        return EVENT_END;
    else if (opcode == DW_LNE_set_address && reader_left(&body) == unit->address_size && unit->address_size <= 8)
        set_address(query, state, operand_at, reader_unsigned(&body, unit->address_size));
    else if (opcode == LNE_INLINED_CALL)
        state->context = reader_uleb(&body); /* the function's name follows, which is not needed */
    return EVENT_NONE;
}

/* Executes one opcode. Breaks the program's reader if it is invalid. */
static enum event step(const struct line_query *query, struct unit *unit, struct state *state)
{
    struct reader *program = &unit->program;
    uint8_t opcode = reader_u8(program);
    if (opcode >= unit->opcode_base) {
        unsigned special = (unsigned)opcode - unit->opcode_base;
        state->address += (uint64_t)(special / unit->line_range) * unit->minimum_length;
        state->line += (uint64_t)((int64_t)unit->line_base + (int64_t)(special % unit->line_range));
        return EVENT_ROW;
    }
    switch (opcode) {
    case 0:
        return extended(query, unit, program, state);
    case DW_LNS_copy:
        return EVENT_ROW;
    case DW_LNS_advance_pc:
        state->address += reader_uleb(program) * unit->minimum_length;
        return EVENT_NONE;
    case DW_LNS_advance_line:
        state->line += (uint64_t)reader_sleb(program);
        return EVENT_NONE;
    case DW_LNS_set_file:
        state->file = reader_uleb(program);
        return EVENT_NONE;
    case DW_LNS_const_add_pc:
        state->address += (uint64_t)((255u - unit->opcode_base) / unit->line_range) * unit->minimum_length;
        return EVENT_NONE;
    case DW_LNS_fixed_advance_pc:
        state->address += reader_u16(program);
        return EVENT_NONE;
    default: /* the header has the number of its operands */
        for (unsigned i = 0; i < unit->operands[opcode]; i++)
            reader_uleb(program);
        return EVENT_NONE;
    }
}

/* Finds row `number`, from 1, of the sequence whose program starts at `start`. */
static int find_row(const struct line_query *query, const struct unit *unit, struct reader start, uint64_t number,
                    struct state *state)
{
    struct unit copy = *unit;
    copy.program = start;
    *state = first;
    while (reader_left(&copy.program) > 0) {
        enum event event = step(query, &copy, state);
        if (!copy.program.at || event == EVENT_END)
            return 0;
        if (event != EVENT_ROW)
            continue;
        add_row(state);
        if (state->rows == number)
            return 1;
    }
    return 0;
}

static int set_place(const struct line_query *query, const struct unit *unit, const struct state *state,
                     struct cubin_line *place)
{
    *place = (struct cubin_line){NULL, NULL, 0};
    if (state->row_line == 0 || state->row_line > INT_MAX)
        return 0; /* compiler-generated code */
    place->line = (int)state->row_line;
    return unit->version >= 5 ? find_file_v5(query, unit, state->row_file, place) : find_file_v2(unit, state->row_file, place);
}

/* Returns 1 for code in the headers of the CUDA toolkit (atomicAdd) and of Warp, whose every access is in array.h, and in the
 * libraries of Triton, Gluon and numba, where the user's bug is not. */
static int is_library(const struct cubin_line *place)
{
    static const char *const folders[] = {"/targets/",       "/triton/language", "/triton/tools",
                                          "/gluon/language", "/warp/native",     "/numba/cuda"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        if (strstr(place->file, folders[i]) || (place->directory && strstr(place->directory, folders[i])))
            return 1;
    return 0;
}

/* Returns the place of a row. Code of a library counts as the place of the call that it was inlined at. */
static int find_place(const struct line_query *query, const struct unit *unit, struct reader start, struct state row,
                      struct cubin_line *place)
{
    if (!set_place(query, unit, &row, place))
        return 0;
    for (int depth = 0; depth < INLINE_DEPTH && row.row_context != 0 && is_library(place); depth++) {
        struct cubin_line caller;
        if (!find_row(query, unit, start, row.row_context, &row) || !set_place(query, unit, &row, &caller))
            break;
        *place = caller;
    }
    return 1;
}

/* Runs the line program until a row covers the PC. */
static int run_unit(const struct line_query *query, struct unit *unit, struct cubin_line *place)
{
    struct state state = first;
    struct reader start = unit->program;
    while (reader_left(&unit->program) > 0) {
        enum event event = step(query, unit, &state);
        if (!unit->program.at)
            return 0;
        if (event == EVENT_NONE)
            continue;
        if (covers(query, &state))
            return find_place(query, unit, start, state, place);
        if (event == EVENT_ROW) {
            add_row(&state);
        } else {
            state = first;
            start = unit->program;
        }
    }
    return 0;
}

int lines_find(const struct line_query *query, struct cubin_line *place)
{
    struct reader table = reader_of(query->line, 0);
    struct unit unit;
    while (reader_left(&table) > 0 && open_unit(&table, &unit))
        if (unit.line_range != 0 && run_unit(query, &unit, place))
            return 1;
    return 0;
}
