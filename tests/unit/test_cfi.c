/* What call frame information says of a frame: tables made here. fuzz.cfi has damaged ones. */
#include "support/test.h"

#include "stacks/cfi.h"

#include <dwarf.h>

static const struct cfi_abi *const abi = &cfi_x86_64;
#define CODE_FACTOR 1
#include "cfi_tables.h"

/* At the entry: the CFA is rsp + 8, the return address at CFA - 8. */
#define ENTRY_RULES DW_CFA_def_cfa, CFI_RSP, 8, DW_CFA_offset | CFI_RIP, 1

static const struct code entry_rules = CODE(ENTRY_RULES);

#define RULE(base_, cfa_, fp_, fp_words_)                                                                                      \
    {                                                                                                                          \
        .base = CFI_##base_, .cfa_words = (cfa_), .fp = CFI_FP_##fp_, .fp_words = (fp_words_), .return_words = -1              \
    }
#define NO_RULE                                                                                                                \
    {                                                                                                                          \
        .base = CFI_NOWHERE                                                                                                    \
    }

/* ---- tables that make sense ---- */

/* push %rbp; mov %rsp, %rbp; ...; pop %rbp; ret */
static const struct code usual =
    CODE(DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 16, DW_CFA_offset | CFI_RBP, 2, DW_CFA_advance_loc | 3,
         DW_CFA_def_cfa_register, CFI_RBP, DW_CFA_advance_loc1, 0x30, DW_CFA_def_cfa, CFI_RSP, 8, DW_CFA_restore | CFI_RBP);

TEST(rules_change_along_the_code)
{
    const struct {
        uint64_t offset;
        struct cfi_rule rule;
    } places[] = {{0, RULE(FROM_SP, 1, SAME, 0)},    {1, RULE(FROM_SP, 2, AT_CFA, -2)},    {3, RULE(FROM_SP, 2, AT_CFA, -2)},
                  {4, RULE(FROM_FP, 2, AT_CFA, -2)}, {0x33, RULE(FROM_FP, 2, AT_CFA, -2)}, {0x34, RULE(FROM_SP, 1, SAME, 0)}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        assert_rule(rule_of(make_tables(PLAIN, entry_rules, usual), places[i].offset), places[i].rule);
}

static void assert_made(const struct made *made, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        print_message("%zu\n", i);
        assert_rule(rule_of(make_tables(PLAIN, entry_rules, made[i].own), 0x10), made[i].rule);
    }
}

TEST(each_rule_for_the_frame_pointer_is_told)
{
    const struct made made[] = {
        {CODE(DW_CFA_nop), RULE(FROM_SP, 1, SAME, 0)},
        {CODE(DW_CFA_offset | CFI_RBP, 2), RULE(FROM_SP, 1, AT_CFA, -2)},
        {CODE(DW_CFA_offset_extended, CFI_RBP, 3), RULE(FROM_SP, 1, AT_CFA, -3)},
        {CODE(DW_CFA_offset_extended_sf, CFI_RBP, 0x7e), RULE(FROM_SP, 1, AT_CFA, 2)}, /* -2, of -8 */
        {CODE(DW_CFA_expression, CFI_RBP, 2, DW_OP_breg0 + CFI_RBP, 16), RULE(FROM_SP, 1, AT_FP, 2)},
        {CODE(DW_CFA_undefined, CFI_RBP), RULE(FROM_SP, 1, LOST, 0)},
        {CODE(DW_CFA_undefined, CFI_RBP, DW_CFA_same_value, CFI_RBP), RULE(FROM_SP, 1, SAME, 0)},
        {CODE(DW_CFA_val_offset, CFI_RBP, 2), RULE(FROM_SP, 1, LOST, 0)},
        {CODE(DW_CFA_register, CFI_RBP, CFI_RBX), RULE(FROM_SP, 1, LOST, 0)},
        {CODE(DW_CFA_expression, CFI_RBP, 2, DW_OP_breg0 + CFI_RBP, 4), RULE(FROM_SP, 1, LOST, 0)}, /* no word */
        {CODE(DW_CFA_expression, CFI_RBP, 2, DW_OP_plus_uconst, 16), RULE(FROM_SP, 1, LOST, 0)},
        {CODE(DW_CFA_val_expression, CFI_RBP, 2, DW_OP_breg0 + CFI_RBP, 0x7c), RULE(FROM_SP, 1, LOST, 0)},
        {CODE(DW_CFA_offset | CFI_RBP, 3, DW_CFA_restore | CFI_RBP), RULE(FROM_SP, 1, SAME, 0)},
        {CODE(DW_CFA_offset | CFI_RBP, 3, DW_CFA_restore_extended, CFI_RBP), RULE(FROM_SP, 1, SAME, 0)},
        /* Nothing to do with it: other registers, a vector register, and the size of arguments. */
        {CODE(DW_CFA_offset | CFI_R12, 2, DW_CFA_register, CFI_RBX, CFI_R12, DW_CFA_GNU_args_size, 16, DW_CFA_offset | 33, 5),
         RULE(FROM_SP, 1, SAME, 0)},
    };
    assert_made(made, sizeof made / sizeof made[0]);
}

