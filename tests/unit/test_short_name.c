/* How names of C++ are shortened for people. The mangled ones are real: of g++ 12, and of nvcc 13.0 with Thrust and CUB. */
#include "support/test.h"

#include "base/text.h"
#include "finding/short_name.h"

enum { MOST = 72 };

static void expect(const char *name, size_t most, const char *wanted)
{
    char out[512];
    char *demangled = text_demangled(name);
    short_name(demangled ? demangled : name, most, out, sizeof out);
    free(demangled);
    assert_string_equal(out, wanted);
}

TEST(test_plain_names)
{
    static const char *const cases[][2] = {
        {"k_oob", "k_oob"},
        {"", ""},
        {"_Z4fillIfEvPT_i", "fill<float>"},
        {"_Z12demo_overrunPKiPiPfii", "demo_overrun"},
        {"void (anonymous namespace)::fill<int>(int*)", "fill<int>"},
        {"(anonymous namespace)::fill(int*)", "fill"},
        {"std::enable_if<(1 > 0), void>::type odd<8>(int)", "odd<8>"},
        {"void m<(Mode)1>()", "m<1>"},
        {"_ZNK1SclEi", "S::operator()"},
        {"_ZNK1SltERKS_", "S::operator<"},
        {"int S::operator<< <int>(int)", "S::operator<< <int>"},
        {"operator new(unsigned long)", "operator new"},
        {"main", "main"},
        {"kernel_cutlass_oob_tensorptrf32gmemo10001_tensorptrf32gmemo10001__0", "oob"},
        {"kernel_cutlass_kernel_gemmDense_object_at__TiledMMA_ThrLayoutVMNK1110000_12", "kernel_gemmDense"},
        {"kernel_cutlass_add_one_3", "add_one"},
        {"kernel_cutlass_3", "kernel_cutlass_3"},
        {"oob_Kt1_A1f32_1l1_A1f32_1l1_Si32_I128", "oob"},
        {"my_Kt_1", "my_Kt_1"},
        {"k<a_Kt1_b>(int)", "k<a_Kt1_b>"},
        {"_Kt1_A1f32", "_Kt1_A1f32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i][0], MOST, cases[i][1]);
}

TEST(test_lambdas)
{
    expect("main::{lambda(int)#1}::operator()(int) const", MOST, "main::{lambda}");
    expect("_ZZ4mainENKUliE_clEi", MOST, "main::{lambda}");
    expect(
        "void "
        "at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::"
        "operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, 4, "
        "TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, "
        "at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int, std::array<char*, 2ul>)",
        MOST,
        "at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda::{lambda}, std::array<...>, 4, ...>");
}

TEST(test_template_arguments)
{
    static const char fill[] =
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >"
        "(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)";
    expect(fill, MOST, "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul>>");
    expect(fill, 32, "at::native::vectorized_elementwise_kernel<...>");
    expect(fill, 0, "at::native::vectorized_elementwise_kernel<...>");
    expect("std::_Head_base<0ul, std::thread::_State*, false>::_M_head(std::_Head_base<0ul, std::thread::_State*, false>&)", 32,
           "std::_Head_base<...>::_M_head");
}

TEST(test_libraries)
{
    expect("_ZN3cub17CUB_300001_SM_9006detail11EmptyKernelIvEEvv", MOST, "cub::detail::EmptyKernel<void>");
    expect(
        "void "
        "cub::CUB_300001_SM_900::detail::transform::transform_kernel<cub::CUB_300001_SM_900::detail::transform::policy_hub<"
        "true, cuda::std::__4::tuple<thrust::THRUST_300001_SM_900_NS::detail::normal_iterator<thrust::THRUST_300001_SM_900_NS::"
        "device_ptr<float> > > >::policy1000, int, f(thrust::THRUST_300001_SM_900_NS::device_vector<float, thrust::"
        "THRUST_300001_SM_900_NS::device_allocator<float> >&)::{lambda(float)#1}, thrust::THRUST_300001_SM_900_NS::detail::"
        "normal_iterator<thrust::THRUST_300001_SM_900_NS::device_ptr<float> >, float*>(int, int, bool)",
        120,
        "cub::detail::transform::transform_kernel<cub::detail::transform::policy_hub<...>::policy1000, int, f::{lambda}, "
        "thrust::detail::normal_iterator<...>, float*>");
    expect("_ZN1S2goENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", MOST, "S::go");
    expect("void take<std::__cxx11::list<int> >()", MOST, "take<std::list<int>>");
    expect("on<std::function<int (std::vector<int>&, double)> >", MOST, "on<std::function<int (std::vector<int>&, double)>>");
}

/* Damaged names, and names that are cut: nothing is read behind the end, and something is written. */
TEST(test_odd_names)
{
    static const char name[] =
        "void at::native::kernel<4, at::f(int)::{lambda()#3}::operator()() const, std::array<char*, 2ul> >(int)";
    char out[64];
    for (size_t length = 0; length <= sizeof name - 1; length++) {
        char *cut = strndup(name, length);
        short_name(cut, 32, out, sizeof out);
        assert_true(strlen(out) <= length);
        free(cut);
    }
    expect("weird)>>(", MOST, "weird)>>");
    expect(">>>}}))", MOST, ">>>}}))");
    short_name("much_longer_than_that", MOST, out, 8);
    assert_string_equal(out, "much_lo");
    /* Deep and long ones take neither stack nor time. */
    enum { LENGTH = 1000000 };
    static const char *const patterns[] = {"<", "&(", "()", "(", "a<", "{lambda", " (", "operator", "a::"};
    char *deep = calloc(1, LENGTH + 8);
    assert_non_null(deep);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        for (size_t at = 0; at < LENGTH; at++)
            deep[at] = patterns[i][at % strlen(patterns[i])];
        memcpy(deep + LENGTH, ")::x", 5);
        short_name(deep, MOST, out, sizeof out);
        assert_true(strlen(out) < sizeof out);
        short_name_is_plumbing(deep);
    }
    free(deep);
}

TEST(test_plumbing)
{
    static const char *const plumbing[] = {
        "std::_Function_handler<void (int), main::{lambda(int)#1}>::_M_invoke(std::_Any_data const&, int&&)",
        "std::function<void (int)>::operator()(int) const",
        "void std::__invoke_impl<void, main::{lambda(int)#1}&, int>(std::__invoke_other, main::{lambda(int)#1}&, int&&)",
        "std::enable_if<is_invocable_r_v<void, main::{lambda(int)#1}&, int>, void>::type std::__invoke_r<void, "
        "main::{lambda(int)#1}&, int>(main::{lambda(int)#1}&, int&&)",
        "void std::thread::_Invoker<std::tuple<main::{lambda(int)#2}, int> >::_M_invoke<0ul, 1ul>(std::_Index_tuple<0ul, 1ul>)",
        "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda(int)#2}, int> > >::_M_run()",
        "std::__1::__function::__func<main::$_0, std::__1::allocator<main::$_0>, void (int)>::operator()(int&&)",
        "execute_native_thread_routine",
    };
    static const char *const others[] = {"main",
                                         "",
                                         "take(std::function<void (int)>)",
                                         "std::sort<int*>(int*, int*)",
                                         "std::function<void (int)> make()",
                                         "at::native::invoke(int)"};
    for (size_t i = 0; i < sizeof plumbing / sizeof *plumbing; i++)
        if (!short_name_is_plumbing(plumbing[i]))
            fail_msg("%s", plumbing[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (short_name_is_plumbing(others[i]))
            fail_msg("%s", others[i]);
}
