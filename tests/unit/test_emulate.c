/*
 * The emulator: ptxas's code for one kernel on each architecture, `if (i <= n) x = in[i]` with i = blockIdx.x * blockDim.x +
 * threadIdx.x; loops and budgets; and results that the lane's registers contradict.
 */
#include "support/test.h"

#include "analysis/sass/emulate_state.h"
#include "analysis/sass/ways.h"

#include "support/fixture.h"

#define START 0x7f1200003000u
#define IN 0x10020000000u
#define COUNT 1000u

#define NOP                                                                                                                    \
    {                                                                                                                          \
        0x0000000000007918, 0x000fc00000000000                                                                                 \
    }
#define UNLESS_P0                                                                                                              \
    {                                                                                                                          \
        0x0000000000040947, 0x000fea0003800000                                                                                 \
    } /* branches */

struct kernel {
    const char *name; /* in kernels.sass */
    unsigned sm;
    uint64_t parameters_at; /* of (in, out, n) in constant bank 0 */
    unsigned access;        /* number of the instruction that loads in[i] */
};

static const struct kernel kernels[] = {
    {"load_75", 75, 0x160, 8}, {"load_80", 80, 0x160, 9}, {"load_90", 90, 0x210, 12}, {"load_100", 100, 0x380, 12}};

struct fixture {
    uint8_t code[160 * SASS_INSTRUCTION_BYTES];
    uint8_t parameters[32];
    uint32_t registers[16];
    struct emulate_launch launch;
    struct emulate_lane lane;
    struct sass_access access;
    uint64_t access_pc;
};

static void put_code(struct fixture *fixture, const uint64_t (*code)[2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(fixture->code + i * SASS_INSTRUCTION_BYTES, code[i], SASS_INSTRUCTION_BYTES);
    fixture->launch.code = (struct span){fixture->code, count * SASS_INSTRUCTION_BYTES};
}

static void put_kernel(struct fixture *fixture, const char *name)
{
    struct span code = fixture_code(name);
    put_code(fixture, (const uint64_t(*)[2])(const void *)code.bytes, code.size / SASS_INSTRUCTION_BYTES);
    fixture_free(code);
}

static void stand_behind(struct fixture *fixture, size_t access)
{
    fixture->access_pc = START + access * SASS_INSTRUCTION_BYTES;
    fixture->lane.pc = fixture->access_pc + SASS_INSTRUCTION_BYTES;
    assert_true(sass_decode(sass_load(fixture->code + access * SASS_INSTRUCTION_BYTES), fixture->launch.sm, &fixture->access));
}

/* The lane of thread `thread` of block 7, which stands behind the load. */
static void make(struct fixture *fixture, const struct kernel *kernel, uint32_t thread)
{
    static const uint64_t in = IN;
    static const uint32_t count = COUNT;
    memset(fixture, 0, sizeof(*fixture));
    put_kernel(fixture, kernel->name);
    memcpy(fixture->parameters, &in, sizeof(in));
    memcpy(fixture->parameters + 16, &count, sizeof(count));
    fixture->launch.start = START;
    fixture->launch.sm = kernel->sm;
    fixture->launch.parameters = (struct span){fixture->parameters, sizeof(fixture->parameters)};
    fixture->launch.parameters_at = kernel->parameters_at;
    fixture->launch.grid[0] = 8;
    fixture->launch.block[0] = 128;
    fixture->lane.block_index[0] = 7;
    fixture->lane.thread[0] = thread;
    fixture->lane.registers = fixture->registers;
    stand_behind(fixture, kernel->access);
}

/* A lane behind instruction number `access` of this code. */
static void make_code(struct fixture *fixture, unsigned sm, const uint64_t (*code)[2], size_t count, size_t access)
{
    make(fixture, &kernels[2], 0);
    put_code(fixture, code, count);
    fixture->launch.sm = sm;
    stand_behind(fixture, access);
}

static void expect_within(const char *name, const struct fixture *fixture, uint64_t *budget, enum emulate_result result,
                          uint64_t address)
{
    uint64_t found = 0;
    enum emulate_result got = emulate(&fixture->launch, &fixture->lane, fixture->access_pc, &fixture->access, budget, &found);
    if (got != result || (result == EMULATE_ADDRESS && found != address))
        fail_msg("%s: result %d, address 0x%lx", name, (int)got, (unsigned long)found);
}

static void expect(const char *name, const struct fixture *fixture, enum emulate_result result, uint64_t address)
{
    expect_within(name, fixture, &(uint64_t){1000}, result, address);
}

TEST(test_architectures)
{
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        struct fixture fixture;
        make(&fixture, &kernels[i], 104);
        expect(kernels[i].name, &fixture, EMULATE_ADDRESS, IN + 4 * COUNT);
        /* One further lane leaves the kernel before the load, so it cannot have come to where the dump says. */
        make(&fixture, &kernels[i], 105);
        expect(kernels[i].name, &fixture, EMULATE_UNKNOWN, 0);
    }
}

