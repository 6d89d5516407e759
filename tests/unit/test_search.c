/*
 * The search for the thread that leaves the memory: ptxas's code of a gather, values[i] = table[keys[i]], with its keys in
 * memory of the test; loads of all widths; what is lost, and what is over.
 */
#include "support/test.h"

#include "analysis/sass/search.h"

#include "support/fixture.h"

#define START UINT64_C(0x7f1200003000)
#define COUNT 1000u
#define TABLE UINT64_C(0x10020000000)
#define KEYS UINT64_C(0x10030000000)
#define VALUES UINT64_C(0x10040000000)
#define KEY_LOAD 13 /* numbers of instructions */
#define TABLE_LOAD 15

static int32_t keys[COUNT];

static struct world {
    struct emulate_launch launch;
    struct emulate_memory memory;
    struct sass_access access;
    struct search search;
    uint8_t code[19 * 16], parameters[32];
    int is_hidden;           /* the keys are not known */
    unsigned asked, allowed; /* questions whether it is over; 0: it never is */
} world;

static int read_keys(void *user, uint64_t address, void *bytes, size_t size)
{
    if (world.is_hidden || address < KEYS || address - KEYS > sizeof(keys) - size)
        return 0;
    memcpy(bytes, (const uint8_t *)keys + (address - KEYS), size);
    return 1;
}

static enum search_region region_of(void *user, uint64_t address, uint64_t bytes)
{
    static const uint64_t starts[] = {TABLE, KEYS, VALUES};
    for (size_t i = 0; i < 3; i++)
        if (address - starts[i] <= 4ul * COUNT - bytes)
            return SEARCH_INSIDE;
    return address >> 36 == TABLE >> 36 ? SEARCH_OUTSIDE : SEARCH_UNKNOWN;
}

static int is_over(void *user)
{
    return ++world.asked > world.allowed && world.allowed;
}

static void make(unsigned access)
{
    static const uint64_t pointers[] = {TABLE, KEYS, VALUES};
    static const uint32_t count = COUNT;
    world = (struct world){.memory = {read_keys, NULL}};
    struct span code = fixture_code("demo_use_after_free_90");
    assert_int_equal(code.size, sizeof(world.code));
    memcpy(world.code, code.bytes, code.size);
    fixture_free(code);
    memcpy(world.parameters, pointers, sizeof(pointers));
    memcpy(world.parameters + sizeof(pointers), &count, sizeof(count));
    world.launch = (struct emulate_launch){.code = {world.code, sizeof(world.code)},
                                           .start = START,
                                           .sm = 90,
                                           .parameters = {world.parameters, sizeof(world.parameters)},
                                           .parameters_at = 0x210,
                                           .grid = {8, 1, 1},
                                           .block = {128, 1, 1},
                                           .memory = &world.memory};
    assert_true(sass_decode(sass_load(world.code + access * 16), 90, &world.access));
    world.search = (struct search){.launch = &world.launch,
                                   .access = &world.access,
                                   .access_pc = START + access * 16,
                                   .region = region_of,
                                   .is_over = is_over};
    for (uint32_t i = 0; i < COUNT; i++)
        keys[i] = (int32_t)i;
}

static void expect_found(const struct search *search, size_t lanes, uint32_t block, uint32_t thread, uint64_t address)
{
    assert_int_equal(search->lane_count, lanes);
    assert_int_equal(search->block[0], block);
    assert_int_equal(search->lanes[0].thread[0], thread);
    assert_int_equal(search->lanes[0].lane, thread % 32);
    assert_true(search->lanes[0].address == address);
    assert_int_equal(search->lost, 0);
    assert_int_equal(search->is_over_before, 0);
}

static void expect_none(const struct search *search, size_t followed, size_t lost, uint64_t lost_at, int is_over_before)
{
    assert_int_equal(search->lane_count, 0);
    assert_int_equal(search->followed, followed);
    assert_int_equal(search->lost, lost);
    if (lost)
        assert_int_equal(search->lost_at, lost_at);
    assert_int_equal(search->is_over_before, is_over_before);
}

