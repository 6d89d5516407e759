/* What a kernel's name says about its arguments, and where a box of a tensor map leaves the memory. */
#include "support/test.h"

#include "analysis/verdict/signature.h"
#include "analysis/verdict/launches.h"
#include "launch/tensor_maps.h"

TEST(pointers_to_const_are_told_apart)
{
    static const struct {
        const char *name;
        size_t count;
        unsigned is_const; /* a bit for each argument */
    } cases[] = {
        {"copy(float const*, float*, int)", 3, 1},
        {"copy(float*, float const*, int)", 3, 2},
        {"void k<float, 4>(float const* __restrict, float* __restrict)", 2, 1},
        {"void k<int const*>(int*)", 1, 0},
        {"k(float const* const*, float* const*)", 2, 3}, /* arrays of pointers, which are only read */
        {"k(int const volatile*, int volatile*)", 2, 1},
        {"k(std::array<float const*, 3ul>, float const*)", 2, 2},
        {"k(void (*)(int, float const*), char const*)", 2, 2},
        {"k(Pair<int, long> const*, Pair<int, long>*)", 2, 1},
        {"(anonymous namespace)::k(unsigned char const*)", 1, 1},
        {"void f<g(int)::{lambda(int)#1}>(g(int)::{lambda(int)#1}, float const*)", 2, 2},
        {"k(float const*, float*)", 3, 0}, /* not the list that the driver knows */
        {"k(float const*)", 0, 0},
        {"k()", 0, 0},
        {"k_oob", 1, 0},
        {"", 1, 0},
        {")", 1, 0},
        {"k(float const*) [clone .1]", 1, 0},
        {"operator->(a const*)", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t k = 0; k < 4; k++)
            if (signature_is_const(cases[i].name, cases[i].count, k) != (int)(cases[i].is_const >> k & 1))
                fail_msg("%s, argument %zu", cases[i].name, k);
    assert_false(signature_is_const(NULL, 1, 0));
    assert_true(signature_is("look_up(unsigned long long, float*)", 2, 0, "unsigned long long"));
    assert_false(signature_is("count(unsigned long, float*)", 2, 0, "unsigned long long"));
    assert_false(signature_is("count(a::unsigned long long)", 1, 0, "unsigned long long") ||
                 signature_is(NULL, 1, 0, "unsigned long long"));
}

/* Of the first four arguments. */
TEST(elements_have_a_type)
{
    static const struct {
        const char *name;
        size_t count;
        const char *types; /* "-": none is known */
    } cases[] = {
        {"k(float const*, double*, int)", 3, "float32 float64 - -"},
        {"k(float const*, double*, int)", 2, "- - - -"}, /* not the list that the driver knows */
        {"void k<float>(float4 const volatile* __restrict)", 1, "float32 - - -"},
        {"k(__nv_fp8_e4m3 const*, c10::Float8_e5m2*)", 2, "float8_e4m3fn float8_e5m2 - -"},
        {"k(__half const*, __nv_bfloat16*, __half2*, __nv_bfloat162 const*)", 4, "float16 bfloat16 float16 bfloat16"},
        {"k(double4_16a*, double4_32a const*, __nv_fp8x4_e4m3*, __nv_fp8x2_e5m2 const*)", 4,
         "float64 float64 float8_e4m3fn float8_e5m2"},
        {"k(unsigned char*, unsigned int*, unsigned long long*, long const*)", 4, "uint8 uint32 uint64 int64"},
        {"k(float**, void*, uint4*, Row*)", 4, "uint64 - - -"},
        {"k(float const* const*)", 1, "uint64 - - -"},
        {"k(*)", 1, "- - - -"},
        {"k_oob", 1, "- - - -"},
        {NULL, 1, "- - - -"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char types[128] = "";
        for (size_t k = 0; k < 4; k++) {
            enum value_type type = signature_elements(cases[i].name, cases[i].count, k);
            strcat(strcat(types, k ? " " : ""), type == VALUE_TYPES ? "-" : value_names[type]);
        }
        assert_string_equal(types, cases[i].types);
    }
}

/* ---- boxes of tensor maps ---- */

#define BASE UINT64_C(0x7e0000001000)
#define ROOM 65536u /* 256 rows of 64 floats */

static struct tensor_map map_of(uint8_t first, uint64_t rows)
{
    struct tensor_map map = {.bytes = {first, 2, 3},
                             .base = BASE,
                             .rank = 2,
                             .element_bits = 32,
                             .size = {60, rows},
                             .stride = {0, 256},
                             .box = {64, 16},
                             .buffer = 1,
                             .room = ROOM};
    return map;
}

struct story {
    struct tensor_map maps[2];
    cufence_buffer buffer;
    struct fault_memory memory;
    uint8_t parameters[112 + 2 * MAP_BYTES];
    struct evidence_lane lane;
    struct evidence_stop stop;
    struct evidence evidence;
};

/* The kernel was given the map behind 112 bytes, as an alignment of 64 has it on sm_90. */
static void tell(struct story *story, struct tensor_map map, int column, int row)
{
    *story = (struct story){.maps = {map, map_of(9, 2)}, .buffer = {.id = 1, .address = BASE, .size = ROOM}};
    memcpy(story->parameters + 112, map.bytes, MAP_BYTES);
    story->memory = (struct fault_memory){.near = &story->buffer, .near_count = 1, .maps = story->maps, .map_count = 2};
    story->stop = (struct evidence_stop){.lanes = &story->lane,
                                         .lane_count = 1,
                                         .parameters = story->parameters,
                                         .parameter_bytes = sizeof story->parameters,
                                         .box = {2, {column, row}}};
    story->evidence = (struct evidence){.stops = &story->stop, .stop_count = 1};
}

static void expect(struct story *story, uint64_t offset, uint32_t bytes)
{
    boxes_place(&story->evidence, &story->memory);
    assert_int_equal(story->lane.certainty, bytes ? CERTAIN_DERIVED : CERTAIN_NOT);
    if (bytes)
        assert_int_equal(story->lane.address, BASE + offset);
    assert_int_equal(story->stop.access_bytes, bytes);
}

static void expect_nothing(struct story *story)
{
    expect(story, 0, 0);
}

static void expect_at(struct tensor_map map, int column, int row, uint64_t offset, uint32_t bytes)
{
    struct story story;
    tell(&story, map, column, row);
    expect(&story, offset, bytes);
}

TEST(test_past_the_end)
{
    expect_at(map_of(1, 512), 0, 272, 272 * 256, 240); /* what is behind the tensor's 60 columns is not read */
    expect_at(map_of(1, 512), 0, 250, 256 * 256, 240); /* the first of its rows that is outside */
    expect_at(map_of(1, 512), 32, 256, 256 * 256 + 128, 112);
    expect_at(map_of(1, 512), -8, 256, 256 * 256, 224);
    struct tensor_map map = map_of(1, 512);
    map.room -= 300; /* the buffer's end is in the middle of row 254 */
    expect_at(map, 0, 240, 254 * 256, 240);
}

TEST(test_inside)
{
    expect_at(map_of(1, 256), 0, 240, 0, 0);
    expect_at(map_of(1, 256), 0, 256, 0, 0); /* all of the box is outside of the tensor, and nothing is accessed */
    expect_at(map_of(1, 512), 0, -20, 0, 0);
    expect_at(map_of(1, 512), 64, 300, 0, 0);
}

TEST(test_freed)
{
    struct story story;
    tell(&story, map_of(1, 256), 0, 32);
    story.buffer.freed_ns = 5;
    expect(&story, 32 * 256, 240);
}

TEST(test_what_the_driver_encodes_wrongly)
{
    struct tensor_map map = map_of(1, 16); /* 60 of 64 columns: not dense */
    assert_false(map_is_misencoded(&map));
    map.bytes[10] = 0x20; /* bit 85 */
    assert_true(map_is_misencoded(&map));
    map.room = 128 << 10;
    assert_false(map_is_misencoded(&map));
    map.room = 64 << 10;
    map.size[0] = 64;
    assert_false(map_is_misencoded(&map));
}

TEST(test_three_dimensions)
{
    struct story story;
    struct tensor_map map = {.bytes = {1},
                             .base = BASE,
                             .rank = 3,
                             .element_bits = 8,
                             .size = {16, 4, 3},
                             .stride = {0, 16, 64},
                             .box = {16, 2, 2},
                             .buffer = 1,
                             .room = 160};
    tell(&story, map, 0, 1);
    story.stop.box = (struct evidence_box){3, {0, 1, 1}};
    expect(&story, 2 * 64 + 2 * 16, 16);
}

TEST(test_what_is_not_known)
{
    struct story story;
    struct tensor_map map = map_of(1, 512);
    map.box[0] = 0; /* im2col */
    expect_at(map, 0, 272, 0, 0);
    map = map_of(1, 512);
    map.element_bits = 0;
    expect_at(map, 0, 272, 0, 0);
    tell(&story, map_of(1, 512), 0, 272);
    story.stop.box.dimensions = 3;
    expect_nothing(&story);
    tell(&story, map_of(1, 512), 0, 272); /* another map explains it, too */
    story.maps[1] = map_of(9, 512);
    memcpy(story.parameters + 112 + MAP_BYTES, story.maps[1].bytes, MAP_BYTES);
    expect_nothing(&story);
}

/* The program writes another map in place of the one that it had copied there, and then something else. */
TEST(test_a_copy_is_overwritten)
{
    const uint64_t place = 0x7e0000009000;
    const uint8_t nothing[MAP_BYTES] = {0};
    struct tensor_map first = map_of(1, 512), second = map_of(2, 512);
    first.base = 0x1000;
    second.base = 0x2000;
    maps_add(&first);
    maps_add(&second);
    maps_copied(place, first.bytes, MAP_BYTES);
    assert_int_equal(maps_base_at(place), first.base);
    maps_copied(place, second.bytes, MAP_BYTES);
    assert_int_equal(maps_base_at(place), second.base);
    struct tensor_map kept;
    assert_true(maps_find(first.bytes, &kept));
    assert_int_equal(kept.copied_to, 0);
    maps_copied(place - 8, nothing, sizeof nothing);
    assert_int_equal(maps_base_at(place), 0);
}

TEST(test_a_copy_in_memory)
{
    struct story story;
    uint64_t copied = 0x7e0000009000;
    tell(&story, map_of(1, 512), 0, 272);
    memset(story.parameters, 0, sizeof story.parameters);
    memcpy(story.parameters + 8, &copied, sizeof copied);
    expect_nothing(&story);
    story.maps[0].copied_to = copied;
    expect(&story, 272 * 256, 240);
}
