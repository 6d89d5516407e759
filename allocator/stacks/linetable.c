#include "python_layout.h"

#include "base/reader.h"

/* The first line comes straight from the interpreter's memory and may be anything. */
static int as_line(long long line)
{
    return line < 0 || line > INT32_MAX ? 0 : (int)line;
}

static int line_of_ranges(const unsigned char *table, size_t size, int first_line, int position)
{
    enum { NO_LINE = -128 };
    long long line = first_line, end = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        int delta = (int8_t)table[i + 1];
        end += table[i];
        if (delta != NO_LINE)
            line += delta;
        if (position < end)
            return delta == NO_LINE ? 0 : as_line(line);
    }
    return 0;
}

/* Six bits per byte, lowest first; bit 6 means that more follow. */
static unsigned read_varint(struct reader *reader)
{
    unsigned value = 0, byte, shift = 0;
    do {
        byte = reader_u8(reader);
        if (shift < 32)
            value |= (byte & 63) << shift;
        shift += 6;
    } while (byte & 64);
    return value;
}

/* The sign is in the lowest bit. */
static int read_signed(struct reader *reader)
{
    unsigned value = read_varint(reader);
    return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

static int line_of_locations(const unsigned char *table, size_t size, int first_line, int position)
{
    enum { ONE_LINE_0 = 10, ONE_LINE_2 = 12, NO_COLUMNS = 13, LONG = 14, NO_LOCATION = 15, UNIT_BYTES = 2 };
    struct reader reader = reader_of((struct span){table, size}, 0);
    long long line = first_line, end = 0;
    while (reader_left(&reader) > 0) {
        unsigned first = reader_u8(&reader), kind = first >> 3 & 15;
        end += (long long)UNIT_BYTES * ((first & 7) + 1);
        if (kind >= ONE_LINE_0 && kind <= ONE_LINE_2)
            line += kind - ONE_LINE_0;
        else if (kind == NO_COLUMNS || kind == LONG)
            line += read_signed(&reader);
        if (position < end)
            return kind == NO_LOCATION ? 0 : as_line(line);
        while (reader_left(&reader) > 0 && !(*reader.at & 0x80)) /* columns: the next entry's first byte has the top bit set */
            reader_skip(&reader, 1);
    }
    return 0;
}

int linetable_line(enum linetable_format format, const unsigned char *table, size_t size, int first_line, int position)
{
    if (position < 0)
        return first_line;
    return (format == LINETABLE_RANGES ? line_of_ranges : line_of_locations)(table, size, first_line, position);
}
