#include "cfi_reader.h"

#include <dwarf.h>
#include <string.h>

struct reader reader_at(const struct cfi_bytes *bytes, uint64_t address)
{
    uint64_t offset = address - bytes->address;
    if (address < bytes->address || offset >= bytes->size)
        return (struct reader){NULL, NULL, 0};
    return (struct reader){bytes->bytes + offset, bytes->bytes + bytes->size, address};
}

size_t reader_left(const struct reader *reader)
{
    return reader->at ? (size_t)(reader->end - reader->at) : 0;
}

uint64_t reader_break(struct reader *reader)
{
    reader->at = NULL;
    return 0;
}

void reader_skip(struct reader *reader, uint64_t size)
{
    if (!reader->at || size > reader_left(reader)) {
        reader_break(reader);
        return;
    }
    reader->at += size;
    reader->address += size;
}

struct reader reader_cut(struct reader *reader, uint64_t size)
{
    struct reader inner = *reader;
    reader_skip(reader, size);
    if (!reader->at)
        return (struct reader){NULL, NULL, 0};
    inner.end = reader->at;
    return inner;
}

uint64_t reader_unsigned(struct reader *reader, unsigned size)
{
    uint64_t value = 0;
    const uint8_t *at = reader->at;
    reader_skip(reader, size);
    if (!reader->at)
        return 0;
    memcpy(&value, at, size); /* little-endian, as the processor is */
    return value;
}

int64_t reader_signed(struct reader *reader, unsigned size)
{
    uint64_t value = reader_unsigned(reader, size), sign = 1ull << (8 * size - 1);
    return (int64_t)((value ^ sign) - sign);
}

static uint64_t read_leb(struct reader *reader, int is_signed)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = reader_unsigned(reader, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) && shift < 70);
    if (byte & 0x80)
        return reader_break(reader);
    if (is_signed && (byte & 0x40) && shift < 64)
        value |= UINT64_MAX << shift;
    return value;
}

uint64_t reader_uleb(struct reader *reader)
{
    return read_leb(reader, 0);
}

int64_t reader_sleb(struct reader *reader)
{
    return (int64_t)read_leb(reader, 1);
}

uint64_t reader_pointer(struct reader *reader, unsigned encoding, uint64_t data)
{
    enum { FORMAT = 0x0f, APPLICATION = 0x70 };
    uint64_t base = 0, value;
    switch (encoding & APPLICATION) {
    case DW_EH_PE_absptr:
        break;
    case DW_EH_PE_pcrel:
        base = reader->address;
        break;
    case DW_EH_PE_datarel:
        base = data;
        if (data)
            break;
        return reader_break(reader);
    default:
        return reader_break(reader);
    }
    switch (encoding & FORMAT) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
        value = reader_unsigned(reader, 8);
        break;
    case DW_EH_PE_udata2:
        value = reader_unsigned(reader, 2);
        break;
    case DW_EH_PE_udata4:
        value = reader_unsigned(reader, 4);
        break;
    case DW_EH_PE_sdata2:
        value = (uint64_t)reader_signed(reader, 2);
        break;
    case DW_EH_PE_sdata4:
        value = (uint64_t)reader_signed(reader, 4);
        break;
    case DW_EH_PE_uleb128:
        value = reader_uleb(reader);
        break;
    case DW_EH_PE_sleb128:
        value = (uint64_t)reader_sleb(reader);
        break;
    default:
        return reader_break(reader);
    }
    return base + value;
}
