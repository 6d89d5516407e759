/* Where the address of an access comes from, and what a kernel writes, by its code. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "analysis/sass/slice.h"
#include "support/fixture.h"
#include "support/golden.h"
#include "analysis/lines/cubin.h"

#define WORD(n) (1u << (n))

struct slice_case {
    const char *kernel; /* of kernels.sass */
    unsigned sm;
    unsigned access; /* number of the instruction */
    struct address_source answer;
};

/* clang-format off */
#define CASE(kernel, sm, access, ...) {#kernel "_" #sm, sm, access, __VA_ARGS__}
#define FROM(words) {1, words, 0}
#define FROM_MEMORY {1, 0, 1}
#define FROM_BOTH(words) {1, words, 1} /* one of them is an index */
#define NOBODY_KNOWS {0, 0, 0}

static const struct slice_case cases[] = {
    /* An argument and an index, on every architecture. */
    CASE(direct, 90, 12, FROM(WORD(0))), CASE(direct, 120, 12, FROM(WORD(0))),
    CASE(atomic, 90, 7, FROM(WORD(0))), CASE(aligned, 90, 11, FROM(WORD(0))), CASE(aligned, 120, 10, FROM(WORD(0))),
    CASE(in_struct, 90, 6, FROM(WORD(3))),
    /* An index of 8 bytes is a word too; what of the two is a pointer is for others to say. */
    CASE(offset64, 75, 9, FROM(WORD(0) | WORD(1))), CASE(offset64, 90, 9, FROM(WORD(0) | WORD(1))),
    /* Loaded, and indexed by what was loaded. */
    CASE(table, 80, 7, FROM(WORD(0))), CASE(table, 80, 10, FROM_MEMORY), CASE(table, 90, 7, FROM(WORD(0))),
    CASE(table, 90, 10, FROM_MEMORY), CASE(table, 100, 10, FROM_MEMORY),
    CASE(by_struct, 90, 3, FROM(WORD(0))), CASE(by_struct, 90, 7, FROM_MEMORY), CASE(by_struct, 120, 7, FROM_MEMORY),
    CASE(shared_pointer, 90, 8, FROM(WORD(0))), CASE(shared_pointer, 90, 18, FROM_MEMORY),
    CASE(constant_var, 90, 6, FROM_MEMORY),
    CASE(gather, 90, 13, FROM(WORD(2))), CASE(gather, 90, 15, FROM(WORD(1))), CASE(gather, 90, 17, FROM(WORD(0))),
    CASE(gather64, 80, 9, FROM(WORD(2))), CASE(gather64, 80, 13, FROM(WORD(1))), CASE(gather64, 80, 15, FROM(WORD(0))),
    CASE(gather64, 90, 16, FROM(WORD(1))), CASE(gather64, 100, 16, FROM(WORD(1))),
    CASE(chars, 90, 6, FROM(WORD(1))), CASE(chars, 90, 10, FROM_BOTH(WORD(0))), CASE(chars, 100, 10, FROM_BOTH(WORD(0))),
    /* One argument or another; the argument first, and then what was loaded. */
    CASE(either, 90, 12, NOBODY_KNOWS), CASE(either, 120, 9, NOBODY_KNOWS),
    CASE(list, 90, 11, NOBODY_KNOWS), CASE(list, 90, 13, NOBODY_KNOWS),
    /* In a function that is called twice, both times with the same argument. */
    CASE(called, 90, 20, FROM(WORD(0))), CASE(called, 100, 20, FROM(WORD(0))),
};
/* clang-format on */

static struct address_source slice_at(struct span code, unsigned sm, unsigned access_at)
{
    struct sass_access access;
    const uint64_t at = (uint64_t)access_at * SASS_INSTRUCTION_BYTES;
    assert_true(at < code.size && sass_decode(sass_load(code.bytes + at), sm, &access));
    return slice_address(code, at, &access, sm);
}

static void expect(const char *name, unsigned access, struct address_source got, struct address_source wanted)
{
    if (got.is_known != wanted.is_known || got.words != wanted.words || got.is_loaded != wanted.is_loaded)
        fail_msg("%s, instruction %u: known %d, words 0x%x, loaded %d", name, access, got.is_known, got.words, got.is_loaded);
}

TEST(kernels_of_ptxas)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct span code = fixture_code(cases[i].kernel);
        expect(cases[i].kernel, cases[i].access, slice_at(code, cases[i].sm, cases[i].access), cases[i].answer);
        fixture_free(code);
    }
}

