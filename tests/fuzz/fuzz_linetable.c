/*
 * A code object's line table, first line and position, as read from the memory of an interpreter that may be exiting. The
 * input: the format, the position (2 bytes), the first line (4 bytes), and the table.
 */
#include "fuzz.h"

#include "stacks/python_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int16_t position;
    int32_t first_line;
    if (size < 7)
        return 0;
    memcpy(&position, data + 1, sizeof position);
    memcpy(&first_line, data + 3, sizeof first_line);
    enum linetable_format format = data[0] % 2 ? LINETABLE_RANGES : LINETABLE_LOCATIONS;
    int line = linetable_line(format, data + 7, size - 7, first_line, position);
    require(position < 0 ? line == first_line
                         : line >= 0); /* the contract: the first line before the first instruction, and 0 if unknown */
    return 0;
}
