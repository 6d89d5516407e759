/* The types of what kernels' pointers point to: from the user, the signature, or the bytes. */
#include "support/test.h"

#include "lens/values/types.h"

static const struct launch_function *function_of(const char *name, uint32_t count, uint32_t size)
{
    struct launch_function *made = calloc(1, sizeof *made + count * sizeof made->arguments[0]);
    made->name = name;
    made->has_layout = 1;
    made->argument_count = count;
    for (uint32_t i = 0; i < count; i++)
        made->arguments[i] = (struct launch_argument){i * size, size};
    return made;
}

static struct reached reached_by(const struct launch_function *function, int argument)
{
    return (struct reached){.function = function, .argument = argument};
}

static enum value_type type_of(const struct launch_function *function, int argument, enum type_from from)
{
    struct reached reached = reached_by(function, argument);
    struct known_type known = types_of(function, &reached);
    assert_int_equal(known.from, from);
    return known.type;
}

TEST(the_signature_says)
{
    /* mixed(float const*, __half*, __nv_bfloat16 const*, double, unsigned char*) */
    const struct launch_function *mixed = function_of("_Z5mixedPKfP6__halfPK13__nv_bfloat16dPh", 5, 8);
    assert_int_equal(type_of(mixed, 0, TYPE_SIGNATURE), VALUE_FLOAT32);
    assert_int_equal(type_of(mixed, 1, TYPE_SIGNATURE), VALUE_FLOAT16);
    assert_int_equal(type_of(mixed, 2, TYPE_SIGNATURE), VALUE_BFLOAT16);
    assert_int_equal(type_of(mixed, 4, TYPE_SIGNATURE), VALUE_UINT8);
    assert_int_equal(type_of(mixed, 3, TYPE_UNKNOWN), VALUE_TYPES);
    struct reached constant = reached_by(mixed, 0), other = reached_by(mixed, 1);
    assert_true(types_is_const(mixed, &constant) && !types_is_const(mixed, &other));
    assert_string_equal(types_names(mixed)->plain, "mixed");
}

TEST(it_says_nothing_of_what_is_in_structs)
{
    const struct launch_function *function = function_of("_Z6structPKf", 1, 24);
    assert_int_equal(type_of(function, 0, TYPE_UNKNOWN), VALUE_TYPES);
    struct reached reached = reached_by(function, 0);
    assert_false(types_is_const(function, &reached));
}

TEST(the_user_wins)
{
    char problem[512];
    const struct launch_function *gemm = function_of("_Z4gemmPKfPf", 2, 8), *other = function_of("other", 2, 8);
    assert_true(types_override("gem*/1:f16+*Z5oth*:bf16+other:int64", problem, sizeof problem));
    assert_int_equal(type_of(gemm, 0, TYPE_SIGNATURE), VALUE_FLOAT32);
    assert_int_equal(type_of(gemm, 1, TYPE_OPTION), VALUE_FLOAT16);
    assert_int_equal(type_of(other, 0, TYPE_OPTION), VALUE_INT64);
    assert_true(types_override("double", problem, sizeof problem));
    assert_int_equal(type_of(gemm, 1, TYPE_OPTION), VALUE_FLOAT64);
    assert_true(types_override("", problem, sizeof problem));
    assert_int_equal(type_of(gemm, 1, TYPE_SIGNATURE), VALUE_FLOAT32);
}

TEST(what_the_user_says_wrong_is_named)
{
    static const char *const wrong[] = {"f15", "gemm:", ":f16", "gemm:float17", "a:f16+b", "+f16"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char problem[512] = "";
        if (types_override(wrong[i], problem, sizeof problem))
            fail_msg("'%s' is taken", wrong[i]);
        assert_non_null(strstr(problem, "is not of the form"));
    }
    types_override("", (char[16]){""}, 16);
}

static enum value_type guess(const struct launch_function *function, const void *bytes, size_t size)
{
    struct reached reached = reached_by(function, 0);
    return types_guess(function, &reached, bytes, size);
}

TEST(the_bytes_are_remembered)
{
    float numbers[512];
    int64_t indices[512], zeros[512] = {0};
    for (int i = 0; i < 512; i++) {
        numbers[i] = (float)i * 0.37f - 90;
        indices[i] = i - 1;
    }
    const struct launch_function *floats = function_of("floats", 1, 8), *longs = function_of("longs", 1, 8),
                                 *zero = function_of("zero", 1, 8);
    assert_int_equal(guess(floats, numbers, sizeof numbers), VALUE_FLOAT32);
    assert_int_equal(type_of(floats, 0, TYPE_GUESSED), VALUE_FLOAT32);
    assert_int_equal(guess(longs, indices, sizeof indices), VALUE_INT64);
    assert_int_equal(type_of(longs, 0, TYPE_GUESSED), VALUE_INT64);
    assert_int_equal(type_of(longs, 1, TYPE_UNKNOWN), VALUE_TYPES); /* another pointer of it */
    guess(zero, zeros, sizeof zeros);
    assert_int_equal(type_of(zero, 0, TYPE_UNKNOWN), VALUE_TYPES);
}

