/* The types of what kernels' pointers point to: from the signature, or the name. */
#include "support/test.h"

#include "inspect/values/types.h"

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
    assert_int_equal(type_of(mixed, 3, TYPE_UNKNOWN), VALUE_WORD);
    struct reached constant = reached_by(mixed, 0), other = reached_by(mixed, 1);
    assert_true(types_is_const(mixed, &constant) && !types_is_const(mixed, &other));
    assert_string_equal(types_names(mixed)->plain, "mixed");
}

TEST(it_says_nothing_of_what_is_in_structs)
{
    const struct launch_function *function = function_of("_Z6structPKi", 1, 24);
    assert_int_equal(type_of(function, 0, TYPE_UNKNOWN), VALUE_WORD);
    struct reached reached = reached_by(function, 0);
    assert_false(types_is_const(function, &reached));
}

/* What it speaks of, if that is one floating-point type alone. */
TEST(the_name_says)
{
    static const struct {
        const char *name;
        enum value_type type;
    } cases[] = {{"_Z4gemmIN3c104HalfEEvPv", VALUE_FLOAT16}, /* gemm<c10::Half>(void*) */
                 {"_Z3addIN3c108BFloat16EEvPv", VALUE_BFLOAT16},
                 {"_Z4gemmIfEvPv", VALUE_FLOAT32},
                 {"_Z4gemmIdEvPv", VALUE_FLOAT64},
                 {"_Z4gemmIf6__halfEvPv", VALUE_WORD},
                 {"_Z6gatherIflEvPv", VALUE_WORD}, /* gather<float, long>(void*) */
                 {"_Z5packsIfhEvPv", VALUE_WORD},  /* ... unsigned char */
                 {"_Z4gemmIiEvPv", VALUE_WORD},
                 {"_Z13multi_outputsIfEvPv", VALUE_WORD},
                 {"_Z12LoadWithCastIfEvPv", VALUE_WORD},
                 {"_Z7floatedPv", VALUE_WORD},
                 {"sm80_xmma_gemm_f32f32_f32f32_f32_nt_n", VALUE_WORD}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct launch_function *function = function_of(cases[i].name, 1, 8);
        if (type_of(function, 0, cases[i].type == VALUE_WORD ? TYPE_UNKNOWN : TYPE_NAME) != cases[i].type)
            fail_msg("%s", cases[i].name);
    }
}
