/*
 * Machine code from a core dump: decodes each instruction, and emulates all of it. The input: architecture, the access to look
 * for, the lane's PC, its block and thread (1 byte each), 8 bytes of parameters, and the code; the words of the code also serve
 * as the lane's registers.
 */
#include "fuzz.h"

#include "analysis/sass/emulate.h"

enum { HEAD = 13, REGISTERS = 64, START = 0x1000, PARAMETERS_AT = 0x160, STEPS = 5000 };

/* Checks that the results for one instruction are consistent. Returns 1 if it is an access that can be decoded. */
static int decode(struct sass_instruction instruction, unsigned sm, struct sass_access *access)
{
    uint32_t registers[REGISTERS], uniforms[REGISTERS];
    uint64_t address;
    enum access_kind kind;
    const char *name = sass_class(instruction, &kind);
    struct sass_bulk bulk;
    require(!name || *name);
    require(!sass_bulk(instruction, &bulk) || (name && memchr(bulk.text, 0, sizeof bulk.text) && bulk.dimensions <= 5));
    (void)(sass_writes_register(instruction, 4, 2) + sass_writes_uniform(instruction) + sass_writes_predicate(instruction) +
           sass_may_write_uniform_predicate(instruction, 0) + sass_is_known(instruction) + sass_branches(instruction));
    memset(access, 0xa5, sizeof *access);
    if (!sass_decode(instruction, sm, access))
        return 0;
    require(memchr(access->text, 0, sizeof access->text) != NULL && access->predicate <= 7 && access->base <= SASS_RZ);
    for (unsigned i = 0; i < REGISTERS; i++)
        registers[i] = uniforms[i] = i * 0x01010101u;
    (void)sass_address(access, registers, REGISTERS, uniforms, REGISTERS, &address);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned architectures[] = {70, 75, 80, 86, 89, 90, 100, 120};
    struct sass_access access, asked;
    uint32_t registers[REGISTERS] = {0};
    if (size < HEAD + SASS_INSTRUCTION_BYTES)
        return 0;
    unsigned sm = architectures[data[0] % 8];
    const uint8_t *code = data + HEAD;
    size_t count = (size - HEAD) / SASS_INSTRUCTION_BYTES, wanted = data[1] % count;
    int is_access = 0;
    for (size_t i = 0; i < count; i++) {
        int is_decoded = decode(sass_load(code + i * SASS_INSTRUCTION_BYTES), sm, &access);
        if (i == wanted && is_decoded) {
            asked = access;
            is_access = 1;
        }
    }
    if (!is_access)
        return 0;
    size_t words = count * SASS_INSTRUCTION_BYTES < sizeof registers ? count * SASS_INSTRUCTION_BYTES : sizeof registers;
    memcpy(registers, code, words);
    const struct emulate_launch launch = {.code = {code, count * SASS_INSTRUCTION_BYTES},
                                          .start = START,
                                          .sm = sm,
                                          .parameters = {data + 5, 8},
                                          .parameters_at = PARAMETERS_AT,
                                          .grid = {4, 2, 1},
                                          .block = {64, 2, 1}};
    struct emulate_lane lane = {.block_index = {data[3] % 4, data[3] % 2, 0}, .thread = {data[4] % 64, 0, 0}};
    lane.lane = data[4] % 32;
    if (data[2] != 0) {
        lane.pc = START + (uint64_t)(data[2] % (count + 1)) * SASS_INSTRUCTION_BYTES;
        lane.registers = registers;
        lane.register_count = REGISTERS;
    }
    uint64_t budget = STEPS, address = 0;
    (void)emulate(&launch, &lane, START + wanted * SASS_INSTRUCTION_BYTES, &asked, &budget, &address);
    require(budget <= STEPS); /* it is only counted down */
    return 0;
}
