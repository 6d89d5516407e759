/* Unwinding one frame with call frame information: tables made here. fuzz.cfi has damaged ones. */
#include "support/test.h"

#include "stacks/cfi.h"

#include <dwarf.h>

static const struct cfi_abi *const abi = &cfi_x86_64;
#define CODE_FACTOR 1
#include "cfi_tables.h"

/* At the entry: the CFA is rsp + 8, the return address at CFA - 8. */
#define ENTRY_RULES DW_CFA_def_cfa, CFI_RSP, 8, DW_CFA_offset | CFI_RIP, 1

static const struct code entry_rules = {(const uint8_t[]){ENTRY_RULES}, sizeof((const uint8_t[]){ENTRY_RULES})};

/* ---- tables that make sense ---- */

/* push %rbp; mov %rsp, %rbp; ...; pop %rbp; ret */
static const struct code usual = {(const uint8_t[]){DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | CFI_RBP,
                                                    2, DW_CFA_advance_loc | 3, DW_CFA_def_cfa_register, CFI_RBP,
                                                    DW_CFA_advance_loc1, 0x30, DW_CFA_def_cfa, CFI_RSP, 8,
                                                    DW_CFA_restore | CFI_RBP},
                                  14};

TEST(rules_change_along_the_code)
{
    const struct {
        uint64_t offset, cfa;
        int is_rbp_saved;
    } places[] = {{0, SP + 8, 0}, {1, SP + 16, 1}, {3, SP + 16, 1}, {4, SP + 48, 1}, {0x33, SP + 48, 1}, {0x34, SP + 8, 0}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct rerun_input input = rerun_input_of(make_tables(PLAIN, entry_rules, usual), places[i].offset);
        uint64_t rbp = value_of(&input, CFI_RBP), index = (places[i].cfa - SP) / 8;
        input.words[index - 1] = RETURN_PC;
        if (places[i].is_rbp_saved)
            input.words[index - 2] = rbp = SAVED_FP;
        assert_int_equal(step(&input), CFI_STEPPED);
        assert_int_equal(value_of(&input, CFI_RIP), RETURN_PC);
        assert_int_equal(value_of(&input, CFI_RSP), places[i].cfa);
        assert_int_equal(value_of(&input, CFI_RBP), rbp);
        assert_int_equal(input.frame.is_interrupted, 0);
        assert_int_equal(ruled, i + 1);
    }
}

static struct rerun_input stepped(struct code own)
{
    struct rerun_input input = rerun_input_of(make_tables(PLAIN, entry_rules, own), 0x10);
    input.frame.registers[CFI_RBX] = SAVED_OTHER;
    input.frame.known |= 1u << CFI_RBX;
    assert_int_equal(step(&input), CFI_STEPPED);
    return input;
}

TEST(each_rule_for_a_register_is_applied)
{
    struct rerun_input input =
        stepped(CODE_OF(DW_CFA_def_cfa_offset, 24, DW_CFA_offset | CFI_R12, 2, DW_CFA_offset_extended, 13, 3));
    assert_int_equal(value_of(&input, CFI_RIP), 0x102);
    assert_int_equal(value_of(&input, CFI_R12), 0x101);
    assert_int_equal(value_of(&input, 13), 0x100);
    assert_int_equal(value_of(&input, CFI_RBX), SAVED_OTHER);
    input = stepped(CODE_OF(DW_CFA_offset_extended_sf, CFI_RBX, 0x7f)); /* -1, of -8 */
    assert_int_equal(value_of(&input, CFI_RBX), 0x102);
    input = stepped(CODE_OF(DW_CFA_undefined, CFI_RBX));
    assert_int_equal(input.frame.known >> CFI_RBX & 1, 0);
    input = stepped(CODE_OF(DW_CFA_undefined, CFI_RBX, DW_CFA_same_value, CFI_RBX));
    assert_int_equal(value_of(&input, CFI_RBX), SAVED_OTHER);
    input = stepped(CODE_OF(DW_CFA_val_offset, CFI_R12, 2));
    assert_int_equal(value_of(&input, CFI_R12), SP + 8 - 16);
    input = stepped(CODE_OF(DW_CFA_register, CFI_R12, CFI_RBX));
    assert_int_equal(value_of(&input, CFI_R12), SAVED_OTHER);
    input = stepped(CODE_OF(DW_CFA_expression, CFI_R12, 2, DW_OP_plus_uconst, 16));
    assert_int_equal(value_of(&input, CFI_R12), 0x103);
    input = stepped(CODE_OF(DW_CFA_val_expression, CFI_R12, 2, DW_OP_breg0 + CFI_RBP, 0x7c)); /* -4 */
    assert_int_equal(value_of(&input, CFI_R12), SP + 28);
    input = stepped(CODE_OF(DW_CFA_offset | CFI_RBX, 3, DW_CFA_restore | CFI_RBX));
    assert_int_equal(value_of(&input, CFI_RBX), SAVED_OTHER);
    input = stepped(CODE_OF(DW_CFA_offset | CFI_RBX, 3, DW_CFA_restore_extended, CFI_RBX));
    assert_int_equal(value_of(&input, CFI_RBX), SAVED_OTHER);
    input = stepped(CODE_OF(DW_CFA_GNU_args_size, 16, DW_CFA_offset | 33, 5)); /* of a vector register */
    assert_int_equal(value_of(&input, CFI_RIP), 0x100);
}