/* clang-format off */
/* sm_90 */
enum word {
    NOP, LOAD_R2_ARGUMENT_0, LOAD_R2_ARGUMENT_1, PERHAPS_ARGUMENT_1, PERHAPS_ARGUMENT_0, LOAD_R2_MEMORY, LOAD_R2_LOCAL,
    LOAD_R3_ARGUMENT_0, ADD_4, ADD_CARRY, UNKNOWN_INSTRUCTION, INDEXED_BRANCH, CALL_ABSOLUTE, BACK_TO_2, FORWARD_2, STORE,
    STORE_IF_P0, STORE_UNLESS_P0, SET_P0, SET_P1, SET_PREDICATES, SET_R7,
    LOAD_UR4_ARGUMENT_0, SET_UP1, MIX_UR8, CHOOSE_P1, UR4_TO_R2, UR5_TO_R3,
};

static const uint64_t words_of[][2] = {
    [NOP] = {0x0000000000007918, 0x000fc00000000000},
    [LOAD_R2_ARGUMENT_0] = {0x00008400ff027b82, 0x000e220000000a00}, /* LDC.64 R2, c[0x0][0x210] */
    [LOAD_R2_ARGUMENT_1] = {0x00008600ff027b82, 0x000e220000000a00}, /* LDC.64 R2, c[0x0][0x218] */
    [PERHAPS_ARGUMENT_1] = {0x00008600ff020b82, 0x000e220000000a00}, /* @P0 LDC.64 R2, c[0x0][0x218] */
    [PERHAPS_ARGUMENT_0] = {0x00008400ff020b82, 0x000e220000000a00}, /* @P0 LDC.64 R2, c[0x0][0x210] */
    [LOAD_R2_MEMORY] = {0x0000000406027981, 0x000ea2000c1e1b00}, /* LDG.E.64 R2, desc[UR4][R6.64] */
    [LOAD_R2_LOCAL] = {0x0000000001027983, 0x000ea20000100a00}, /* LDL.64 R2, [R1] */
    [LOAD_R3_ARGUMENT_0] = {0x00008400ff037b82, 0x000e220000000800}, /* LDC R3, c[0x0][0x210] */
    [ADD_4] = {0x0000000402027810, 0x000fe20007f1e0ff}, /* IADD3 R2, P0, R2, 0x4, RZ */
    [ADD_CARRY] = {0x000000ffff037210, 0x000fe200007fe403}, /* IADD3.X R3, RZ, RZ, R3, P0, !PT */
    [UNKNOWN_INSTRUCTION] = {0x00000000000079ff, 0x000fe20000000000},
    [INDEXED_BRANCH] = {0x0000000008007949, 0x000fea0003800000}, /* BRX R8 */
    [CALL_ABSOLUTE] = {0x0000000000007943, 0x000fea0003c00000},
    [BACK_TO_2] = {0xfffffffc00e40947, 0x000fea000383ffff}, /* @P0 BRA, 7 instructions back from the next */
    [FORWARD_2] = {0x0000000000080947, 0x000fea0003800000}, /* @P0 BRA, over 2 instructions */
    [STORE] = {0x0000000902007986, 0x000fe2000c101904}, /* STG.E desc[UR4][R2.64], R9 */
    [STORE_IF_P0] = {0x0000000902000986, 0x000fe2000c101904}, /* @P0 STG.E desc[UR4][R2.64], R9 */
    [STORE_UNLESS_P0] = {0x0000000902008986, 0x000fe2000c101904}, /* @!P0 STG.E desc[UR4][R2.64], R9 */
    [SET_P0] = {0x000000010800780c, 0x000fe20003f06270}, /* ISETP.GE.AND P0, PT, R8, 0x1, PT */
    [SET_P1] = {0x000000010800780c, 0x000fe20003f26270}, /* ISETP.GE.AND P1, PT, R8, 0x1, PT */
    [SET_PREDICATES] = {0x0000000308007804, 0x000fe20000000000}, /* R2P PR, R8, 0x3 */
    [LOAD_UR4_ARGUMENT_0] = {0x0000840000047ab9, 0x000fe20000000a00}, /* ULDC.64 UR4, c[0x0][0x210] */
    [SET_UP1] = {0x0000003f0400788c, 0x000fc8000bf25270}, /* UISETP.NE.AND UP1, UPT, UR4, URZ, UPT: its [23:16] is 0 */
    [MIX_UR8] = {0x0000105408087896, 0x000fe2000800000a}, /* UPRMT UR8, UR8, 0x1054, UR10 */
    [CHOOSE_P1] = {0x000000000002781c, 0x000fe40003f2f070}, /* PLOP3.LUT P1, PT, PT, PT, PT, 0x80, 0x2: [23:16] is 2 */
    [UR4_TO_R2] = {0x00000004ff027e24, 0x000fe2000f8e00ff}, /* IMAD.U32 R2, RZ, RZ, UR4 */
    [UR5_TO_R3] = {0x00000005ff037e24, 0x000fe2000f8e00ff}, /* IMAD.U32 R3, RZ, RZ, UR5 */
    [SET_R7] = {0x000000ffff077224, 0x000fe200078e00ff}, /* IMAD.MOV.U32 R7, RZ, RZ, RZ; 0 where a second predicate would be */
};
/* clang-format on */

