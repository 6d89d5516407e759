/*
 * Call frame information in a library, and the stack of a program, may contain anything. The input: the offset of the frame's
 * PC in the code, 16 stack words, then .eh_frame_hdr followed by .eh_frame. Read as each processor's in turn.
 */
#include "fuzz.h"

#include "stacks/cfi.h"

enum { CODE = 0x1000, TABLES = 0x10000, SP = 0x7000, STACK_BYTES = 128, STEPS = 4 };

static void step_through(const struct cfi_abi *abi, const uint8_t *data, size_t size)
{
    const struct cfi_bytes stack = {SP, data + 1, STACK_BYTES};
    const struct cfi_bytes tables = {TABLES, data + 1 + STACK_BYTES, size - 1 - STACK_BYTES};
    const struct cfi_module module = {.abi = abi, .header = tables, .segments = {tables}, .segment_count = 1};
    const uint64_t wanted = CFI_BIT(abi->sp) | CFI_BIT(abi->pc);
    struct cfi_frame frame = {.known = wanted | CFI_BIT(abi->fp) | (abi->preserved & -abi->preserved)};
    frame.registers[abi->sp] = SP;
    frame.registers[abi->fp] = SP + STACK_BYTES / 2;
    frame.registers[abi->pc] = CODE + data[0];
    for (int i = 0; i < STEPS; i++) {
        struct cfi_frame before = frame;
        struct cfi_rule rule = cfi_rule_at(&module, frame.registers[abi->pc] - !frame.is_interrupted);
        if (cfi_step(&module, &stack, &frame) != CFI_STEPPED) {
            if (memcmp(&before, &frame, sizeof frame) != 0)
                abort(); /* the contract: the frame is unchanged */
            return;
        }
        if (rule.base == CFI_FROM_SP &&
            frame.registers[abi->sp] != before.registers[abi->sp] + (uint64_t)(int64_t)rule.cfa_words * sizeof(uint64_t))
            abort(); /* the rule says another frame than the step */
        if ((frame.known & wanted) != wanted || !frame.registers[abi->pc] || (frame.registers[abi->pc] & ~abi->address_bits))
            abort();
        frame.registers[abi->pc] = CODE + data[0]; /* the same function again, whatever the return address is */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 + STACK_BYTES)
        return 0;
    step_through(&cfi_x86_64, data, size);
    step_through(&cfi_aarch64, data, size);
    return 0;
}