TEST(registers_that_callees_may_change_are_forgotten)
{
    struct rerun_input input = rerun_input_of(make_tables(PLAIN, entry_rules, CODE_OF(DW_CFA_nop)), 0x10);
    input.frame.known = CFI_BIT(CFI_RIP + 1) - 1;
    assert_int_equal(step(&input), CFI_STEPPED);
    assert_int_equal(input.frame.known, 1u << CFI_RBX | 1u << CFI_RBP | 1u << CFI_RSP | 0xfu << CFI_R12 | 1u << CFI_RIP);
}

TEST(each_rule_for_the_cfa_is_applied)
{
    struct rerun_input input = stepped(CODE_OF(DW_CFA_def_cfa_sf, CFI_RBP, 0x7e)); /* -2, of -8 */
    assert_int_equal(value_of(&input, CFI_RSP), SP + 48);
    input = stepped(CODE_OF(DW_CFA_def_cfa_offset_sf, 0x7b));
    assert_int_equal(value_of(&input, CFI_RSP), SP + 40);
    input = stepped(CODE_OF(DW_CFA_advance_loc2, 1, 0, DW_CFA_def_cfa_offset, 24, DW_CFA_advance_loc4, 1, 0, 0, 0,
                            DW_CFA_def_cfa_offset, 32, DW_CFA_advance_loc4, 0, 1, 0, 0, DW_CFA_def_cfa_offset, 64));
    assert_int_equal(value_of(&input, CFI_RSP), SP + 32);
}

TEST(a_remembered_state_comes_back)
{
    struct rerun_input input =
        stepped(CODE_OF(DW_CFA_def_cfa_offset, 32, DW_CFA_offset | CFI_RBX, 2, DW_CFA_remember_state, DW_CFA_def_cfa_offset, 8,
                        DW_CFA_restore | CFI_RBX, DW_CFA_advance_loc | 1, DW_CFA_restore_state));
    assert_int_equal(value_of(&input, CFI_RSP), SP + 32);
    assert_int_equal(value_of(&input, CFI_RBX), 0x102);
}

/* What gcc writes where it realigned the stack: the CFA was saved below the frame pointer. */
TEST(the_cfa_of_a_realigned_stack_is_read)
{
    struct rerun_input input =
        rerun_input_of(make_tables(PLAIN, entry_rules,
                                   CODE_OF(DW_CFA_expression, CFI_RBP, 2, DW_OP_breg0 + CFI_RBP, 0, DW_CFA_def_cfa_expression,
                                           3, DW_OP_breg0 + CFI_RBP, 0x78, DW_OP_deref)), /* -8 */
                       0x10);
    input.words[3] = SP + 64; /* at rbp - 8 */
    input.words[4] = SAVED_FP;
    input.words[7] = RETURN_PC;
    assert_int_equal(step(&input), CFI_STEPPED);
    assert_int_equal(value_of(&input, CFI_RSP), SP + 64);
    assert_int_equal(value_of(&input, CFI_RBP), SAVED_FP);
    assert_int_equal(value_of(&input, CFI_RIP), RETURN_PC);
}