/* The low bits of the offset are the kind of the branch. */
TEST(test_branches)
{
    static const struct {
        struct sass_instruction instruction;
        unsigned sm;
        int64_t offset;
    } branches[] = {{{0xfffffd6100008947, 0x021fea000383ffff}, 75, -672},  /* @!P0 BRA.U */
                    {{0x00002be27f007947, 0x000fea000b800000}, 80, 11232}, /* BRA.DIV ~URZ */
                    {{0x0000002306008947, 0x002fea000b800000}, 86, 32},    /* @!P0 BRA.CONV UR6 */
                    {{0x0000001000000944, 0x001fe20003c00000}, 80, 16},    /* @P0 CALL.REL.NOINC */
                    {{0xfffffffc00fc7947, 0x000fc0000383ffff}, 90, -16}};
    for (size_t i = 0; i < sizeof(branches) / sizeof(branches[0]); i++)
        assert_int_equal(instruction_branch_offset(branches[i].instruction, branches[i].sm), branches[i].offset);
}

TEST(test_budget)
{
    for (uint64_t budget = 0; budget < 10; budget++) {
        struct fixture fixture;
        uint64_t left = budget;
        make(&fixture, &kernels[2], 104);
        expect_within("a small budget", &fixture, &left, EMULATE_UNKNOWN, 0);
        assert_int_equal(left, 0);
    }
}

TEST(test_endless_loop)
{
    static const uint64_t loop[][2] = {{0x0000000000007918, 0x000fc00000000000},  /* NOP */
                                       {0xfffffffc00f87947, 0x000fc0000383ffff}}; /* BRA to the start */
    struct fixture fixture;
    uint64_t budget = 50000;
    make(&fixture, &kernels[2], 104);
    put_code(&fixture, loop, 2);
    expect_within("an endless loop", &fixture, &budget, EMULATE_UNKNOWN, 0);
    assert_int_equal(budget, 0);
}

/* A lane whose registers contradict the first way past the access has been there more than once, or elsewhere. */
TEST(test_registers_decide)
{
    /* R4 counts up: MOV R4, 0; LOOP: STG [R4.U64]; IADD3 R4, R4, 1; BRA LOOP */
    static const uint64_t loop[][2] = {{0x0000000000047802, 0x000fe20000000f00},  /* MOV R4, 0x0 */
                                       {0x0000000000057802, 0x000fe20000000f00},  /* MOV R5, 0x0 */
                                       {0x0000000704007986, 0x000fe2000c101904},  /* STG.E [R4.64], R7 */
                                       {0x0000000104047810, 0x000fe20007ffe0ff},  /* IADD3 R4, R4, 0x1, RZ */
                                       {0xfffffffc00f47947, 0x000fc0000383ffff}}; /* BRA to the STG */
    struct fixture fixture;
    make_code(&fixture, 90, loop, 5, 2);
    fixture.lane.pc = START + 4 * SASS_INSTRUCTION_BYTES;
    fixture.lane.register_count = 16;
    fixture.registers[4] = 6;
    expect("its last turn", &fixture, EMULATE_ADDRESS, 5);
    fixture.registers[5] = 1; /* never so */
    expect("no turn", &fixture, EMULATE_UNKNOWN, 0);
}

