/* Which frames are the program's own, how a report writes their files, and how it shortens names of C++. test_golden.c has
 * which ones it shows. */
#include "support/test.h"

#include "finding/frames.h"
#include "base/text.h"
#include "finding/short_name.h"

#define PACKAGES "/venv/lib/python3.12/site-packages/"

TEST(a_test_runner_is_left_out)
{
    static const struct {
        const char *files[5];
        size_t count;
    } rows[] = {
        {{"/home/me/train.py", PACKAGES "torch/x.py", "/home/me/main.py"}, 3},
        {{"/home/me/test_it.py", PACKAGES "_pytest/python.py", PACKAGES "pluggy/_callers.py", "/usr/bin/pytest"}, 1},
        {{PACKAGES "torch/x.py", "/home/me/test_it.py", PACKAGES "pluggy/_callers.py"}, 2},
        {{PACKAGES "_pytest/python.py", "/home/me/a.py", PACKAGES "_pytest/python.py"}, 2},
        {{"/home/me/_pytest/python.py", "/home/me/pluggy/own.py"}, 2},
        {{PACKAGES "_pytest_cases/python.py", PACKAGES "mine/_pytest/x.py"}, 2},
        {{NULL}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stack_frame frames[5] = {0};
        size_t count = 0;
        for (; count < 5 && rows[i].files[count]; count++) {
            frames[count].is_python = 1;
            snprintf(frames[count].file, sizeof frames[count].file, "%s", rows[i].files[count]);
        }
        assert_int_equal(frames_without_runner(frames, count), rows[i].count);
    }
}

/* What only passes a call on hides the line of the program: neither is it shown, nor is it the program's own frame. */
TEST(plumbing_is_left_out)
{
    static const char invoke[] =
        "std::_Function_handler<void (int), main::{lambda(int)#1}>::_M_invoke(std::_Any_data const&, int&&)";
    static const char lambda[] = "main::{lambda(int)#1}::operator()(int) const";
    struct stack_frame frames[5] = {0};
    unsigned char shown[5];
    char name[160];
    snprintf(frames[0].function, sizeof frames[0].function, "%s", invoke);
    snprintf(frames[1].function, sizeof frames[1].function, "%s", lambda);
    snprintf(frames[2].function, sizeof frames[2].function, "%s", invoke);
    snprintf(frames[3].function, sizeof frames[3].function, "main");
    assert_ptr_equal(frames_own(frames, 4), &frames[1]);
    assert_int_equal(frames_choose(frames, 4, 8, shown), 2);
    assert_memory_equal(shown, ((unsigned char[]){0, 1, 0, 1}), 4);
    assert_int_equal(frames_choose(frames, 1, 8, shown), 1); /* nothing else is there */
    assert_ptr_equal(frames_own(frames, 1), &frames[0]);
    frames_function(&frames[1], name, sizeof name);
    assert_string_equal(name, "main::{lambda}");
    frames[1].is_python = 1;
    frames_function(&frames[1], name, sizeof name);
    assert_string_equal(name, lambda);
}

/* Whoever works on Triton runs it in its checkout: the launch is still the program's. */
TEST(a_checkout_of_triton_is_no_code_of_the_program)
{
    static const char *const files[] = {"/home/me/triton/python/triton/backends/nvidia/driver.py",
                                        "/home/me/triton/python/triton/runtime/jit.py", "/home/me/train.py"};
    struct stack_frame frames[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        snprintf(frames[i].file, sizeof frames[i].file, "%s", files[i]);
        frames[i].is_python = 1;
    }
    assert_ptr_equal(frames_own(frames, 3), &frames[2]);
}

/* torch.compile: the launch is in code that Inductor generated, and the program's line is what called it. */
TEST(generated_code_is_the_programs_for_want_of_better)
{
#define HASHED "cr4xblreulpzjgutjyn3vmx3xoqoi2wui6fgw2uq4i4e4af4ojrg.py"
    static const char *const files[] = {PACKAGES "torch/_inductor/runtime/triton_heuristics.py",
                                        "/tmp/torchinductor_me/r4/" HASHED, PACKAGES "torch/_inductor/output_code.py",
                                        "/home/me/train.py"};
    static const char *const others[] = {"/tmp/r5/" HASHED, "r4/" HASHED, "/r4/c" HASHED, "/r4/cr4.py"};
    struct stack_frame frames[4] = {0};
    unsigned char shown[4];
    for (size_t i = 0; i < 4; i++) {
        snprintf(frames[i].file, sizeof frames[i].file, "%s", files[i]);
        frames[i].is_python = 1;
    }
    assert_ptr_equal(frames_own(frames, 4), &frames[3]);
    assert_ptr_equal(frames_own(frames, 3), &frames[1]); /* autograd's thread */
    assert_int_equal(frames_choose(frames, 4, 3, shown), 3);
    assert_memory_equal(shown, ((unsigned char[]){1, 1, 0, 1}), 4);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(frames[1].file, sizeof frames[1].file, "%s", others[i]);
        assert_ptr_equal(frames_own(frames, 4), &frames[1]);
    }
}

TEST(files_are_written_as_import_finds_them)
{
    static const struct {
        const char *file, *written;
    } rows[] = {
        {PACKAGES "torch/nn/functional.py", "torch/nn/functional.py"},
        {"/usr/lib/python3/dist-packages/numpy/core.py", "numpy/core.py"},
        {"/a/site-packages/b" PACKAGES "c.py", "c.py"},
        {"/home/me/train.py", "/home/me/train.py"},
        {"/home/me/site-packages.py", "/home/me/site-packages.py"},
        {"<string>", "<string>"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stack_frame frame = {.is_python = 1};
        snprintf(frame.file, sizeof frame.file, "%s", rows[i].file);
        assert_string_equal(frames_file(&frame), rows[i].written);
    }
}

/* ---- names of C++; the mangled ones are real: of g++ 12, and of nvcc 13.0 with Thrust and CUB ---- */

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