static const struct search *searched(void)
{
    assert_true(search_all(&world.search, 1));
    return &world.search;
}

TEST(the_thread_is_found)
{
    make(TABLE_LOAD);
    keys[3 * 128 + 53] = COUNT;
    keys[3 * 128 + 60] = COUNT + 9;
    keys[3 * 128 + 64] = COUNT; /* of the next warp */
    expect_found(searched(), 2, 3, 53, TABLE + 4ul * COUNT);
    assert_int_equal(world.search.lanes[1].thread[0], 60);
    assert_true(world.search.lanes[1].address == TABLE + 4ul * (COUNT + 9));
    make(TABLE_LOAD); /* the last block comes before all, and the first one before those between them */
    keys[900] = keys[5] = keys[600] = -1;
    expect_found(searched(), 1, 7, 4, TABLE - 4);
    keys[900] = 0;
    make(TABLE_LOAD);
    keys[5] = keys[600] = -1;
    expect_found(searched(), 1, 0, 5, TABLE - 4);
    make(TABLE_LOAD);
    expect_none(searched(), 1024, 0, 0, 0);
}

/* Each thread is followed once, and past what it has found. */
TEST(several_accesses_are_followed_at_once)
{
    make(KEY_LOAD);
    const struct sass_access keyed = world.access;
    make(TABLE_LOAD);
    keys[3 * 128 + 53] = COUNT;
    struct search searches[] = {world.search, world.search, world.search};
    searches[1].access = &keyed;
    searches[1].access_pc = START + KEY_LOAD * 16;
    searches[2].access_pc = START + 19 * 16; /* nobody comes there */
    assert_true(search_all(searches, 3));
    expect_found(&searches[0], 1, 3, 53, TABLE + 4ul * COUNT);
    for (size_t i = 1; i < 3; i++)
        expect_none(&searches[i], 1024, 0, 0, 0);
    make(TABLE_LOAD);
    world.is_hidden = 1;
    searches[0] = world.search;
    searches[1].followed = 0;
    assert_true(search_all(searches, 2));
    assert_int_equal(searches[0].lost, 1000); /* the address is not known; the way is */
    expect_none(&searches[1], 1024, 0, 0, 0);
}

/* The block's threads are numbered as the hardware does it. */
TEST(blocks_have_three_dimensions)
{
    make(KEY_LOAD);
    world.launch.grid[0] = 2;
    world.launch.grid[1] = world.launch.grid[2] = 2;
    world.launch.block[0] = 8;
    world.launch.block[1] = 3;
    world.launch.block[2] = 2;
    memset(world.parameters + 24, 0xff, 2); /* 65,535 elements */
    world.launch.parameters_at = 0x210;
    uint64_t far = KEYS + 4ul * (COUNT - 12);
    memcpy(world.parameters + 8, &far, sizeof(far)); /* i is 8 * blockIdx.x + threadIdx.x: up to 15 */
    assert_true(search_all(&world.search, 1));
    assert_int_equal(world.search.block[0], 1);
    assert_int_equal(world.search.block[1], 1);
    assert_int_equal(world.search.block[2], 1);
    assert_int_equal(world.search.lane_count, 16); /* of 32 in the first warp: threads 4 to 7 of four rows */
    assert_int_equal(world.search.lanes[4].thread[0], 4);
    assert_int_equal(world.search.lanes[4].thread[1], 1);
    assert_int_equal(world.search.lanes[15].thread[1], 0);
    assert_int_equal(world.search.lanes[15].thread[2], 1);
}