/* `while (s[i]) i++`, of ptxas for sm_90: the loop that only what is loaded ends. The first turn is known; that the lane is in
 * it is not, unless its registers would be others in the next. */
TEST(test_first_turn)
{
    static const uint64_t code[][2] = {{0x0000820000067ab9, 0x000fe20000000a00},  /* ULDC.64 UR6, c[0x0][0x208] */
                                       {0x0000003f00047c82, 0x000fe20008000000},  /* UMOV UR4, URZ */
                                       {0x00008400000a7ab9, 0x000fca0000000a00},  /* ULDC.64 UR10, c[0x0][0x210] */
                                       {0x0000000a04057290, 0x000fc8000ff1e03f},  /* UIADD3 UR5, UP0, UR4, UR10, URZ */
                                       {0x0000000b04087291, 0x000fe400080f0e3f},  /* ULEA.HI.X.SX32 UR8, UR4, UR11, 0x1, UP0 */
                                       {0x00000005ff027e24, 0x000fc8000f8e00ff},  /* IMAD.U32 R2, RZ, RZ, UR5 */
                                       {0x0000000800037c02, 0x000fca0008000f00},  /* MOV R3, UR8 */
                                       {0x0000000602027981, 0x000ea2000c1e1100},  /* LDG.E.U8 R2, desc[UR6][R2.64] */
                                       {0x00000004ff057e24, 0x000fe2000f8e00ff},  /* IMAD.U32 R5, RZ, RZ, UR4 */
                                       {0x0000000104047890, 0x000fe2000fffe03f},  /* UIADD3 UR4, UR4, 0x1, URZ */
                                       {0x000000ff0200720c, 0x004fda0003f05270},  /* ISETP.NE.AND P0, PT, R2, RZ, PT */
                                       {0xfffffffc00dc0947, 0x000fea000383ffff},  /* @P0 BRA to the UIADD3 */
                                       {0x000000000000794d, 0x000fea0003800000}}; /* EXIT */
    struct fixture fixture;
    make_code(&fixture, 90, code, 13, 7);
    fixture.lane.pc = START + 10 * SASS_INSTRUCTION_BYTES;
    fixture.lane.register_count = 16;
    fixture.registers[3] = IN >> 32;
    expect("the first turn", &fixture, EMULATE_ADDRESS, IN);
    fixture.registers[5] = 1000;
    expect("a later turn", &fixture, EMULATE_EARLIER, IN);
    memcpy(fixture.code + 8 * SASS_INSTRUCTION_BYTES, (const uint64_t[2])NOP, SASS_INSTRUCTION_BYTES);
    expect("any turn", &fixture, EMULATE_EARLIER, IN);
    memcpy(fixture.code + 11 * SASS_INSTRUCTION_BYTES, (const uint64_t[2])NOP, SASS_INSTRUCTION_BYTES);
    expect("no loop", &fixture, EMULATE_ADDRESS, IN);
}

/* 64-bit sums in halves, as sm_75 and sm_80 make them: carries go through predicates. */
TEST(test_carry)
{
    static const uint64_t code[][2] = {{0xfffffff000027802, 0x000fe20000000f00},  /* MOV R2, 0xfffffff0 */
                                       {0x0000000500037802, 0x000fe20000000f00},  /* MOV R3, 0x5 */
                                       {0x0000002002027810, 0x000fe20007f1e0ff},  /* IADD3 R2, P0, R2, 0x20, RZ */
                                       {0x000000ffff037210, 0x000fe200007fe403},  /* IADD3.X R3, RZ, RZ, R3, P0, !PT */
                                       {0x0000000702007986, 0x000fe2000c101904},  /* STG.E [R2.64], R7 */
                                       {0x000000000000794d, 0x000fea0003800000}}; /* EXIT */
    struct fixture fixture;
    make_code(&fixture, 90, code, 6, 4);
    expect("a carry", &fixture, EMULATE_ADDRESS, 0x600000010);
}

