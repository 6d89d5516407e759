#include "cubin.h"
#include "elf_file.h"

#include <string.h>

/* As nvcc -lineinfo writes it: version 2, opcode base 10. No special opcodes are used, so line base and range don't matter. */
enum {
    DW_VERSION = 2,
    DW_LNS_copy = 1,
    DW_LNS_advance_pc = 2,
    DW_LNS_advance_line = 3,
    DW_LNE_end_sequence = 1,
    DW_LNE_set_address = 2,
    OPCODE_BASE = 10
};

static void append_byte(struct buffer *out, unsigned byte)
{
    unsigned char value = (unsigned char)byte;
    buffer_append(out, &value, 1);
}

static void append_uleb(struct buffer *out, uint64_t value)
{
    do {
        unsigned byte = value & 0x7f;
        value >>= 7;
        append_byte(out, byte | (value != 0 ? 0x80u : 0));
    } while (value != 0);
}

static void append_sleb(struct buffer *out, int64_t value)
{
    for (int is_more = 1; is_more;) {
        unsigned byte = (unsigned)(value & 0x7f);
        value >>= 7;
        is_more = !((value == 0 && (byte & 0x40) == 0) || (value == -1 && (byte & 0x40) != 0));
        append_byte(out, byte | (is_more ? 0x80u : 0));
    }
}

static void append_row(struct buffer *out, uint64_t advance, int64_t lines)
{
    if (advance != 0) {
        append_byte(out, DW_LNS_advance_pc);
        append_uleb(out, advance);
    }
    if (lines != 0) {
        append_byte(out, DW_LNS_advance_line);
        append_sleb(out, lines);
    }
    append_byte(out, DW_LNS_copy);
}

static void append_program(struct buffer *out, const struct CUfunc_st *function)
{
    int64_t line = function->kernel.line;
    struct code code = cubin_code(function);
    append_byte(out, 0);
    append_uleb(out, 1 + sizeof function->entry);
    append_byte(out, DW_LNE_set_address);
    buffer_append(out, &function->entry, sizeof function->entry);
    /* Rows: the start of the function, one line above; the access; and the rest, one line below. */
    append_row(out, 0, line > 1 ? line - 2 : 0);
    append_row(out, code.fault, line > 1 ? 1 : 0);
    append_row(out, 16, 1);
    append_byte(out, DW_LNS_advance_pc);
    append_uleb(out, code.size - code.fault - 16);
    append_byte(out, 0);
    append_uleb(out, 1);
    append_byte(out, DW_LNE_end_sequence);
}

void lines_append(struct buffer *out, const struct CUfunc_st *function)
{
    static const unsigned char lengths[OPCODE_BASE - 1] = {0, 1, 1, 1, 1, 0, 0, 0, 1};
    const char *file = function->kernel.file;
    const char *slash = strrchr(file, '/');

    struct buffer header = {0};
    append_byte(&header, 1);   /* minimum instruction length */
    append_byte(&header, 1);   /* default is_stmt */
    append_byte(&header, 251); /* line base, -5 */
    append_byte(&header, 14);  /* line range */
    append_byte(&header, OPCODE_BASE);
    buffer_append(&header, lengths, sizeof lengths);
    if (slash != NULL) { /* "/a.cu" is in the folder "/" */
        buffer_append(&header, file, slash == file ? 1 : (size_t)(slash - file));
        append_byte(&header, 0);
    }
    append_byte(&header, 0); /* end of folders */
    buffer_append(&header, slash == NULL ? file : slash + 1, strlen(slash == NULL ? file : slash + 1) + 1);
    append_uleb(&header, slash == NULL ? 0 : 1);
    append_uleb(&header, 0); /* modification time */
    append_uleb(&header, 0); /* file size */
    append_byte(&header, 0); /* end of files */

    struct buffer program = {0};
    append_program(&program, function);
    const uint16_t version = DW_VERSION;
    const uint32_t header_length = (uint32_t)header.size;
    const uint32_t unit_length = (uint32_t)(sizeof version + sizeof header_length + header.size + program.size);
    buffer_append(out, &unit_length, sizeof unit_length);
    buffer_append(out, &version, sizeof version);
    buffer_append(out, &header_length, sizeof header_length);
    buffer_append(out, header.bytes, header.size);
    buffer_append(out, program.bytes, program.size);
    out->is_failed |= header.is_failed || program.is_failed;
    buffer_free(&header);
    buffer_free(&program);
}