/* [75:73] of a load: its bytes up to 4, and the sign. */
TEST(loads_have_widths)
{
    static const struct {
        unsigned type;
        int32_t key, index;
    } cases[] = {{0, 0x7fffffff, 255},   {1, 0xff, -1},   {1, 0x17f, 127},
                 {2, 0x7fffffff, 65535}, {3, 0xffff, -1}, {4, 1007, 1007}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t high;
        make(TABLE_LOAD);
        memcpy(&high, world.code + KEY_LOAD * 16 + 8, 8);
        high = (high & ~(UINT64_C(7) << 9)) | (uint64_t)cases[i].type << 9;
        memcpy(world.code + KEY_LOAD * 16 + 8, &high, 8);
        memset(keys, 0, sizeof(keys));
        keys[996] = cases[i].key;
        assert_true(search_all(&world.search, 1));
        int is_outside = cases[i].index < 0 || cases[i].index >= (int32_t)COUNT;
        assert_int_equal(world.search.lane_count, is_outside);
        if (is_outside)
            assert_true(world.search.lanes[0].address == TABLE + (uint64_t)((int64_t)cases[i].index * 4));
    }
}

TEST(what_is_not_known_is_lost)
{
    make(TABLE_LOAD);
    world.is_hidden = 1;
    keys[5] = COUNT;
    expect_none(searched(), 24, COUNT, TABLE_LOAD * 16, 0); /* the others leave before */
    make(TABLE_LOAD);
    world.launch.memory = NULL;
    expect_none(searched(), 24, COUNT, TABLE_LOAD * 16, 0);
    make(TABLE_LOAD); /* somewhere else */
    keys[5] = INT32_MIN;
    memset(world.parameters + 5, 0x70, 1);
    expect_none(searched(), 24, COUNT, TABLE_LOAD * 16, 0);
    make(KEY_LOAD);
    world.launch.parameters.size = 24; /* the count is cut off, and with it the way */
    expect_none(searched(), 0, 1024, 7 * 16, 0);
}

/* A branch whose way is not known: both ways come to the store, with its address unless the code between changes that. */
TEST(code_without_accesses_is_passed_either_way)
{
    static const struct {
        uint64_t between[2];
        unsigned followed, lost, lost_at;
    } cases[] = {
        {{0x0000000100077802, 0x000fe20000000f00}, 1024, 0, 0},      /* MOV R7, 0x1 */
        {{0x0000000100027802, 0x000fe20000000f00}, 0, 1024, 4 * 16}, /* MOV R2, 0x1 */
        {{0x0000000702007986, 0x000fe2000c101904}, 0, 1024, 2 * 16}, /* STG.E [R2.64], R7 */
        {{0x000000000000794d, 0x000fea0003800000}, 0, 1024, 2 * 16}, /* EXIT */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t code[6][2] = {{0x2000000000027802, 0x000fe20000000f00}, /* MOV R2, 0x20000000 */
                                     {0x0000010000037802, 0x000fe20000000f00}, /* MOV R3, 0x100: TABLE */
                                     {0x0000000000040947, 0x000fea0003800000}, /* @P0 BRA to the store */
                                     {cases[i].between[0], cases[i].between[1]},
                                     {0x0000000702007986, 0x000fe2000c101904},  /* STG.E [R2.64], R7 */
                                     {0x000000000000794d, 0x000fea0003800000}}; /* EXIT */
        make(TABLE_LOAD);
        memcpy(world.code, code, sizeof code);
        world.launch.code.size = sizeof code;
        assert_true(sass_decode(sass_load(world.code + 4 * 16ul), 90, &world.access));
        world.search.access_pc = START + 4 * 16;
        expect_none(searched(), cases[i].followed, cases[i].lost, cases[i].lost_at, 0);
    }
}

TEST(it_can_be_over)
{
    static const uint64_t loop[2] = {0xfffffffc00fc7947, 0x000fc0000383ffff}; /* BRA to itself */
    make(TABLE_LOAD);
    world.allowed = 2; /* warps */
    keys[5] = COUNT;
    expect_none(searched(), 96, 0, 0, 1);
    make(TABLE_LOAD);
    memcpy(world.code, loop, sizeof(loop));
    world.allowed = 5;
    expect_none(searched(), 0, 0, 0, 1);
    assert_int_equal(world.asked, 6);
    make(TABLE_LOAD);
    world.launch.block[0] = 2048; /* damaged */
    expect_none(searched(), 0, 0, 0, 0);
    make(TABLE_LOAD);
    world.launch.grid[1] = 0;
    expect_none(searched(), 0, 0, 0, 0);
}
