/* Reports of what a launch was given or has made, without a fault, as tests/golden has them: see test_golden.c. */
#include "golden_finding.h"

#include "finding/finding.h"

static struct launched_fact kernel_of(const char *kernel, const char *symbol, const char *plain, struct stack_frame frames[2])
{
    return (struct launched_fact){
        kernel, symbol, NULL, plain, {8, 1, 1}, {128, 1, 1}, 41, 0x5581c0, 4242, frames, frames_of(NULL, 41, frames, 2)};
}

TEST(nans)
{
    struct stack_frame frames[2];
    cufence_buffer buffer = world[A], none = {0};
    strcpy(buffer.label, "y");
    buffer.allocated_stack = 120;
    /* clang-format off */
    const struct nan_input inputs[] = {
        {.argument = 1, .at = 8, .buffer = 2, .offset = 4, .count = 100, .label = "x", .type = VALUE_WORD,
         .infinities = 2, .finite = 98, .zeros = 1, .min = -1.5, .max = 3, .mean = 0.25, .deviation = 1.5},
        {.argument = -1, .buffer = 3, .count = 7, .type = VALUE_FLOAT32, .is_unwritten = 1, .nans = 7},
        {.argument = 2, .buffer = 4, .count = 7, .type = VALUE_FLOAT32, .finite = 1, .max = 1e300,
         .mean = __builtin_inf(), .deviation = __builtin_nan("")},
    };
    /* clang-format on */
    struct nan_fact nan = {.kind = FINDING_NAN,
                           .by = kernel_of("void norm<float>(float*, int)", "_Z4normIfEvPfi", "norm<float>", frames),
                           .index = 3,
                           .made = 2,
                           .count = 1000,
                           .pointer = buffer.address,
                           .argument = 0,
                           .buffer = &buffer,
                           .buffer_frames = {frames_of, NULL},
                           .inputs = inputs,
                           .input_count = 3,
                           .is_of_unwritten = 1,
                           .now_ns = 73000000};
    CHECK(nan, "nan_of_a_kernel", &nan);
    nan.kind = FINDING_INF;
    nan.by.kernel = nan.by.symbol = NULL;
    nan.by.plain = nan.by.graph_kernels = "norm, scale";
    nan.buffer = &none;
    nan.argument = -1;
    nan.input_count = 0;
    nan.is_of_unwritten = 0;
    CHECK(nan, "inf_of_a_graph", &nan);
}
