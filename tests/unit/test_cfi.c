/* Unwinding one frame with call frame information: tables made here, and damaged ones. */
#include "support/test.h"

#include "stacks/cfi.h"

#include <dwarf.h>
#include <link.h>
#include <sys/mman.h>

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

TEST(the_outermost_frame_ends_the_walk)
{
    assert_int_equal(result_of(CODE_OF(DW_CFA_undefined, CFI_RIP)), CFI_ENDED);
    struct rerun_input input = rerun_input_of(make_tables(PLAIN, entry_rules, CODE_OF(DW_CFA_nop)), 0x10);
    input.words[0] = 0;
    assert_int_equal(step(&input), CFI_ENDED);
}

TEST(what_the_copied_words_do_not_hold_ends_the_walk)
{
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_offset, 0x80, 1)), CFI_STEPPED); /* the last word */
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_offset, 0x81, 1)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_offset, 0x88, 1)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_offset, 0x29)), CFI_ENDED); /* no word */
    assert_int_equal(result_of(CODE_OF(DW_CFA_offset | CFI_RIP, 2)), CFI_ENDED);  /* below the stack pointer */
}

TEST(a_frame_that_does_not_lie_further_up_ends_the_walk)
{
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_offset, 0, DW_CFA_offset_extended_sf, CFI_RIP, 0x7f)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_sf, CFI_RSP, 1, DW_CFA_offset_extended_sf, CFI_RIP, 0x7e)), CFI_ENDED);
}

TEST(registers_that_are_not_known_end_the_walk)
{
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa, CFI_RBX, 16)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa, 40, 16)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_register, CFI_RIP, CFI_RBX)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_expression, 2, DW_OP_breg0 + CFI_RBX, 16)), CFI_ENDED);
}

TEST(instructions_that_make_no_sense_end_the_walk)
{
    assert_int_equal(result_of(CODE_OF(DW_CFA_restore_state)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(0x3f)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_offset, 0x80)), CFI_ENDED); /* half a number */
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1)),
                     CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_expression, CFI_RIP, 3, DW_OP_lit0)), CFI_ENDED);
    uint8_t nested[9];
    memset(nested, DW_CFA_remember_state, sizeof nested);
    assert_int_equal(result_of((struct code){nested, 8}), CFI_STEPPED);
    assert_int_equal(result_of((struct code){nested, 9}), CFI_ENDED);
}

