/*
 * Call frame information in a library, and the stack of a program, may contain anything. The input: the offset of the frame's
 * PC in the code, 16 stack words, then .eh_frame_hdr followed by .eh_frame.
 */
#include "stacks/cfi.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CODE = 0x1000, TABLES = 0x10000, SP = 0x7000, STACK_BYTES = 128, STEPS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 + STACK_BYTES)
        return 0;
    const struct cfi_bytes stack = {SP, data + 1, STACK_BYTES};
    const struct cfi_bytes tables = {TABLES, data + 1 + STACK_BYTES, size - 1 - STACK_BYTES};
    const struct cfi_module module = {.header = tables, .segments = {tables}, .segment_count = 1};
    struct cfi_frame frame = {.known = 1u << CFI_RSP | 1u << CFI_RIP | 1u << CFI_RBP | 1u << CFI_RBX};
    frame.registers[CFI_RSP] = SP;
    frame.registers[CFI_RBP] = SP + STACK_BYTES / 2;
    frame.registers[CFI_RIP] = CODE + data[0];
    for (int i = 0; i < STEPS; i++) {
        struct cfi_frame before = frame;
        struct cfi_rule rule = cfi_rule_at(&module, frame.registers[CFI_RIP] - !frame.is_interrupted);
        if (cfi_step(&module, &stack, &frame) != CFI_STEPPED) {
            if (memcmp(&before, &frame, sizeof frame) != 0)
                abort(); /* the contract: the frame is unchanged */
            return 0;
        }
        if (rule.base == CFI_FROM_SP &&
            frame.registers[CFI_RSP] != before.registers[CFI_RSP] + (uint64_t)(int64_t)rule.cfa_words * sizeof(uint64_t))
            abort(); /* the rule says another frame than the step */
        const uint32_t wanted = 1u << CFI_RSP | 1u << CFI_RIP;
        if ((frame.known & wanted) != wanted || !frame.registers[CFI_RIP])
            abort();
        frame.registers[CFI_RIP] = CODE + data[0]; /* the same function again, whatever the return address is */
    }
    return 0;
}
