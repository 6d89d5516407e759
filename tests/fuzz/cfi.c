/*
 * Call frame information in a library may contain anything. The input: the offset of the PC in the code, 128 bytes that are
 * passed over, then .eh_frame_hdr followed by .eh_frame. Read as each processor's in turn.
 */
#include "fuzz.h"

#include "stacks/cfi.h"

enum { CODE = 0x1000, TABLES = 0x10000, PASSED_OVER = 128 };

FUZZ(cfi)
{
    const struct cfi_abi *const abis[] = {&cfi_x86_64, &cfi_aarch64};
    if (size < 1 + PASSED_OVER)
        return 0;
    const struct cfi_bytes tables = {TABLES, data + 1 + PASSED_OVER, size - 1 - PASSED_OVER};
    for (int i = 0; i < 2; i++) {
        const struct cfi_module module = {.abi = abis[i], .header = tables, .segments = {tables}, .segment_count = 1};
        struct cfi_rule rule = cfi_rule_at(&module, CODE + data[0]);
        require(rule.base <= CFI_AT_FP && rule.fp <= CFI_FP_LOST);
    }
    return 0;
}