/* sm_120 has 64-bit sums and moves. */
TEST(test_wide)
{
    static const uint64_t code[][2] = {{0x3456789abc067402, 0x000fe20000000012},  /* MOV.64 R6, 0x123456789abc */
                                       {0x00000024060a7835, 0x000fca00078e0200},  /* IADD.64 R10, R6, 0x24 */
                                       {0xffffcfc7060e7835, 0x000fe400078e0200},  /* IADD.64 R14, R6, -0x3039 */
                                       {0x8000000e0a067235, 0x000fe400078e0200},  /* IADD.64 R6, R10, -R14 */
                                       {0x0000000600027202, 0x000fe40000010f00},  /* MOV.64 R2, R6 */
                                       {0x0000000702007986, 0x000fe2000c101904},  /* STG.E [R2.64], R7 */
                                       {0x000000000000794d, 0x000fea0003800000}}; /* EXIT */
    struct fixture fixture;
    make_code(&fixture, 120, code, 7, 5);
    expect("64-bit sums", &fixture, EMULATE_ADDRESS, 0x24 + 0x3039);
}

/* Comparisons and choices of pairs, which sm_120 has: R6 = 0x100000005 and R10 = 0xffffffff00000007. */
TEST(test_wide_choices)
{
    /* clang-format off */
    static const struct {
        const char *name;
        uint64_t code[2][2];
        uint64_t address;
    } cases[] = {
        {"ISETP.GE.U64 P0, R6, R10; SEL.64 R2, R6, R10, !P0",
         {{0x0000000a0600720c, 0x000fe40003f16070}, {0x0000000a06027607, 0x000fe40004000000}}, 0x100000005},
        {"ISETP.GE.S64 P0, R6, R10; SEL.64 R2, R6, R10, !P0",
         {{0x0000000a0600720c, 0x000fe40003f16270}, {0x0000000a06027607, 0x000fe40004000000}}, 0xffffffff00000007},
        {"ISETP.EQ.U64 P0, R6, 0x5; SEL.64 R2, R6, 0x7, P0",
         {{0x000000050600780c, 0x000fe40003f12070}, {0x0000000706027407, 0x000fe40000000000}}, 7},
        {"ISETP.EQ.U64 P0, R6, 0x5; SEL.64 R2, R6, -0x1, P0",
         {{0x000000050600780c, 0x000fe40003f12070}, {0xffffffff06027407, 0x000fe40000000001}}, UINT64_MAX},
        {"IMNMX.U64 R2, R6, 0x40000000, PT", {{0x4000000006027817, 0x000fe40003ffe400}, NOP}, 0x40000000},
        {"IMNMX.S64 R2, R6, R10, !PT", {{0x0000000a06027217, 0x000fe40007ffe600}, NOP}, 0x100000005},
        {"IADD R2, R10, R10; it leaves R3 as it is", {{0x0000000a0a027235, 0x000fca00078e0000}, NOP}, 0x00000000e},
        {"IADD R2, P0, R6, -R10; IADD.X R3, R7, ~R11, P0",
         {{0x8000000a06027235, 0x000fca0007800000}, {0x8000000b07037235, 0x000fca00000e0400}}, 0x1fffffffe},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t code[7][2] = {{0x0100000005067402, 0x000fe20000000000},               /* MOV.64 R6 */
                               {0xff000000070a7402, 0x000fe20000ffffff},               /* MOV.64 R10 */
                               {0x0000000000037802, 0x000fe20000000f00}};              /* MOV R3, 0x0 */
        static const uint64_t rest[2][2] = {{0x0000000702007986, 0x000fe2000c101904},  /* STG.E [R2.64], R7 */
                                            {0x000000000000794d, 0x000fea0003800000}}; /* EXIT */
        memcpy(code[3], cases[i].code, sizeof(cases[i].code));
        memcpy(code[5], rest, sizeof(rest));
        struct fixture fixture;
        make_code(&fixture, 120, (const uint64_t(*)[2])code, 7, 5);
        expect(cases[i].name, &fixture, EMULATE_ADDRESS, cases[i].address);
    }
}

