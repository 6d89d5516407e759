#include "lines.h"

#include <dwarf.h>
#include <limits.h>
#include <string.h>

/* NVIDIA's extended opcode: the code that follows was inlined at the call in row n of the sequence, 0 ends that. Its number
 * and operands were read from ptxas 13.0's line tables; 0x91 (function name) carries nothing that is needed. */
#define LNE_INLINED_CALL 0x90

#define INLINE_DEPTH 16

/* A reader that stops at the end: after it, `bad` is set and all reads give 0. */
struct cursor {
    struct span span;
    uint64_t at;
    int bad;
};

/* One unit's header. */
struct unit {
    struct cursor program;
    struct span header; /* directory and file tables */
    unsigned version, address_size, offset_size;
    uint8_t minimum_length, line_range, opcode_base;
    int8_t line_base;
    uint8_t operands[256]; /* of the standard opcodes */
};

struct state {
    uint64_t address;
    uint64_t file;
    uint64_t line;
    int is_ours; /* the sequence belongs to the section of the PC */
    int has_row;
    uint64_t context; /* the row of the call that the code was inlined at, 0 for none */
    uint64_t rows;    /* of this sequence so far */
    uint64_t row_address, row_file, row_line, row_context;
};

static uint64_t take(struct cursor *cursor, unsigned size)
{
    struct span part = span_part(cursor->span, cursor->at, size);
    if (!part.bytes) {
        cursor->bad = 1;
        return 0;
    }
    cursor->at += size;
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)part.bytes[i] << 8 * i;
    return value;
}

static uint64_t take_leb(struct cursor *cursor, int is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    for (;;) {
        uint64_t byte = take(cursor, 1);
        if (cursor->bad)
            return 0;
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) {
            if (is_signed && shift < 64 && (byte & 0x40))
                value |= ~(uint64_t)0 << shift;
            return value;
        }
    }
}

static const char *take_string(struct cursor *cursor)
{
    const char *text = span_string(cursor->span, cursor->at);
    if (!text) {
        cursor->bad = 1;
        return NULL;
    }
    cursor->at += strlen(text) + 1;
    return text;
}

/* Reads the header of the unit at *at and moves *at behind the unit. 0: no (readable) unit there. */
static int open_unit(const struct line_query *query, uint64_t *at, struct unit *unit)
{
    struct cursor cursor = {query->line, *at, 0};
    memset(unit, 0, sizeof(*unit));
    unit->offset_size = 4;
    uint64_t length = take(&cursor, 4);
    if (length == 0xffffffffu) {
        unit->offset_size = 8;
        length = take(&cursor, 8);
    }
    if (cursor.bad || length == 0 || length > query->line.size - cursor.at)
        return 0;
    uint64_t end = cursor.at + length;
    *at = end;
    cursor.span.size = (size_t)end;
    unit->version = (unsigned)take(&cursor, 2);
    unit->address_size = 8;
    if (unit->version >= 5) {
        unit->address_size = (unsigned)take(&cursor, 1);
        take(&cursor, 1); /* segment selector size */
    }
    uint64_t header_length = take(&cursor, unit->offset_size);
    if (cursor.bad || header_length > end - cursor.at)
        return 1; /* line_range 0: an empty unit */
    uint64_t program = cursor.at + header_length;
    unit->minimum_length = (uint8_t)take(&cursor, 1);
    if (unit->version >= 4)
        take(&cursor, 1); /* operations per instruction: GPUs have no VLIW bundles */
    take(&cursor, 1);     /* default_is_stmt */
    unit->line_base = (int8_t)take(&cursor, 1);
    uint8_t line_range = (uint8_t)take(&cursor, 1);
    unit->opcode_base = (uint8_t)take(&cursor, 1);
    for (unsigned i = 1; i < unit->opcode_base; i++)
        unit->operands[i] = (uint8_t)take(&cursor, 1);
    if (cursor.bad || cursor.at > program || unit->version < 2 || unit->version > 5)
        return 1;
    unit->line_range = line_range;
    unit->header = span_part(query->line, cursor.at, program - cursor.at);
    unit->program = (struct cursor){{query->line.bytes, (size_t)end}, program, 0};
    return 1;
}

/* Versions 2 to 4: directories, then files, each list ended by an empty string. File 0 is none, directory 0 the unit's own. */
static int find_file_v2(const struct unit *unit, uint64_t file, struct line_place *place)
{
    struct cursor directories = {unit->header, 0, 0}, cursor = directories;
    for (const char *text = take_string(&cursor); text && *text; text = take_string(&cursor))
        continue;
    for (uint64_t number = 1;; number++) {
        const char *name = take_string(&cursor);
        uint64_t directory = take_leb(&cursor, 0);
        take_leb(&cursor, 0);
        take_leb(&cursor, 0);
        if (cursor.bad || !*name)
            return 0;
        if (number != file)
            continue;
        place->file = name;
        place->directory = NULL;
        for (uint64_t i = 1; i <= directory; i++) {
            place->directory = take_string(&directories);
            if (directories.bad || !*place->directory) {
                place->directory = NULL;
                break;
            }
        }
        return 1;
    }
}