/* On the heap and to the byte, so that a sanitizer sees a read behind its end. */
static struct address_source slice_of(const enum word *words, size_t count, unsigned access_at)
{
    uint8_t *bytes = malloc(count * SASS_INSTRUCTION_BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < count; i++)
        memcpy(bytes + i * SASS_INSTRUCTION_BYTES, words_of[words[i]], SASS_INSTRUCTION_BYTES);
    struct address_source slice = slice_at((struct span){bytes, count * SASS_INSTRUCTION_BYTES}, 90, access_at);
    free(bytes);
    return slice;
}

/* The access is the last of 8 instructions. */
static const struct {
    const char *name;
    enum word code[8];
    struct address_source answer;
} snippets[] = {
    {"nothing written", {NOP, NOP, NOP, NOP, NOP, NOP, NOP, STORE}, NOBODY_KNOWS},
    {"an argument", {NOP, LOAD_R2_ARGUMENT_1, NOP, NOP, NOP, NOP, NOP, STORE}, FROM(WORD(1))},
    {"the last one counts", {LOAD_R2_MEMORY, LOAD_R2_ARGUMENT_1, NOP, NOP, NOP, NOP, NOP, STORE}, FROM(WORD(1))},
    {"carries", {LOAD_R2_ARGUMENT_0, ADD_4, ADD_CARRY, NOP, NOP, NOP, NOP, STORE}, FROM(WORD(0))},
    {"perhaps another", {LOAD_R2_ARGUMENT_0, PERHAPS_ARGUMENT_1, NOP, NOP, NOP, NOP, NOP, STORE}, NOBODY_KNOWS},
    {"perhaps the same", {LOAD_R2_ARGUMENT_0, PERHAPS_ARGUMENT_0, NOP, NOP, NOP, NOP, NOP, STORE}, FROM(WORD(0))},
    {"perhaps loaded", {LOAD_R2_MEMORY, PERHAPS_ARGUMENT_1, NOP, NOP, NOP, NOP, NOP, STORE}, NOBODY_KNOWS},
    {"one way loads", {LOAD_R2_ARGUMENT_0, FORWARD_2, LOAD_R2_MEMORY, NOP, NOP, NOP, NOP, STORE}, NOBODY_KNOWS},
    {"both ways the same", {LOAD_R2_ARGUMENT_0, FORWARD_2, LOAD_R2_ARGUMENT_0, NOP, NOP, NOP, NOP, STORE}, FROM(WORD(0))},
    {"not its pair", {LOAD_R2_ARGUMENT_1, LOAD_R3_ARGUMENT_0, NOP, NOP, NOP, NOP, NOP, STORE}, NOBODY_KNOWS},
    {"a spilled pointer", {LOAD_R2_LOCAL, NOP, NOP, NOP, NOP, NOP, NOP, STORE}, NOBODY_KNOWS},
    {"behind a call", {LOAD_R2_ARGUMENT_0, CALL_ABSOLUTE, NOP, NOP, NOP, NOP, NOP, STORE}, NOBODY_KNOWS},
    {"before a call", {CALL_ABSOLUTE, LOAD_R2_ARGUMENT_0, NOP, NOP, NOP, NOP, NOP, STORE}, FROM(WORD(0))},
    {"an unknown one may write", {LOAD_R2_ARGUMENT_0, UNKNOWN_INSTRUCTION, NOP, NOP, NOP, NOP, NOP, STORE}, NOBODY_KNOWS},
    {"it may not come there", {UNKNOWN_INSTRUCTION, LOAD_R2_ARGUMENT_0, NOP, NOP, NOP, NOP, NOP, STORE}, FROM(WORD(0))},
    {"if and only if", {LOAD_R2_ARGUMENT_0, PERHAPS_ARGUMENT_1, NOP, NOP, NOP, NOP, NOP, STORE_IF_P0}, FROM(WORD(1))},
    {"if not", {LOAD_R2_ARGUMENT_0, PERHAPS_ARGUMENT_1, NOP, NOP, NOP, NOP, NOP, STORE_UNLESS_P0}, NOBODY_KNOWS},
    {"another if", {LOAD_R2_ARGUMENT_0, PERHAPS_ARGUMENT_1, NOP, SET_P0, NOP, NOP, NOP, STORE_IF_P0}, NOBODY_KNOWS},
    {"perhaps another if",
     {LOAD_R2_ARGUMENT_0, PERHAPS_ARGUMENT_1, FORWARD_2, SET_P0, NOP, NOP, NOP, STORE_IF_P0},
     NOBODY_KNOWS},
    {"all are new", {LOAD_R2_ARGUMENT_0, PERHAPS_ARGUMENT_1, NOP, SET_PREDICATES, NOP, NOP, NOP, STORE_IF_P0}, NOBODY_KNOWS},
    {"others are new", {LOAD_R2_ARGUMENT_0, PERHAPS_ARGUMENT_1, SET_P1, SET_R7, NOP, NOP, NOP, STORE_IF_P0}, FROM(WORD(1))},
    {"both ways if", {LOAD_R2_ARGUMENT_0, PERHAPS_ARGUMENT_1, FORWARD_2, SET_R7, NOP, NOP, NOP, STORE_IF_P0}, FROM(WORD(1))},
    {"others write no uniform register",
     {LOAD_UR4_ARGUMENT_0, SET_UP1, MIX_UR8, UR4_TO_R2, UR5_TO_R3, NOP, NOP, STORE},
     FROM(WORD(0))},
    {"a table of truth is no register", {LOAD_R2_ARGUMENT_0, CHOOSE_P1, NOP, NOP, NOP, NOP, NOP, STORE}, FROM(WORD(0))},
    {"a branch to anywhere", {INDEXED_BRANCH, LOAD_R2_ARGUMENT_0, NOP, NOP, NOP, NOP, NOP, STORE}, NOBODY_KNOWS},
};