/* A copy to shared memory reads nothing where its second predicate is false: masked elements of tiles. */
TEST(test_copy_of_zeros)
{
    static const uint64_t not_p0 = 0x000fe8000c101c46, p0 = 0x000fe80008101c46;
    static const struct {
        const char *name;
        uint64_t set, copy; /* P0, true or false; the high word of LDGSTS.E.BYPASS.128 [R7], desc[UR6][R2.64], P0 or !P0 */
        enum emulate_result result;
    } cases[] = {{"P0 is true", 0x000fe40003f0f070, p0, EMULATE_ADDRESS},
                 {"!P0 is false", 0x000fe40003f0f070, not_p0, EMULATE_NOT_THERE},
                 {"P0 is false", 0x000fe20003f0e170, p0, EMULATE_NOT_THERE},
                 {"!P0 is true", 0x000fe20003f0e170, not_p0, EMULATE_ADDRESS},
                 {"P0 is unknown", 0x000fe40003f03070, p0, EMULATE_UNKNOWN}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t code[5][2] = {{0x0000000200027802, 0x000fe20000000f00}, /* MOV R2, 0x2 */
                                     {0x0000000000037802, 0x000fe20000000f00}, /* MOV R3, 0x0 */
                                     {0x000000000000781c, cases[i].set},       /* PLOP3 P0 */
                                     {0x0000000002077fae, cases[i].copy},
                                     {0x000000000000794d, 0x000fea0003800000}}; /* EXIT */
        struct fixture fixture;
        make_code(&fixture, 90, code, 5, 3);
        expect(cases[i].name, &fixture, cases[i].result, 2);
    }
}

/* A loop over the rows before the access, unrolled by ptxas in four ways, and what it loads does not matter. */
TEST(test_demo_overrun)
{
    static const struct {
        const char *name;
        unsigned sm;
        uint64_t parameters_at;
    } kernels_of_demo[] = {{"demo_overrun_90", 90, 0x210}, {"demo_overrun_120", 120, 0x380}};
    static const uint64_t pointers[3] = {0x10020000000, 0x10030000000, 0x10040000000};
    static const uint32_t numbers[2] = {1000, 8}; /* rows, radius */
    for (size_t i = 0; i < sizeof(kernels_of_demo) / sizeof(kernels_of_demo[0]); i++) {
        uint64_t budget = 1000000; /* of a whole dump */
        for (uint32_t row = 968; row < 1002; row++) {
            struct fixture fixture;
            make(&fixture, &kernels[2], row % 128);
            put_kernel(&fixture, kernels_of_demo[i].name);
            memcpy(fixture.parameters, pointers, sizeof(pointers));
            memcpy(fixture.parameters + sizeof(pointers), numbers, sizeof(numbers));
            fixture.launch.parameters.size = 32;
            fixture.launch.sm = kernels_of_demo[i].sm;
            fixture.launch.parameters_at = kernels_of_demo[i].parameters_at;
            fixture.lane.block_index[0] = row / 128;
            stand_behind(&fixture, fixture.launch.code.size / SASS_INSTRUCTION_BYTES - 2);
            expect_within(kernels_of_demo[i].name, &fixture, &budget, row < 1000 ? EMULATE_ADDRESS : EMULATE_UNKNOWN,
                          pointers[1] + 4 * (row + 1));
        }
        assert_true(budget > 900000);
    }
}

/* table[keys[i]]: where the load goes is in memory, and what comes behind it does not depend on that. */
TEST(test_gather)
{
    static const struct {
        size_t access;
        enum emulate_result result;
        uint64_t address;
    } accesses[] = {{13, EMULATE_ADDRESS, 0x10030000014}, {15, EMULATE_UNKNOWN, 0}, {17, EMULATE_ADDRESS, 0x10040000014}};
    static const uint64_t pointers[3] = {0x10020000000, 0x10030000000, 0x10040000000};
    static const uint32_t count = 1000;
    for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++) {
        struct fixture fixture;
        make(&fixture, &kernels[2], 5);
        put_kernel(&fixture, "demo_use_after_free_90");
        memcpy(fixture.parameters, pointers, sizeof(pointers));
        memcpy(fixture.parameters + sizeof(pointers), &count, sizeof(count));
        fixture.launch.parameters.size = 32;
        fixture.lane.block_index[0] = 0;
        stand_behind(&fixture, accesses[i].access);
        expect("a gather", &fixture, accesses[i].result, accesses[i].address);
    }
}

