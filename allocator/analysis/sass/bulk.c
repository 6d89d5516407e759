#include "sass_rows.h"

#include <stdio.h>

/* Of ptxas 13.0 for sm_90, 100 and 120, against nvdisasm 13.5: the same for all three. */
int sass_bulk(struct sass_instruction instruction, struct sass_bulk *bulk)
{
    static const struct {
        uint16_t opcode; /* [8:0] */
        uint8_t kind, first_coordinate;
        const char *name;
    } rows[] = {{0x1b4, ACCESS_READ, 2, "UTMALDG"}, /* behind the addresses in shared memory of the box and of the barrier */
                {0x1b5, ACCESS_WRITE, 1, "UTMASTG"},
                {0x1b6, ACCESS_ATOMIC, 1, "UTMAREDG"},
                {0x1ba, ACCESS_READ, 0, "UBLKCP.S.G"},
                {0x1bb, ACCESS_ATOMIC, 0, "UBLKRED.G.S"}};
    /* By [84:82]. The four rows of a gather or scatter lie in as many coordinates behind the first one. */
    static const char *const modes[2][8] = {{"", ".IM2COL", ".SCATTER4", "", "", "", "", ""},
                                            {"", ".IM2COL", ".W128", ".W", ".GATHER4", "", "", ""}};
    const unsigned first = (unsigned)sass_bits(instruction, 32, 8), second = (unsigned)sass_bits(instruction, 24, 8);
    size_t i = 0;
    while (i < sizeof rows / sizeof rows[0] && rows[i].opcode != sass_bits(instruction, 0, 9))
        i++;
    if (i == sizeof rows / sizeof rows[0])
        return 0;
    int is_from_shared = (int)sass_bits(instruction, 74, 1); /* bit 73: to shared memory */
    *bulk = (struct sass_bulk){.kind = (enum access_kind)rows[i].kind, .at = second};
    if (rows[i].first_coordinate) {
        bulk->dimensions = 1 + (unsigned)sass_bits(instruction, 79, 3);
        bulk->coordinates = first + rows[i].first_coordinate;
        snprintf(bulk->text, sizeof bulk->text, "%s.%uD%s [UR%u], [UR%u]", rows[i].name, bulk->dimensions,
                 modes[rows[i].kind == ACCESS_READ][sass_bits(instruction, 82, 3)], first, second);
        return bulk->dimensions <= 5;
    }
    if (is_from_shared && sass_bits(instruction, 73, 1)) /* to the shared memory of another block */
        return 0;
    const char *name = rows[i].name;
    bulk->size = (unsigned)sass_bits(instruction, 64, 8);
    if (rows[i].kind == ACCESS_ATOMIC || is_from_shared)
        bulk->at = first;
    if (rows[i].kind == ACCESS_READ && is_from_shared) {
        bulk->kind = ACCESS_WRITE;
        name = "UBLKCP.G.S";
    }
    snprintf(bulk->text, sizeof bulk->text, "%s [UR%u], [UR%u], UR%u", name, first, second, bulk->size);
    return 1;
}
