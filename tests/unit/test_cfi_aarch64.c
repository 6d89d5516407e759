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

/* A frame behind the call that is `instructions` instructions into the code. x29 is SP, as where a frame record lies at the
 * end. */
static struct rerun_input called(struct code own, uint64_t instructions)
{
    struct rerun_input input = rerun_input_of(make_tables(PLAIN, entry_rules, own), 4 * instructions + 3);
    input.frame.registers[CFI_X29] = SP;
    return input;
}

static struct rerun_input interrupted(struct code own, uint64_t instructions)
{
    struct rerun_input input = called(own, instructions);
    input.frame.registers[CFI_PC] = CODE + 4 * instructions;
    input.frame.is_interrupted = 1;
    input.frame.known |= CFI_BIT(CFI_X30);
    input.frame.registers[CFI_X30] = RETURN_PC;
    return input;
}

static void assert_stepped(struct rerun_input *input, uint64_t pc, uint64_t sp, uint64_t fp)
{
    assert_int_equal(step(input), CFI_STEPPED);
    assert_int_equal(value_of(input, CFI_PC), pc);
    assert_int_equal(value_of(input, CFI_SP), sp);
    assert_int_equal(value_of(input, CFI_X29), fp);
    assert_int_equal(input->frame.is_interrupted, 0);
}

TEST(a_saved_link_is_followed)
{
    struct rerun_input input = called(usual, 5);
    assert_stepped(&input, 0x101, SP + 32, 0x100);
    assert_int_equal(ruled, 1); /* the walk of an allocation does it too */
    input = called(by_fp, 6);
    input.frame.registers[CFI_X29] = SP + 48;
    assert_stepped(&input, 0x107, SP + 64, 0x106);
    assert_int_equal(ruled, 2);
    input = called(without_fp, 5);
    assert_stepped(&input, 0x100, SP + 32, SP);
    assert_int_equal(ruled, 3);
}

TEST(registers_that_callees_keep_are_kept)
{
    struct rerun_input input = called(usual, 5);
    input.frame.known = CFI_BIT(CFI_REGISTERS) - 1;
    input.frame.registers[CFI_X19] = SAVED_OTHER;
    assert_int_equal(step(&input), CFI_STEPPED);
    uint64_t kept = CFI_BIT(CFI_X30 + 1) - CFI_BIT(CFI_X19); /* x19 to x28, and x29 and x30 that were saved */
    assert_int_equal(input.frame.known, kept | CFI_BIT(CFI_SP) | CFI_BIT(CFI_PC));
    assert_int_equal(value_of(&input, CFI_X19), SAVED_OTHER);
    input = called(without_fp, 5);
    input.frame.known |= CFI_BIT(CFI_X30);
    input.words[0] = RETURN_PC;
    assert_int_equal(step(&input), CFI_STEPPED);
    assert_int_equal(value_of(&input, CFI_PC), RETURN_PC);
}

/* An instruction before the frame is made, or behind its end, or in a function without one. */
TEST(an_interrupted_functions_link_is_in_its_register)
{
    const struct {
        struct code own;
        uint64_t at;
    } places[] = {{usual, 0}, {usual, 9}, {is_signed, 0}, {is_signed, 1}, {CODE_OF(DW_CFA_nop), 3}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct rerun_input input = interrupted(places[i].own, places[i].at);
        assert_stepped(&input, RETURN_PC, SP, SP);
        input = interrupted(places[i].own, places[i].at);
        input.frame.known &= ~CFI_BIT(CFI_X30);
        assert_int_equal(step(&input), CFI_ENDED);
    }
    struct rerun_input input = interrupted(usual, 1);
    assert_stepped(&input, 0x101, SP + 32, 0x100);
}

/* Whoever was called has put its own return address there; else the walk would not get on. */
TEST(a_callers_link_is_not_in_its_register)
{
    struct rerun_input input = called(CODE_OF(DW_CFA_def_cfa_offset, 16), 5);
    input.frame.known |= CFI_BIT(CFI_X30);
    input.frame.registers[CFI_X30] = RETURN_PC;
    assert_int_equal(step(&input), CFI_ENDED);
    input = called(CODE_OF(SAVED(CFI_X30, 0)), 5); /* a frame of its own is where the link lies */
    assert_int_equal(step(&input), CFI_ENDED);
}