/* What linkers write for the entries of a PLT, 16 bytes each, with a push at byte 6 and the jump behind it at byte 11. */
TEST(the_cfa_of_a_plt_entry_depends_on_the_place)
{
    for (uint64_t offset = 0x10; offset < 0x20; offset++) {
        struct rerun_input input = rerun_input_of(
            make_tables(PLAIN, entry_rules,
                        CODE_OF(DW_CFA_def_cfa_expression, 11, DW_OP_breg0 + CFI_RSP, 8, DW_OP_breg0 + CFI_RIP, 0, DW_OP_lit15,
                                DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus)),
            offset);
        input.frame.registers[CFI_RIP] = CODE + offset;
        input.frame.is_interrupted = 1;
        assert_int_equal(step(&input), CFI_STEPPED);
        assert_int_equal(value_of(&input, CFI_RSP), offset % 16 >= 11 ? SP + 16 : SP + 8);
    }
}

TEST(behind_a_trampoline_of_signals_lies_an_interrupted_instruction)
{
    struct rerun_input input = rerun_input_of(
        make_tables("zRS", CODE_OF(DW_EH_PE_pcrel | DW_EH_PE_sdata4), entry_rules,
                    CODE_OF(DW_CFA_def_cfa_expression, 3, DW_OP_breg0 + CFI_RSP, 16, DW_OP_deref, DW_CFA_expression, CFI_RIP, 2,
                            DW_OP_breg0 + CFI_RSP, 24, DW_CFA_expression, CFI_R12, 2, DW_OP_breg0 + CFI_RSP, 0)),
        0x10);
    input.words[2] = SP + 640;
    input.words[3] = RETURN_PC;
    assert_int_equal(step(&input), CFI_STEPPED);
    assert_int_equal(input.frame.is_interrupted, 1);
    assert_int_equal(value_of(&input, CFI_RIP), RETURN_PC);
    assert_int_equal(value_of(&input, CFI_RSP), SP + 640);
    assert_int_equal(value_of(&input, CFI_R12), 0x100);
}

TEST(personalities_and_their_data_are_passed_over)
{
    struct rerun_input input =
        rerun_input_of(make_tables("zPLR",
                                   CODE_OF(DW_EH_PE_indirect | DW_EH_PE_pcrel | DW_EH_PE_sdata4, 1, 2, 3, 4,
                                           DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_pcrel | DW_EH_PE_sdata4),
                                   entry_rules, CODE_OF(DW_CFA_nop)),
                       0x10);
    assert_int_equal(step(&input), CFI_STEPPED);
    assert_int_equal(value_of(&input, CFI_RIP), 0x100);
}

TEST(the_entry_of_many_is_found_that_covers_the_place)
{
    enum { MOST = 9 };
    for (uint64_t count = 1; count <= MOST; count++) {
        struct tables one = make_tables(PLAIN, entry_rules, CODE_OF(DW_CFA_def_cfa_offset, 40));
        uint8_t header[12 + 8 * MOST];
        memcpy(header, one.bytes, 8);
        memcpy(header + 8, &(uint32_t){(uint32_t)count}, 4);
        uint32_t own_at;
        memcpy(&own_at, one.bytes + HEADER_BYTES - 4, 4);
        for (uint64_t wanted = 0; wanted < count; wanted++) {
            for (uint64_t i = 0; i < count; i++) {
                uint32_t start = (uint32_t)(CODE - TABLES + ((int64_t)i - (int64_t)wanted) * CODE_BYTES);
                uint32_t at = i == wanted ? own_at : 1;
                memcpy(header + 12 + 8 * i, &start, 4);
                memcpy(header + 16 + 8 * i, &at, 4);
            }
            struct rerun_input input = rerun_input_of(one, CODE_BYTES - 1);
            const struct cfi_module module = {.abi = &cfi_x86_64,
                                              .header = {TABLES, header, 12 + 8 * count},
                                              .segments = {{TABLES, one.bytes, one.size}},
                                              .segment_count = 1};
            const struct cfi_bytes stack = {SP, (const uint8_t *)input.words, sizeof input.words};
            assert_int_equal(cfi_step(&module, &stack, &input.frame), CFI_STEPPED);
            assert_int_equal(value_of(&input, CFI_RSP), SP + 40);
        }
    }
}

TEST(code_that_the_tables_do_not_cover_has_no_entry)
{
    struct tables tables = make_tables(PLAIN, entry_rules, CODE_OF(DW_CFA_nop));
    const uint64_t outside[] = {(uint64_t)-1, CODE_BYTES, CODE_BYTES + 0x1000, (uint64_t)-CODE};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        struct rerun_input input = rerun_input_of(tables, outside[i]), before = input;
        assert_int_equal(step(&input), CFI_NO_ENTRY);
        assert_memory_equal(&input.frame, &before.frame, sizeof input.frame);
    }
    struct rerun_input input = rerun_input_of(tables, CODE_BYTES - 1);
    assert_int_equal(step(&input), CFI_STEPPED);
}