/* Predicates decide over the way, and so over the address: 2 where the branch is taken, else 1. */
TEST(test_predicates)
{
    /* clang-format off */
    static const struct {
        const char *name;
        uint64_t code[3][2]; /* the last is the branch */
        enum emulate_result result;
        unsigned address;
    } cases[] = {
        {"PLOP3 P0, true", {NOP, {0x000000000000781c, 0x000fe40003f0f070}, UNLESS_P0}, EMULATE_ADDRESS, 2},
        {"PLOP3 P0, false", {NOP, {0x000000000000781c, 0x000fe20003f0e170}, UNLESS_P0}, EMULATE_ADDRESS, 1},
        {"PLOP3 P0, P1", {NOP, {0x000000000000781c, 0x000fe40003f03070}, UNLESS_P0}, EMULATE_UNKNOWN, 0},
        {"PLOP3 P0, P1 or true", {NOP, {0x0000000000f0781c, 0x000fe20003f03f77}, UNLESS_P0}, EMULATE_ADDRESS, 2},
        {"UPLOP3, BRA.U UP0", {NOP, {0x000000000000789c, 0x000fe40003f0f070}, {0x0000000100047547, 0x000fea000b800000}},
         EMULATE_ADDRESS, 2},
        {"UPLOP3, BRA.U !UP0", {NOP, {0x000000000000789c, 0x000fe40003f0f070}, {0x0000000108047547, 0x000fea000b800000}},
         EMULATE_ADDRESS, 1},
        {"BRA.U UP0, unknown", {NOP, NOP, {0x0000000100047547, 0x000fea000b800000}}, EMULATE_UNKNOWN, 0},
        {"BRA.DIV", {NOP, NOP, {0x0000000200047947, 0x000fea0003800000}}, EMULATE_UNKNOWN, 0},
        {"FSETP P1 leaves P0", {{0x000000000000781c, 0x000fe40003f0f070}, {0x000000060500720b, 0x000fe20003f24000}, UNLESS_P0},
         EMULATE_ADDRESS, 2},
        {"FSETP P0", {{0x000000000000781c, 0x000fe40003f0f070}, {0x000000060500720b, 0x000fe20003f04000}, UNLESS_P0},
         EMULATE_UNKNOWN, 0},
        {"UFFMA UR4 leaves UP0", {{0x000000000000789c, 0x000fe40003f0f070}, {0x3f80000005047455, 0x000fc8000b800804},
         {0x0000000100047547, 0x000fea000b800000}}, EMULATE_ADDRESS, 2},
        {"R2UR UR4, R0 leaves UP0", {{0x000000000000789c, 0x000fe40003f0f070}, {0x00000000000472ca, 0x004fda00000e0000},
         {0x0000000100047547, 0x000fea000b800000}}, EMULATE_ADDRESS, 2},
        {"S2UR is guarded by UP0", {{0x000000000000781c, 0x000fe20003f0e170}, {0x00000000000409c3, 0x000e220000002500},
         UNLESS_P0}, EMULATE_ADDRESS, 1},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t code[8][2] = {{0x0000000200027802, 0x000fe20000000f00},               /* MOV R2, 0x2 */
                               {0x0000000000037802, 0x000fe20000000f00}};              /* MOV R3, 0x0 */
        static const uint64_t rest[3][2] = {{0x0000000100027802, 0x000fe20000000f00},  /* MOV R2, 0x1 */
                                            {0x0000000702007986, 0x000fe2000c101904},  /* STG.E [R2.64], R7 */
                                            {0x000000000000794d, 0x000fea0003800000}}; /* EXIT */
        memcpy(code[2], cases[i].code, sizeof(cases[i].code));
        memcpy(code[5], rest, sizeof(rest));
        struct fixture fixture;
        make_code(&fixture, 100, (const uint64_t(*)[2])code, 8, 6);
        expect(cases[i].name, &fixture, cases[i].result, cases[i].address);
    }
}

