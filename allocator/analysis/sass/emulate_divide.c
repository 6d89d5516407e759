#include "emulate_state.h"

#include <string.h>

/* [90:64] of the three instructions, the same from sm_80 to sm_120. */
#define MODIFIERS ((UINT64_C(1) << 27) - 1)
#define I2F_RP UINT64_C(0x209400)
#define I2F_U32_RP UINT64_C(0x209000)
#define MUFU_RCP UINT64_C(0x1000)
#define F2I_U32_TRUNC UINT64_C(0x21f000)

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The least float that is not less; the next one has the next bits. */
static uint32_t rounded_up(uint32_t value)
{
    float nearest = (float)value;
    return bits_of(nearest) + ((double)nearest < (double)value);
}

struct cell machine_divided(struct sass_instruction instruction, struct cell operand)
{
    uint32_t value = operand.value; /* 0 if unknown, which none of them takes */
    uint64_t modifiers = instruction.high & MODIFIERS;
    float number;
    memcpy(&number, &value, sizeof number);
    switch (sass_opcode(instruction)) {
    case 0x106:
        return (modifiers == I2F_RP && (int32_t)value > 0) || (modifiers == I2F_U32_RP && value) ? known(rounded_up(value))
                                                                                                 : unknown;
    case 0x108:
        return modifiers == MUFU_RCP && number >= 1 && number <= 4294967296.0f ? known(bits_of(1 / number)) : unknown;
    case 0x105:
        return modifiers == F2I_U32_TRUNC && operand.is_known && number >= 0 && number < 4294967296.0f ? known((uint32_t)number)
                                                                                                       : unknown;
    default:
        return unknown;
    }
}
