/* What cufence reads from compute-sanitizer's text. */
#include "support/test.h"

#include "cli/sanitizer.h"
#include "sanitizer_output.h"

static struct sanitizer_output read_text(const char *text)
{
    struct sanitizer_output output;
    sanitizer_read(text, strlen(text), &output);
    return output;
}

static void expect_error(const struct sanitizer_error *error, const char *text, const char *function, uint64_t offset,
                         const char *file, int line)
{
    assert_non_null(strstr(error->text, text));
    assert_string_equal(error->function, function);
    assert_string_equal(error->file, file);
    assert_int_equal(error->offset, offset);
    assert_int_equal(error->line, line);
}

TEST(threads_at_one_place_are_counted)
{
    struct sanitizer_output output = read_text(PRINTED_MEMCHECK);
    assert_int_equal(output.count, 1);
    expect_error(&output.errors[0],
                 "Invalid __global__ write of size 4 bytes, at unaligned_kernel()+0x160 in /src/memcheck_demo.cu:34, by thread "
                 "(0,0,0) in block (0,0,0), Address 0x7fb6c5800001 is misaligned",
                 "unaligned_kernel()", 0x160, "/src/memcheck_demo.cu", 34);
    assert_null(strstr(output.errors[0].text, "Host Frame"));
    assert_int_equal(output.errors[0].times, 2);
    assert_true(output.has_summary && output.summary == 2 && output.read == 2);
}

TEST(races_have_their_first_access)
{
    struct sanitizer_output output = read_text(PRINTED_RACECHECK);
    assert_int_equal(output.count, 2);
    assert_non_null(strstr(output.errors[0].text, "delta_binary.cuh:312 [32 hazards]"));
    assert_string_equal(output.errors[0].file, "delta_binary.cuh");
    assert_int_equal(output.errors[0].line, 324);
    assert_int_equal(output.errors[0].offset, 0xd790);
    assert_false(output.errors[0].has_thread);
    expect_error(&output.errors[1], "Warning: Race reported between Read access",
                 "Kokkos::Impl::ParallelReduce<double>::operator ()() const", 0x1f20,
                 "/include/Cuda/Kokkos_Cuda_Parallel_Range.hpp", 249);
    assert_true(output.has_summary && output.summary == 2);
    assert_string_equal(output.said, "Test complete");
}

TEST(both_orders_of_a_place_are_read)
{
    struct sanitizer_output output = read_text(PRINTED_INITCHECK);
    assert_int_equal(output.count, 2);
    expect_error(&output.errors[0], "Address 0x7fc406200400",
                 "void cudf::count_set_bits_kernel<int=256>(unsigned int const *,int,int,int*)", 0x150, "", 0);
    expect_error(&output.errors[1], "read of size 8",
                 "std::iterator_traits<T2>::value_type "
                 "cub::ThreadLoad<(cub::CacheLoadModifier)2, const unsigned long long *>(T2)",
                 0x8a70, "/cub/thread/thread_load.cuh", 260);
    assert_int_equal(output.errors[1].block[0], 80);
    assert_int_equal(output.errors[1].thread[0], 16);
    output = read_text(PRINTED_SYNCCHECK);
    assert_int_equal(output.count, 1);
    expect_error(&output.errors[0], "Barrier error detected", "ptxcall_computeBetas_3", 0x46b8,
                 "/src/device/cuda_intrinsics/synchronization.jl", 12);
}

TEST(what_is_not_about_code_is_kept)
{
    struct sanitizer_output output = read_text("========= COMPUTE-SANITIZER\n"
                                               "========= Program hit CUDA_ERROR_INVALID_VALUE (error 1) due to \"invalid "
                                               "argument\" on CUDA API call to cuMemMap.\n"
                                               "=========     Saved host backtrace up to driver entry point at error\n"
                                               "========= ERROR SUMMARY: 1 error\n");
    assert_int_equal(output.count, 0);
    assert_true(output.has_summary && output.summary == 1 && output.read == 0);
    assert_non_null(strstr(output.other, "on CUDA API call to cuMemMap"));
    output = read_text("sh: compute-sanitizer: not found\n");
    assert_false(output.has_summary);
    assert_string_equal(output.said, "sh: compute-sanitizer: not found");
    output = read_text(PRINTED_NOTHING);
    assert_true(output.has_summary && !output.summary && !output.count && !output.other[0]);
}

TEST(more_places_than_fit_are_counted)
{
    static char text[1 << 15];
    size_t used = 0;
    for (int i = 0; i < SANITIZER_ERRORS + 9; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "========= Invalid __shared__ read of size 4 bytes\n=========     at k()+0x%x0\n", i);
    struct sanitizer_output output = read_text(text);
    assert_int_equal(output.count, SANITIZER_ERRORS);
    assert_int_equal(output.read, SANITIZER_ERRORS + 9);
}