/* One attribute of a version 5 entry: a string in *text or a number in *number. */
static void take_form(const struct line_query *query, const struct unit *unit, struct cursor *cursor, uint64_t form,
                      const char **text, uint64_t *number)
{
    switch (form) {
    case DW_FORM_string:
        *text = take_string(cursor);
        return;
    case DW_FORM_line_strp:
        *text = span_string(query->line_str, take(cursor, unit->offset_size));
        return;
    case DW_FORM_strp:
        *text = span_string(query->str, take(cursor, unit->offset_size));
        return;
    case DW_FORM_udata:
        *number = take_leb(cursor, 0);
        return;
    case DW_FORM_data1:
        *number = take(cursor, 1);
        return;
    case DW_FORM_data2:
        *number = take(cursor, 2);
        return;
    case DW_FORM_data4:
        *number = take(cursor, 4);
        return;
    case DW_FORM_data8:
        *number = take(cursor, 8);
        return;
    case DW_FORM_data16:
        take(cursor, 8);
        take(cursor, 8);
        return;
    case DW_FORM_block: {
        uint64_t size = take_leb(cursor, 0);
        if (size > cursor->span.size - cursor->at)
            cursor->bad = 1;
        else
            cursor->at += size;
        return;
    }
    default:
        cursor->bad = 1;
    }
}

/* Reads one table of version 5 (directories or files) and keeps entry `wanted`. */
static void take_table_v5(const struct line_query *query, const struct unit *unit, struct cursor *cursor, uint64_t wanted,
                          const char **name, uint64_t *directory)
{
    uint64_t format[16][2] = {{0}};
    unsigned formats = (unsigned)take(cursor, 1);
    if (formats > sizeof(format) / sizeof(format[0]))
        cursor->bad = 1;
    for (unsigned i = 0; i < formats && !cursor->bad; i++) {
        format[i][0] = take_leb(cursor, 0);
        format[i][1] = take_leb(cursor, 0);
    }
    uint64_t count = take_leb(cursor, 0);
    if (formats == 0)
        return;
    for (uint64_t entry = 0; entry < count && !cursor->bad; entry++) {
        uint64_t before = cursor->at;
        for (unsigned i = 0; i < formats && !cursor->bad; i++) {
            const char *text = NULL;
            uint64_t number = 0;
            take_form(query, unit, cursor, format[i][1], &text, &number);
            if (entry != wanted)
                continue;
            if (format[i][0] == DW_LNCT_path)
                *name = text;
            else if (format[i][0] == DW_LNCT_directory_index)
                *directory = number;
        }
        if (cursor->at == before)
            cursor->bad = 1; /* entries of no bytes: their count would be a loop without end */
    }
}

static int find_file_v5(const struct line_query *query, const struct unit *unit, uint64_t file, struct line_place *place)
{
    struct cursor cursor = {unit->header, 0, 0};
    uint64_t directory = 0, ignored = 0;
    take_table_v5(query, unit, &cursor, UINT64_MAX, &place->directory, &ignored);
    take_table_v5(query, unit, &cursor, file, &place->file, &directory);
    if (!place->file)
        return 0;
    cursor = (struct cursor){unit->header, 0, 0};
    take_table_v5(query, unit, &cursor, directory, &place->directory, &ignored);
    return 1;
}

/* The row that ends at the present address; 1 if it covers the PC. */
static int covers(const struct line_query *query, const struct state *state)
{
    return state->is_ours && state->has_row && state->row_address <= query->offset && query->offset < state->address;
}

static void start_sequence(struct state *state)
{
    *state = (struct state){.file = 1, .line = 1};
}

static void add_row(struct state *state)
{
    state->has_row = 1;
    state->row_address = state->address;
    state->row_file = state->file;
    state->row_line = state->line;
    state->row_context = state->context;
    state->rows++;
}

/* DW_LNE_set_address: which section, and where in it. */
static void set_address(const struct line_query *query, struct state *state, uint64_t operand_at, uint64_t value)
{
    uint64_t base = 0;
    int found = query->relocation ? query->relocation(query->user, operand_at, &base) : -1;
    if (found < 0 && value >= query->start && query->start != 0) {
        state->is_ours = 1; /* relocated in place: an absolute address */
        state->address = value - query->start;
        return;
    }
    state->is_ours = found > 0;
    state->address = base;
}

static void extended(const struct line_query *query, const struct unit *unit, struct cursor *program, struct state *state,
                     int *is_end)
{
    uint64_t size = take_leb(program, 0);
    uint64_t operand = program->at + 1;
    if (program->bad || size == 0 || size > program->span.size - program->at) {
        program->bad = 1;
        return;
    }
    uint64_t next = program->at + size;
    uint64_t opcode = take(program, 1);
    if (opcode == DW_LNE_end_sequence)
        *is_end = 1;
    else if (opcode == DW_LNE_set_address && size == 1 + unit->address_size && unit->address_size <= 8)
        set_address(query, state, operand, take(program, unit->address_size));
    else if (opcode == LNE_INLINED_CALL)
        state->context = take_leb(program, 0); /* the function's name follows */
    program->at = next;
}