/* Ones may be of any type; later launches of the kernel show which. */
TEST(what_only_the_name_decides_is_not_remembered)
{
    float ones[128], numbers[128];
    for (int i = 0; i < 128; i++) {
        ones[i] = 1;
        numbers[i] = (float)i * 0.37f - 20;
    }
    /* gemm<c10::Half>(void*) */
    const struct launch_function *gemm = function_of("_Z4gemmIN3c104HalfEEvPv", 1, 8);
    assert_int_equal(guess(gemm, ones, sizeof ones), VALUE_FLOAT16);
    assert_int_equal(type_of(gemm, 0, TYPE_UNKNOWN), VALUE_TYPES);
    assert_int_equal(guess(gemm, numbers, sizeof numbers), VALUE_FLOAT32);
    assert_int_equal(type_of(gemm, 0, TYPE_GUESSED), VALUE_FLOAT32);
}

/* Left-over bytes in a workspace may look so. */
TEST(what_is_narrower_than_the_type_in_the_name_is_doubted)
{
    /* gemm<float>(void*), gemm<float, __half>(void*) */
    const struct launch_function *one = function_of("_Z4gemmIfEvPv", 1, 8), *two = function_of("_Z4gemmIf6__halfEvPv", 1, 8);
    struct reached reached = reached_by(one, 0);
    uint16_t bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint16_t)(0x7b00 + i); /* 57344 and more in float16, no plausible number in wider types */
    assert_int_equal(guess(one, bytes, sizeof bytes), VALUE_FLOAT16);
    assert_int_equal(type_of(one, 0, TYPE_UNKNOWN), VALUE_TYPES);
    assert_true(types_may_be_wider(one, &reached, VALUE_FLOAT16));
    assert_false(types_may_be_wider(two, &reached, VALUE_FLOAT16));
}

TEST(noise_is_bytes)
{
    uint8_t noise[4096];
    uint64_t seed = 88172645463325252u;
    for (size_t i = 0; i < sizeof noise; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        noise[i] = (uint8_t)(seed >> 40);
    }
    assert_int_equal(guess(function_of("noise", 1, 8), noise, sizeof noise), VALUE_UINT8);
}

TEST(names_of_libraries_are_hints)
{
    static const struct {
        const char *name;
        enum value_type type;
    } cases[] = {{"sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize32x32x8", VALUE_FLOAT32},
                 {"sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n", VALUE_FLOAT32},
                 {"ampere_sgemm_32x32_sliced1x4_nt", VALUE_FLOAT32},
                 {"sm80_xmma_gemm_bf16bf16_bf16_nn", VALUE_BFLOAT16},
                 {"ampere_fp16_s16816gemm_fp16_64x64", VALUE_FLOAT16}};
    uint16_t bytes[8] = {0x3c00, 0x4000, 0x3e00, 0x3c00, 0x4100, 0x3d00, 0x3c80, 0x4200}; /* are 1.0 and more in float16 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(bytes, 0x7f, 2); /* a NaN in float16, and in bfloat16 none */
        if (guess(function_of(cases[i].name, 1, 8), bytes, sizeof bytes) != cases[i].type)
            fail_msg("%s", cases[i].name);
    }
    const struct launch_function *mixed = function_of("sm80_xmma_gemm_f16f16_f16f32_f32_nn", 1, 8);
    assert_int_equal(guess(mixed, bytes, sizeof bytes), guess(function_of("plain", 1, 8), bytes, sizeof bytes));
}

TEST(nan_alone_has_a_type)
{
    uint32_t wide[256];
    uint16_t narrow[256];
    for (int i = 0; i < 256; i++) {
        wide[i] = 0x7fffffff; /* as GPUs make it */
        narrow[i] = 0x7fff;
    }
    assert_int_equal(guess(function_of("wide", 1, 8), wide, sizeof wide), VALUE_FLOAT32);
    assert_int_equal(guess(function_of("narrow", 1, 8), narrow, sizeof narrow), VALUE_FLOAT16);
    /* add<c10::BFloat16>(void*) */
    assert_int_equal(guess(function_of("_Z3addIN3c108BFloat16EEvPv", 1, 8), narrow, sizeof narrow), VALUE_BFLOAT16);
    memset(wide, 0xff, sizeof wide);
    assert_int_not_equal(guess(function_of("minus_one", 1, 8), wide, sizeof wide), VALUE_FLOAT32);
}
