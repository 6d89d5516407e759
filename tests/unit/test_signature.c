/* What a demangled kernel name says about its arguments. */
#include "support/test.h"

#include "analysis/verdict/signature.h"

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