TEST(instructions_by_hand)
{
    for (size_t i = 0; i < sizeof(snippets) / sizeof(snippets[0]); i++)
        expect(snippets[i].name, 7, slice_of(snippets[i].code, 8, 7), snippets[i].answer);
}

/* A pointer that a loop moves on, and one that a loop replaces. */
TEST(loops)
{
    static const enum word moves[] = {LOAD_R2_ARGUMENT_0, NOP, STORE, ADD_4, ADD_CARRY, NOP, NOP, NOP, BACK_TO_2};
    static const enum word replaces[] = {LOAD_R2_ARGUMENT_0, NOP, STORE, ADD_4, LOAD_R2_MEMORY, NOP, NOP, NOP, BACK_TO_2};
    expect("moves", 2, slice_of(moves, 9, 2), (struct address_source)FROM(WORD(0)));
    expect("replaces", 2, slice_of(replaces, 9, 2), (struct address_source)NOBODY_KNOWS);
}

TEST(places_that_are_none)
{
    struct sass_access access = {.base = 2, .is_base_wide = 1, .uniform = -1};
    struct span code = fixture_code("direct_90");
    assert_false(slice_address(code, 8, &access, 90).is_known);
    assert_false(slice_address(code, code.size, &access, 90).is_known);
    assert_false(slice_address((struct span){NULL, 0}, 0, &access, 90).is_known);
    fixture_free(code);
}

/* Every byte: nothing is read behind the file, and the work is bounded. */
TEST(damage_is_survived)
{
    struct span file = fixture_read("cubins/triton_add.cubin");
    uint8_t *bytes = malloc(file.size);
    for (size_t i = 0; i < file.size; i++) {
        struct cubin_kernel kernel;
        struct cubin_line line;
        memcpy(bytes, file.bytes, file.size);
        bytes[i] ^= (uint8_t)(1 + i % 255);
        struct span damaged = {bytes, file.size};
        cubin_find_kernel_line(damaged, "add", 0x100, &line);
        cubin_find_kernel(damaged, "add", &kernel);
    }
    free(bytes);
    fixture_free(file);
}