enum event { EVENT_NONE, EVENT_ROW, EVENT_END };

/* Runs one opcode. The program's `bad` is set when it makes no sense. */
static enum event step(const struct line_query *query, struct unit *unit, struct state *state)
{
    struct cursor *program = &unit->program;
    uint8_t opcode = (uint8_t)take(program, 1);
    int is_end = 0;
    if (opcode >= unit->opcode_base) {
        unsigned special = (unsigned)opcode - unit->opcode_base;
        state->address += (uint64_t)(special / unit->line_range) * unit->minimum_length;
        state->line += (uint64_t)((int64_t)unit->line_base + (int64_t)(special % unit->line_range));
        return EVENT_ROW;
    }
    switch (opcode) {
    case 0:
        extended(query, unit, program, state, &is_end);
        return is_end ? EVENT_END : EVENT_NONE;
    case DW_LNS_copy:
        return EVENT_ROW;
    case DW_LNS_advance_pc:
        state->address += take_leb(program, 0) * unit->minimum_length;
        return EVENT_NONE;
    case DW_LNS_advance_line:
        state->line += take_leb(program, 1);
        return EVENT_NONE;
    case DW_LNS_set_file:
        state->file = take_leb(program, 0);
        return EVENT_NONE;
    case DW_LNS_const_add_pc:
        state->address += (uint64_t)((255u - unit->opcode_base) / unit->line_range) * unit->minimum_length;
        return EVENT_NONE;
    case DW_LNS_fixed_advance_pc:
        state->address += take(program, 2);
        return EVENT_NONE;
    default: /* the header says how many operands it has */
        for (unsigned i = 0; i < unit->operands[opcode]; i++)
            take_leb(program, 0);
        return EVENT_NONE;
    }
}

/* Row `number`, from 1, of the sequence whose program starts at `start`. */
static int find_row(const struct line_query *query, const struct unit *unit, uint64_t start, uint64_t number,
                    struct state *state)
{
    struct unit copy = *unit;
    copy.program = (struct cursor){unit->program.span, start, 0};
    start_sequence(state);
    while (copy.program.at < copy.program.span.size) {
        enum event event = step(query, &copy, state);
        if (copy.program.bad || event == EVENT_END)
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
                     struct line_place *place)
{
    *place = (struct line_place){NULL, NULL, 0};
    if (state->row_line == 0 || state->row_line > INT_MAX)
        return 0; /* code that the compiler made up */
    place->line = (int)state->row_line;
    return unit->version >= 5 ? find_file_v5(query, unit, state->row_file, place) : find_file_v2(unit, state->row_file, place);
}

/* Code of the toolkit's own headers (atomicAdd) and of Triton's library, where nobody looks for a bug. */
static int is_library(const struct line_place *place)
{
    static const char *const folders[] = {"/targets/", "/triton/language"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        if (strstr(place->file, folders[i]) || (place->directory && strstr(place->directory, folders[i])))
            return 1;
    return 0;
}

/* The place of a row, or of the call that it was inlined at while that is a library's own code. */
static int find_place(const struct line_query *query, const struct unit *unit, uint64_t start, struct state row,
                      struct line_place *place)
{
    if (!set_place(query, unit, &row, place))
        return 0;
    for (int depth = 0; depth < INLINE_DEPTH && row.row_context != 0 && is_library(place); depth++) {
        struct line_place caller;
        if (!find_row(query, unit, start, row.row_context, &row) || !set_place(query, unit, &row, &caller))
            break;
        *place = caller;
    }
    return 1;
}

/* Runs the line program until a row covers the PC. */
static int run_unit(const struct line_query *query, struct unit *unit, struct line_place *place)
{
    struct state state;
    uint64_t start = unit->program.at;
    start_sequence(&state);
    while (unit->program.at < unit->program.span.size) {
        enum event event = step(query, unit, &state);
        if (unit->program.bad)
            return 0;
        if (event == EVENT_NONE)
            continue;
        if (covers(query, &state))
            return find_place(query, unit, start, state, place);
        if (event == EVENT_ROW) {
            add_row(&state);
        } else {
            start_sequence(&state);
            start = unit->program.at;
        }
    }
    return 0;
}

int lines_find(const struct line_query *query, struct line_place *place)
{
    uint64_t at = 0;
    struct unit unit;
    *place = (struct line_place){NULL, NULL, 0};
    while (at < query->line.size && open_unit(query, &at, &unit))
        if (unit.line_range != 0 && run_unit(query, &unit, place))
            return 1;
    *place = (struct line_place){NULL, NULL, 0};
    return 0;
}