TEST(expressions_that_make_no_sense_end_the_walk)
{
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_expression, 0)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_expression, 1, DW_OP_deref)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_expression, 2, DW_OP_plus_uconst, 8)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_expression, 2, DW_OP_lit1, DW_OP_plus)), CFI_ENDED);
    assert_int_equal(result_of(CODE_OF(DW_CFA_def_cfa_expression, 4, DW_OP_breg0 + CFI_RSP, 8, DW_OP_skip, 0)), CFI_ENDED);
    const uint8_t top[] = {DW_OP_breg0 + CFI_RSP, 16};
    for (uint8_t below = 7; below <= 8; below++) { /* eight operands are room enough */
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

/* ---- damage ---- */

/* A copy whose last byte lies before memory that cannot be read, so that a read beyond it ends the test. */
static uint8_t *flush_copy(const void *bytes, size_t size, void **area, size_t *area_size)
{
    size_t pages = (size + PAGE - 1) / PAGE * PAGE;
    *area_size = pages + 2 * PAGE;
    *area = mmap(NULL, *area_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(*area, MAP_FAILED);
    char *start = (char *)*area + PAGE;
    assert_int_equal(mprotect(start, pages, PROT_READ | PROT_WRITE), 0);
    memcpy(start + pages - size, bytes, size);
    return (uint8_t *)start + pages - size;
}

static void assert_sound(const struct cfi_abi *of, enum cfi_result result, const struct cfi_frame *before,
                         const struct cfi_frame *after)
{
    if (result == CFI_STEPPED) {
        assert_true(after->known >> of->pc & 1 && after->known >> of->sp & 1);
        assert_int_not_equal(after->registers[of->pc], 0);
    } else {
        assert_memory_equal(before, after, sizeof *before);
    }
}

/* Every byte in turn becomes each of these, or loses one bit; and the tables end at every byte. */
TEST(damaged_tables_are_survived)
{
    static const uint8_t values[] = {0, 1, 2, 4, 0x0f, 0x16, 0x1b, 0x3f, 0x7f, 0x80, 0xbf, 0xf0, 0xfe, 0xff};
    const struct tables kinds[] = {
        make_tables(PLAIN, entry_rules, usual),
        make_tables(
            "zPLR", CODE_OF(DW_EH_PE_pcrel | DW_EH_PE_sdata4, 1, 2, 3, 4, DW_EH_PE_udata4, DW_EH_PE_pcrel | DW_EH_PE_sdata4),
            entry_rules,
            CODE_OF(DW_CFA_remember_state, DW_CFA_def_cfa_expression, 3, DW_OP_breg0 + CFI_RBP, 0x78, DW_OP_deref,
                    DW_CFA_expression, CFI_RBX, 2, DW_OP_breg0 + CFI_RSP, 0, DW_CFA_advance_loc | 1, DW_CFA_restore_state)),
    };
    size_t stepped_count = 0, other_count = 0;
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        void *area;
        size_t area_size, size = kinds[kind].size;
        uint8_t *bytes = flush_copy(kinds[kind].bytes, size, &area, &area_size);
        for (size_t at = 0; at < size; at++) {
            for (size_t i = 0; i < sizeof values + 8; i++) {
                struct rerun_input input = rerun_input_of(kinds[kind], 0x10);
                struct cfi_frame before = input.frame;
                bytes[at] = (uint8_t)(i < sizeof values ? values[i] : bytes[at] ^ 1u << (i - sizeof values));
                enum cfi_result result = step_in(&(struct cfi_bytes){TABLES, bytes, size}, &input);
                assert_sound(abi, result, &before, &input.frame);
                *(result == CFI_STEPPED ? &stepped_count : &other_count) += 1;
                bytes[at] = kinds[kind].bytes[at];
            }
        }
        for (size_t left = 1; left < size; left++) {
            memmove(bytes + size - left, kinds[kind].bytes, left);
            struct rerun_input input = rerun_input_of(kinds[kind], 0x10);
            struct cfi_frame before = input.frame;
            struct cfi_module module = {.abi = &cfi_x86_64,
                                        .header = {TABLES, bytes + size - left, left < HEADER_BYTES ? left : HEADER_BYTES},
                                        .segments = {{TABLES, bytes + size - left, left}},
                                        .segment_count = 1};
            const struct cfi_bytes stack = {SP, (const uint8_t *)input.words, sizeof input.words};
            assert_sound(abi, cfi_step(&module, &stack, &input.frame), &before, &input.frame);
        }
        munmap(area, area_size);
    }
    assert_true(stepped_count > 100 && other_count > 100);
}

struct own_tables {
    uint64_t header, header_size, start, size, code, code_size;
};

static int find_own_tables(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct own_tables *own = argument;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_EH_FRAME) {
            own->header = start;
            own->header_size = segment->p_memsz;
        } else if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)) {
            own->code = start;
            own->code_size = segment->p_memsz;
        }
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && own->header >= start && own->header - start < segment->p_filesz) {
            own->start = start;
            own->size = segment->p_filesz;
        }
    }
    return 1; /* the program comes first */
}

/* The tables of this program as its linker made them, with a few random bytes at a time. */
TEST(damage_to_a_programs_own_tables_is_survived)
{
    enum { ROUNDS = 100000, BYTES = 4 };
    struct own_tables own = {0};
    dl_iterate_phdr(find_own_tables, &own);
    assert_true(own.header && own.start && own.code_size);
    void *area;
    size_t area_size, skipped = (size_t)(own.header - own.start), size = (size_t)own.size - skipped;
    const uint8_t *original = (const uint8_t *)(uintptr_t)own.header;
    uint8_t *bytes = flush_copy(original, size, &area, &area_size);
    const struct cfi_module module = {.abi = &CFI_HOST,
                                      .header = {own.header, bytes, own.header_size},
                                      .segments = {{own.header, bytes, size}},
                                      .segment_count = 1};
    size_t stepped_count = 0;
    unsigned seed = 1;
    for (int round = 0; round < ROUNDS; round++) {
        struct rerun_input input = rerun_input_of((struct tables){.size = 0}, 0);
        size_t at[BYTES];
        for (int i = 0; i < BYTES && round % 2; i++) {
            at[i] = (size_t)rand_r(&seed) % size;
            bytes[at[i]] = (uint8_t)rand_r(&seed);
        }
        input.frame.registers[CFI_HOST.sp] = SP;
        input.frame.registers[CFI_HOST.fp] = SP + 32;
        input.frame.known = CFI_BIT(CFI_HOST.sp) | CFI_BIT(CFI_HOST.fp) | CFI_BIT(CFI_HOST.pc);
        input.frame.registers[CFI_HOST.pc] = own.code + (uint64_t)rand_r(&seed) % own.code_size;
        struct cfi_frame before = input.frame;
        const struct cfi_bytes stack = {SP, (const uint8_t *)input.words, sizeof input.words};
        enum cfi_result result = cfi_step(&module, &stack, &input.frame);
        assert_sound(&CFI_HOST, result, &before, &input.frame);
        stepped_count += result == CFI_STEPPED;
        for (int i = 0; i < BYTES && round % 2; i++)
            bytes[at[i]] = original[at[i]];
    }
    assert_true(stepped_count > ROUNDS / 4);
    munmap(area, area_size);
}