/* ---- the end of the walk ---- */

static enum cfi_result result_of(struct code own)
{
    struct rerun_input input = rerun_input_of(make_tables(PLAIN, entry_rules, own), 0x10);
    return step(&input);
}

TEST(what_leads_nowhere_ends_the_walk)
{
    const struct code ends[] = {
        CODE_OF(DW_CFA_undefined, CFI_RIP), /* the outermost frame */
        /* outside of the copied words, no word, below the stack pointer */
        CODE_OF(DW_CFA_def_cfa_offset, 0x81, 1),
        CODE_OF(DW_CFA_def_cfa_offset, 0x88, 1),
        CODE_OF(DW_CFA_def_cfa_offset, 0x29),
        CODE_OF(DW_CFA_offset | CFI_RIP, 2),
        /* a frame that does not lie further up */
        CODE_OF(DW_CFA_def_cfa_offset, 0, DW_CFA_offset_extended_sf, CFI_RIP, 0x7f),
        CODE_OF(DW_CFA_def_cfa_sf, CFI_RSP, 1, DW_CFA_offset_extended_sf, CFI_RIP, 0x7e),
        /* registers that are not known */
        CODE_OF(DW_CFA_def_cfa, CFI_RBX, 16),
        CODE_OF(DW_CFA_def_cfa, 40, 16),
        CODE_OF(DW_CFA_register, CFI_RIP, CFI_RBX),
        CODE_OF(DW_CFA_def_cfa_expression, 2, DW_OP_breg0 + CFI_RBX, 16),
        /* instructions that make no sense, of which two have half a number */
        CODE_OF(DW_CFA_restore_state),
        CODE_OF(0x3f),
        CODE_OF(DW_CFA_def_cfa_offset, 0x80),
        CODE_OF(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1),
        CODE_OF(DW_CFA_expression, CFI_RIP, 3, DW_OP_lit0),
        /* expressions that make no sense */
        CODE_OF(DW_CFA_def_cfa_expression, 0),
        CODE_OF(DW_CFA_def_cfa_expression, 1, DW_OP_deref),
        CODE_OF(DW_CFA_def_cfa_expression, 2, DW_OP_plus_uconst, 8),
        CODE_OF(DW_CFA_def_cfa_expression, 2, DW_OP_lit1, DW_OP_plus),
        CODE_OF(DW_CFA_def_cfa_expression, 4, DW_OP_breg0 + CFI_RSP, 8, DW_OP_skip, 0),
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (result_of(ends[i]) != CFI_ENDED)
            fail_msg("case %zu", i);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_offset, 0x80, 1)), CFI_STEPPED); /* the last word */
    struct rerun_input input = rerun_input_of(make_tables(PLAIN, entry_rules, CODE_OF(DW_CFA_nop)), 0x10);
    input.words[0] = 0;
    assert_int_equal(step(&input), CFI_ENDED);
}

TEST(states_and_operands_have_room_for_eight)
{
    uint8_t nested[9];
    memset(nested, DW_CFA_remember_state, sizeof nested);
    assert_int_equal(result_of((struct code){nested, 8}), CFI_STEPPED);
    assert_int_equal(result_of((struct code){nested, 9}), CFI_ENDED);
    const uint8_t top[] = {DW_OP_breg0 + CFI_RSP, 16};
    for (uint8_t below = 7; below <= 8; below++) {
        uint8_t bytes[12] = {DW_CFA_def_cfa_expression, (uint8_t)(below + sizeof top)};
        memset(bytes + 2, DW_OP_lit0, below);
        memcpy(bytes + 2 + below, top, sizeof top);
        assert_int_equal(result_of((struct code){bytes, 2 + below + sizeof top}), below == 7 ? CFI_STEPPED : CFI_ENDED);
    }
}

TEST(augmentations_that_are_not_known_give_no_entry)
{
    const struct code encoding = CODE_OF(DW_EH_PE_pcrel | DW_EH_PE_sdata4), none = {NULL, 0};
    const char *const unknown[] = {"zRB", "zX", "eh", "R"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct rerun_input input = rerun_input_of(
            make_tables(unknown[i], unknown[i][0] == 'z' ? encoding : none, entry_rules, CODE_OF(DW_CFA_nop)), 0x10);
        assert_int_equal(step(&input), CFI_NO_ENTRY);
    }
}