/* One instruction computes the address of a number in R2. */
TEST(test_numbers)
{
    /* clang-format off */
    static const struct {
        const char *name;
        uint64_t code[2];
        uint32_t number, address;
        int is_unknown;
    } cases[] = {
        {"SGXT.U32 R2, R2, 0x3", {0x000000030202781a, 0x000fc80000000000}, 0xfd, 5, 0},
        {"SGXT R2, R2, 0x3", {0x000000030202781a, 0x000fc80000000200}, 0xfd, 0xfffffffd, 0},
        {"IMNMX R2, R2, 0x5, PT", {0x0000000502027817, 0x000fe40003800200}, 0xfffffffd, 0xfffffffd, 0},
        {"IMNMX.U32 R2, R2, 0x5, !PT", {0x0000000502027817, 0x000fe40007800000}, 3, 5, 0},
        {"VIMNMX R2, R2, 0x5, PT", {0x0000000502027848, 0x000fe20003fe0100}, 9, 5, 0},
        {"VIMNMX.U32 R2, R2, 0x5, !PT", {0x0000000502027848, 0x000fe20007fe0000}, 0xfffffffd, 0xfffffffd, 0},
        {"VIMNMX.U16x2 R2, R2, 0x5, !PT", {0x0000000502027848, 0x000fe20007fe0200}, 9, 0, 1},
        {"IADD R2, -R2, RZ", {0x000000ff02027235, 0x000fca00078e0100}, 9, 0xfffffff7, 0},
        {"IADD R2, R2, 0x9", {0x0000000902027835, 0x000fca00078e0000}, 0xfffffffe, 7, 0},
        {"IADD R2, RZ, -R2", {0x80000002ff027235, 0x000fca00078e0000}, 0xfffffffe, 2, 0},
        {"PRMT R2, R2, 0x4321, RZ", {0x0000432102027816, 0x000fca00000000ff}, 0x81828384, 0x00818283, 0},
        {"PRMT R2, R2, 0x8880, RZ", {0x0000888002027816, 0x000fca00000000ff}, 0x81828384, 0xffffff84, 0},
        {"FLO.U32 R2, R2", {0x0000000200027300, 0x000fca00000e0000}, 0x00100001, 20, 0},
        {"FLO.U32.SH R2, R2", {0x0000000200027300, 0x000fca00000e0400}, 0x00100001, 11, 0},
        {"FLO.U32.SH R2, R2, of 0", {0x0000000200027300, 0x000fca00000e0400}, 0, 0xffffffff, 0},
        {"POPC R2, R2", {0x0000000200027309, 0x000fca0000000000}, 0xf1, 5, 0},
        {"SHF.L.U32 R2, R2, 0x20, RZ", {0x0000002002027819, 0x000fca00000006ff}, 5, 0, 0},
        {"SHF.R.U32.HI R2, RZ, 0x21, R2", {0x00000021ff027819, 0x000fca0000011602}, 5, 0, 0},
        {"SHF.R.S32.HI R2, RZ, 0x40, R2", {0x00000040ff027819, 0x000fca0000011402}, 0xfffffffb, 0xffffffff, 0},
        {"LEA R2, -R2, RZ, 0x5", {0x000000ff02027211, 0x002fe400078e29ff}, 3, 0xffffffa0, 0},
        {"LEA.HI R2, -R2, RZ, RZ, 0x5", {0x000000ff02027211, 0x002fe400078f29ff}, 3, 0, 1},
        {"SHF.L.W.U32.HI R2, R2, 0x21, R2", {0x0000002102027819, 0x000fca0000010e02}, 0x80000001, 3, 0},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t code[6][2] = {{0x0000000000027802 | (uint64_t)cases[i].number << 32, 0x000fe20000000f00}, /* MOV R2 */
                                     {cases[i].code[0], cases[i].code[1]},
                                     {0x0000000000037802, 0x000fe20000000f00},  /* MOV R3, 0x0 */
                                     {0x0000000702007986, 0x000fe2000c101904},  /* STG.E [R2.64], R7 */
                                     {0x000000000000794d, 0x000fea0003800000}}; /* EXIT */
        struct fixture fixture;
        make_code(&fixture, 100, code, 6, 3);
        expect(cases[i].name, &fixture, cases[i].is_unknown ? EMULATE_UNKNOWN : EMULATE_ADDRESS, cases[i].address);
    }
}