TEST(each_rule_for_the_cfa_is_told)
{
    const struct made made[] = {
        {CODE(DW_CFA_def_cfa_offset, 24), RULE(FROM_SP, 3, SAME, 0)},
        {CODE(DW_CFA_def_cfa_sf, CFI_RBP, 0x7e), RULE(FROM_FP, 2, SAME, 0)},
        {CODE(DW_CFA_def_cfa_offset_sf, 0x7b), RULE(FROM_SP, 5, SAME, 0)},
        {CODE(DW_CFA_advance_loc2, 1, 0, DW_CFA_def_cfa_offset, 24, DW_CFA_advance_loc4, 1, 0, 0, 0, DW_CFA_def_cfa_offset, 32,
              DW_CFA_advance_loc4, 0, 1, 0, 0, DW_CFA_def_cfa_offset, 64),
         RULE(FROM_SP, 4, SAME, 0)},
        {CODE(DW_CFA_def_cfa_offset, 32, DW_CFA_offset | CFI_RBP, 2, DW_CFA_remember_state, DW_CFA_def_cfa_offset, 8,
              DW_CFA_restore | CFI_RBP, DW_CFA_advance_loc | 1, DW_CFA_restore_state),
         RULE(FROM_SP, 4, AT_CFA, -2)},
        /* What gcc writes where it realigned the stack: the CFA was saved below the frame pointer. */
        {CODE(DW_CFA_expression, CFI_RBP, 2, DW_OP_breg0 + CFI_RBP, 0, DW_CFA_def_cfa_expression, 3, DW_OP_breg0 + CFI_RBP,
              0x78, DW_OP_deref),
         RULE(AT_FP, -1, AT_FP, 0)},
    };
    assert_made(made, sizeof made / sizeof made[0]);
}

TEST(what_needs_more_or_makes_no_sense_has_no_rule)
{
    const struct made made[] = {
        {CODE(DW_CFA_undefined, CFI_RIP), NO_RULE}, /* the outermost frame */
        {CODE(DW_CFA_offset | CFI_RIP, 2), NO_RULE},
        {CODE(DW_CFA_register, CFI_RIP, CFI_RBX), NO_RULE},
        {CODE(DW_CFA_expression, CFI_RIP, 2, DW_OP_breg0 + CFI_RSP, 24), NO_RULE},
        {CODE(DW_CFA_offset | CFI_RSP, 2), NO_RULE},
        {CODE(DW_CFA_def_cfa_offset, 0x29), NO_RULE},             /* no word */
        {CODE(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x10), NO_RULE}, /* more words than a rule can tell */
        {CODE(DW_CFA_def_cfa, CFI_RBX, 16), NO_RULE},
        {CODE(DW_CFA_def_cfa, 40, 16), NO_RULE},
        /* What linkers write for the entries of a PLT. */
        {CODE(DW_CFA_def_cfa_expression, 11, DW_OP_breg0 + CFI_RSP, 8, DW_OP_breg0 + CFI_RIP, 0, DW_OP_lit15, DW_OP_and,
              DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus),
         NO_RULE},
        {CODE(DW_CFA_def_cfa_expression, 0), NO_RULE},
        {CODE(DW_CFA_def_cfa_expression, 2, DW_OP_breg0 + CFI_RBP, 16), NO_RULE},
        {CODE(DW_CFA_def_cfa_expression, 4, DW_OP_breg0 + CFI_RBP, 16, DW_OP_deref, DW_OP_deref), NO_RULE},
        {CODE(DW_CFA_restore_state), NO_RULE},
        {CODE(0x3f), NO_RULE},
        {CODE(DW_CFA_def_cfa_offset, 0x80), NO_RULE}, /* half a number */
        {CODE(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1), NO_RULE},
        {CODE(DW_CFA_expression, CFI_RBX, 3, DW_OP_lit0), NO_RULE},
    };
    assert_made(made, sizeof made / sizeof made[0]);
}

TEST(states_are_remembered_up_to_a_depth)
{
    uint8_t nested[9];
    memset(nested, DW_CFA_remember_state, sizeof nested);
    const struct made made[] = {{{nested, 8}, RULE(FROM_SP, 1, SAME, 0)}, {{nested, 9}, NO_RULE}};
    assert_made(made, 2);
}

TEST(augmentations_are_passed_over_or_not_understood)
{
#define ENCODING DW_EH_PE_pcrel | DW_EH_PE_sdata4
    const struct {
        const char *letters;
        struct code data;
        enum cfi_base base;
    } kinds[] = {{"zR", CODE(ENCODING), CFI_FROM_SP},
                 {"zPLR", CODE(DW_EH_PE_indirect | ENCODING, 1, 2, 3, 4, ENCODING, ENCODING), CFI_FROM_SP},
                 {"zRS", CODE(ENCODING), CFI_NOWHERE}, /* a trampoline of signals */
                 {"zRB", CODE(ENCODING), CFI_NO_ENTRY},
                 {"zX", CODE(ENCODING), CFI_NO_ENTRY},
                 {"eh", {NULL, 0}, CFI_NO_ENTRY},
                 {"R", {NULL, 0}, CFI_NO_ENTRY}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        assert_int_equal(rule_of(make_tables(kinds[i].letters, kinds[i].data, entry_rules, CODE_OF(DW_CFA_nop)), 0x10).base,
                         kinds[i].base);
}

TEST(the_entry_of_many_is_found_that_covers_the_place)
{
    enum { MOST = 9 };
    const struct cfi_rule expected = RULE(FROM_SP, 5, SAME, 0);
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
            assert_rule(rule_in((struct cfi_bytes){TABLES, header, 12 + 8 * count},
                                (struct cfi_bytes){TABLES, one.bytes, one.size}, CODE_BYTES - 1),
                        expected);
        }
    }
}

TEST(code_that_the_tables_do_not_cover_has_no_entry)
{
    struct tables tables = make_tables(PLAIN, entry_rules, CODE_OF(DW_CFA_nop));
    const uint64_t outside[] = {(uint64_t)-1, CODE_BYTES, CODE_BYTES + 0x1000, (uint64_t)-CODE};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        assert_rule(rule_of(tables, outside[i]), cfi_no_entry);
    assert_int_equal(rule_of(tables, CODE_BYTES - 1).base, CFI_FROM_SP);
}
