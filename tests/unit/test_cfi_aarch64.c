/* The same for AArch64, on any machine: what gcc writes, and what the processor has of its own. tests/unit/test_cfi.c has the
 * rest. */
#include "stacks/cfi.h"

static const struct cfi_abi *const abi = &cfi_aarch64;
#define CODE_FACTOR 4
#include "cfi_tables.h"

/* At the entry: the CFA is sp, the return address in x30. */
static const struct code entry_rules = {(const uint8_t[]){DW_CFA_def_cfa, CFI_SP, 0}, 3};

#define NEGATE_RA_STATE 0x2d
#define SAVED(reg, words) DW_CFA_offset | (reg), (words)
#define RESTORED(reg) DW_CFA_restore | (reg)
#define AFTER(instructions) DW_CFA_advance_loc | (instructions)

/* long usual(long a) { f(&a); return g(a, 2); }: stp x29, x30, [sp, -32]!; ...; ldp x29, x30, [sp], 32; ret. gcc 12, -O2. */
static const struct code usual = {(const uint8_t[]){AFTER(1), DW_CFA_def_cfa_offset, 32, SAVED(CFI_X29, 4), SAVED(CFI_X30, 3),
                                                    AFTER(8), RESTORED(CFI_X30), RESTORED(CFI_X29), DW_CFA_def_cfa_offset, 0},
                                  12};
/* The same with -mbranch-protection=pac-ret: paciasp before, autiasp behind. */
static const struct code is_signed = {(const uint8_t[]){AFTER(1), NEGATE_RA_STATE, AFTER(1), DW_CFA_def_cfa_offset, 32,
                                                        SAVED(CFI_X29, 4), SAVED(CFI_X30, 3), AFTER(8), RESTORED(CFI_X30),
                                                        RESTORED(CFI_X29), DW_CFA_def_cfa_offset, 0, AFTER(1), NEGATE_RA_STATE},
                                      16};
/* void vla(int n): the frame is found by x29. */
static const struct code by_fp = {(const uint8_t[]){AFTER(2), DW_CFA_def_cfa_offset, 16, SAVED(CFI_X29, 2), SAVED(CFI_X30, 1),
                                                    AFTER(3), DW_CFA_def_cfa_register, CFI_X29},
                                  10};
/* With -fomit-frame-pointer: x30 alone. */
static const struct code without_fp = {(const uint8_t[]){AFTER(1), DW_CFA_def_cfa_offset, 32, SAVED(CFI_X30, 4)}, 5};

static struct cfi_rule called(struct code own, uint64_t instructions)
{
    return rule_of(make_tables(PLAIN, entry_rules, own), 4 * instructions + 3);
}

TEST(a_saved_link_is_followed)
{
    const struct cfi_rule expected[] = {
        {.base = CFI_FROM_SP, .cfa_words = 4, .fp = CFI_FP_AT_CFA, .fp_words = -4, .return_words = -3},
        {.base = CFI_FROM_FP, .cfa_words = 2, .fp = CFI_FP_AT_CFA, .fp_words = -2, .return_words = -1},
        {.base = CFI_FROM_SP, .cfa_words = 4, .fp = CFI_FP_SAME, .return_words = -4}};
    assert_rule(called(usual, 5), expected[0]);
    assert_rule(called(is_signed, 5), expected[0]);
    assert_rule(called(by_fp, 6), expected[1]);
    assert_rule(called(without_fp, 5), expected[2]);
    struct tables by_key_b = make_tables("zRB", CODE_OF(DW_EH_PE_pcrel | DW_EH_PE_sdata4), entry_rules, is_signed);
    assert_rule(rule_of(by_key_b, 4 * 5 + 3), expected[0]);
}

/* Whoever was called has put its own return address there. glibc's _start() and clone() have none. */
TEST(a_link_in_its_register_has_no_rule)
{
    const struct {
        struct code own;
        uint64_t at;
    } places[] = {{usual, 0},
                  {usual, 9},
                  {is_signed, 1},
                  {CODE(DW_CFA_nop), 3},
                  {CODE(DW_CFA_def_cfa_offset, 16), 5},
                  {CODE(DW_CFA_undefined, CFI_X30), 5}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        assert_int_equal(called(places[i].own, places[i].at).base, CFI_NOWHERE);
}

TEST(what_another_processor_has_makes_no_sense)
{
    struct tables made = make_tables(PLAIN, entry_rules, usual);
    const struct cfi_bytes tables = {TABLES, made.bytes, made.size};
    struct cfi_module module = {
        .abi = &cfi_x86_64, .header = {TABLES, made.bytes, HEADER_BYTES}, .segments = {tables}, .segment_count = 1};
    assert_int_equal(cfi_rule_at(&module, CODE + 20).base, CFI_NOWHERE);
    module.abi = abi;
    assert_int_equal(cfi_rule_at(&module, CODE + 20).base, CFI_FROM_SP);
}