TEST(an_authentication_code_is_taken_off)
{
    const uint64_t codes[] = {0, UINT64_C(0x0055000000000000), UINT64_C(0xff7f000000000000)};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct rerun_input input = called(is_signed, 5);
        input.words[1] = codes[i] | RETURN_PC;
        assert_stepped(&input, RETURN_PC, SP + 32, 0x100);
        input = interrupted(is_signed, 1);
        input.frame.registers[CFI_X30] = codes[i] | RETURN_PC;
        assert_stepped(&input, RETURN_PC, SP, SP);
    }
    struct rerun_input input =
        rerun_input_of(make_tables("zRB", CODE_OF(DW_EH_PE_pcrel | DW_EH_PE_sdata4), entry_rules, is_signed), 4 * 5 + 3);
    input.frame.registers[CFI_X29] = SP;
    input.words[1] = codes[1] | RETURN_PC;
    assert_stepped(&input, RETURN_PC, SP + 32, 0x100);
    input = called(is_signed, 5);
    input.words[1] = codes[1]; /* signed nothing */
    assert_int_equal(step(&input), CFI_ENDED);
}

/* Behind code without call frame information: its frame record says where the caller's is, and no more. */
TEST(an_unknown_stack_pointer_is_found_by_the_frame_record)
{
    const struct code own[] = {usual, is_signed};
    for (int i = 0; i < 2; i++) {
        struct rerun_input input = called(own[i], 5);
        input.frame.known &= ~CFI_BIT(CFI_SP);
        input.frame.registers[CFI_X29] = SP + 16;
        const struct cfi_bytes tables = {TABLES, input.tables.bytes, input.tables.size};
        const struct cfi_module module = {
            .abi = abi, .header = {TABLES, input.tables.bytes, HEADER_BYTES}, .segments = {tables}, .segment_count = 1};
        const struct cfi_bytes stack = {SP, (const uint8_t *)input.words, sizeof input.words};
        assert_int_equal(cfi_step(&module, &stack, &input.frame), CFI_STEPPED);
        assert_int_equal(value_of(&input, CFI_PC), 0x103);
        assert_int_equal(value_of(&input, CFI_SP), SP + 48);
        assert_int_equal(value_of(&input, CFI_X29), 0x102);
    }
    struct rerun_input input = called(without_fp, 5);
    input.frame.known &= ~CFI_BIT(CFI_SP);
    assert_int_equal(step(&input), CFI_ENDED);
}

/* As in glibc's _start() and clone(). */
TEST(the_outermost_frame_ends_the_walk)
{
    struct rerun_input input = called(CODE_OF(DW_CFA_undefined, CFI_X30), 5);
    assert_int_equal(step(&input), CFI_ENDED);
    input = called(usual, 5);
    input.words[1] = 0;
    assert_int_equal(step(&input), CFI_ENDED);
}

TEST(what_another_processor_has_makes_no_sense)
{
    struct rerun_input input = called(usual, 5);
    const struct cfi_bytes tables = {TABLES, input.tables.bytes, input.tables.size};
    struct cfi_module module = {
        .abi = &cfi_x86_64, .header = {TABLES, input.tables.bytes, HEADER_BYTES}, .segments = {tables}, .segment_count = 1};
    const struct cfi_bytes stack = {SP, (const uint8_t *)input.words, sizeof input.words};
    struct cfi_frame frame = {
        .known = CFI_BIT(CFI_RIP) | CFI_BIT(CFI_RSP), .registers[CFI_RSP] = SP, .registers[CFI_RIP] = CODE + 24};
    assert_int_equal(cfi_step(&module, &stack, &frame), CFI_ENDED);
    assert_int_equal(cfi_rule_at(&module, CODE + 20).base, CFI_NOWHERE);
    module.abi = abi;
    assert_int_equal(cfi_rule_at(&module, CODE + 20).base, CFI_FROM_SP);
}
