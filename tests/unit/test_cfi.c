/* What call frame information says of a frame: tables of a module with one function, made here. fuzz.cfi has damaged ones. */
#include "support/test.h"

#include "stacks/cfi.h"

#include <dwarf.h>

static const struct cfi_abi *abi = &cfi_x86_64; /* the processor that the tables are for */

enum { CODE = 0x1000, CODE_BYTES = 0x40, TABLES = 0x10000, HEADER_BYTES = 20 };

struct tables {
    uint8_t bytes[512];
    size_t size;
};

static void put(struct tables *tables, uint64_t value, size_t size)
{
    assert_true(tables->size + size <= sizeof tables->bytes);
    memcpy(tables->bytes + tables->size, &value, size);
    tables->size += size;
}

/* Begins a record; end_record() sets its size. */
static size_t begin_record(struct tables *tables)
{
    put(tables, 0, 4);
    return tables->size;
}

static void end_record(struct tables *tables, size_t begin)
{
    uint32_t size = (uint32_t)(tables->size - begin);
    memcpy(tables->bytes + begin - 4, &size, 4);
}

struct code {
    const uint8_t *bytes;
    size_t size;
};
#define CODE(...)                                                                                                              \
    {                                                                                                                          \
        (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})                                                 \
    }
#define CODE_OF(...) ((struct code)CODE(__VA_ARGS__))

static void put_code(struct tables *tables, struct code code)
{
    for (size_t i = 0; i < code.size; i++)
        put(tables, code.bytes[i], 1);
}

/* Header with one entry; common entry with `letters` and their data; the function's own entry. The code's factor is the length
 * of an instruction, the data's -8. */
static struct tables make_tables(const char *letters, struct code data, struct code common, struct code own)
{
    struct tables tables = {.size = 0};
    put(&tables, 1, 1);
    put(&tables, DW_EH_PE_pcrel | DW_EH_PE_sdata4, 1);
    put(&tables, DW_EH_PE_udata4, 1);
    put(&tables, DW_EH_PE_datarel | DW_EH_PE_sdata4, 1);
    put(&tables, HEADER_BYTES - 4, 4);
    put(&tables, 1, 4);
    put(&tables, (uint64_t)CODE - TABLES, 4);
    put(&tables, 0, 4); /* where the function's entry is, below */

    size_t record = begin_record(&tables), common_at = record - 4;
    put(&tables, 0, 4);
    put(&tables, 1, 1);
    put_code(&tables, (struct code){(const uint8_t *)letters, strlen(letters) + 1});
    put(&tables, abi == &cfi_aarch64 ? 4 : 1, 1);
    put(&tables, 0x78, 1); /* -8 */
    put(&tables, abi->return_column, 1);
    if (letters[0] == 'z')
        put(&tables, data.size, 1);
    put_code(&tables, data);
    put_code(&tables, common);
    end_record(&tables, record);

    record = begin_record(&tables);
    uint32_t own_at = (uint32_t)(record - 4);
    memcpy(tables.bytes + HEADER_BYTES - 4, &own_at, 4);
    put(&tables, record - common_at, 4);
    put(&tables, (uint64_t)CODE - TABLES - tables.size, 4);
    put(&tables, CODE_BYTES, 4);
    if (letters[0] == 'z')
        put(&tables, 0, 1);
    put_code(&tables, own);
    end_record(&tables, record);
    return tables;
}

#define PLAIN "zR", CODE_OF(DW_EH_PE_pcrel | DW_EH_PE_sdata4)

static struct cfi_rule rule_in(struct cfi_bytes header, struct cfi_bytes tables, uint64_t offset)
{
    const struct cfi_module module = {.abi = abi, .header = header, .segments = {tables}, .segment_count = 1};
    return cfi_rule_at(&module, CODE + offset);
}

static struct cfi_rule rule_of(struct tables tables, uint64_t offset)
{
    return rule_in((struct cfi_bytes){TABLES, tables.bytes, HEADER_BYTES},
                   (struct cfi_bytes){TABLES, tables.bytes, tables.size}, offset);
}

static void assert_rule(struct cfi_rule rule, struct cfi_rule expected)
{
    assert_int_equal(rule.base, expected.base);
    if (expected.base == CFI_NOWHERE)
        return;
    assert_int_equal(rule.cfa_words, expected.cfa_words);
    assert_int_equal(rule.return_words, expected.return_words);
    assert_int_equal(rule.fp, expected.fp);
    if (expected.fp == CFI_FP_AT_CFA || expected.fp == CFI_FP_AT_FP)
        assert_int_equal(rule.fp_words, expected.fp_words);
}

/* A function's code, and the rule that it makes. */
struct made {
    struct code own;
    struct cfi_rule rule;
};

/* ---- x86-64 ---- */

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

/* ---- AArch64, on any machine: what gcc writes, and what the processor has of its own ---- */

static int set_aarch64(void **state)
{
    abi = &cfi_aarch64;
    return 0;
}

static int set_x86_64(void **state)
{
    abi = &cfi_x86_64;
    return 0;
}

/* At the entry: the CFA is sp, the return address in x30. */
static const struct code link_rules = CODE(DW_CFA_def_cfa, CFI_SP, 0);

#define NEGATE_RA_STATE 0x2d
#define SAVED(reg, words) DW_CFA_offset | (reg), (words)
#define RESTORED(reg) DW_CFA_restore | (reg)
#define AFTER(instructions) DW_CFA_advance_loc | (instructions)

/* long usual(long a) { f(&a); return g(a, 2); }: stp x29, x30, [sp, -32]!; ...; ldp x29, x30, [sp], 32; ret. gcc 12, -O2. */
static const struct code linked = CODE(AFTER(1), DW_CFA_def_cfa_offset, 32, SAVED(CFI_X29, 4), SAVED(CFI_X30, 3), AFTER(8),
                                       RESTORED(CFI_X30), RESTORED(CFI_X29), DW_CFA_def_cfa_offset, 0);
/* The same with -mbranch-protection=pac-ret: paciasp before, autiasp behind. */
static const struct code is_signed =
    CODE(AFTER(1), NEGATE_RA_STATE, AFTER(1), DW_CFA_def_cfa_offset, 32, SAVED(CFI_X29, 4), SAVED(CFI_X30, 3), AFTER(8),
         RESTORED(CFI_X30), RESTORED(CFI_X29), DW_CFA_def_cfa_offset, 0, AFTER(1), NEGATE_RA_STATE);
/* void vla(int n): the frame is found by x29. */
static const struct code by_fp =
    CODE(AFTER(2), DW_CFA_def_cfa_offset, 16, SAVED(CFI_X29, 2), SAVED(CFI_X30, 1), AFTER(3), DW_CFA_def_cfa_register, CFI_X29);
/* With -fomit-frame-pointer: x30 alone. */
static const struct code without_fp = CODE(AFTER(1), DW_CFA_def_cfa_offset, 32, SAVED(CFI_X30, 4));

static struct cfi_rule called(struct code own, uint64_t instructions)
{
    return rule_of(make_tables(PLAIN, link_rules, own), 4 * instructions + 3);
}

TEST_WITH(a_saved_link_is_followed, set_aarch64, set_x86_64)
{
    const struct cfi_rule expected[] = {
        {.base = CFI_FROM_SP, .cfa_words = 4, .fp = CFI_FP_AT_CFA, .fp_words = -4, .return_words = -3},
        {.base = CFI_FROM_FP, .cfa_words = 2, .fp = CFI_FP_AT_CFA, .fp_words = -2, .return_words = -1},
        {.base = CFI_FROM_SP, .cfa_words = 4, .fp = CFI_FP_SAME, .return_words = -4}};
    assert_rule(called(linked, 5), expected[0]);
    assert_rule(called(is_signed, 5), expected[0]);
    assert_rule(called(by_fp, 6), expected[1]);
    assert_rule(called(without_fp, 5), expected[2]);
    struct tables by_key_b = make_tables("zRB", CODE_OF(DW_EH_PE_pcrel | DW_EH_PE_sdata4), link_rules, is_signed);
    assert_rule(rule_of(by_key_b, 4 * 5 + 3), expected[0]);
}

/* Whoever was called has put its own return address there. glibc's _start() and clone() have none. */
TEST_WITH(a_link_in_its_register_has_no_rule, set_aarch64, set_x86_64)
{
    const struct {
        struct code own;
        uint64_t at;
    } places[] = {{linked, 0},
                  {linked, 9},
                  {is_signed, 1},
                  {CODE(DW_CFA_nop), 3},
                  {CODE(DW_CFA_def_cfa_offset, 16), 5},
                  {CODE(DW_CFA_undefined, CFI_X30), 5}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        assert_int_equal(called(places[i].own, places[i].at).base, CFI_NOWHERE);
}

TEST_WITH(what_another_processor_has_makes_no_sense, set_aarch64, set_x86_64)
{
    struct tables made = make_tables(PLAIN, link_rules, linked);
    assert_int_equal(rule_of(made, 20).base, CFI_FROM_SP);
    abi = &cfi_x86_64;
    assert_int_equal(rule_of(made, 20).base, CFI_NOWHERE);
}
