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
                           .file = "norm.cu",
                           .line = 12,
                           .buffer = &buffer,
                           .buffer_frames = {frames_of, NULL},
                           .inputs = inputs,
                           .input_count = 3,
                           .is_of_unwritten = 1,
                           .now_ns = 73000000};
    CHECK(nan, "nan_of_a_kernel", &nan);
    nan.kind = FINDING_INF;
    nan.by.kernel = nan.by.symbol = nan.file = NULL;
    nan.by.plain = nan.by.graph_kernels = "norm, scale";
    nan.buffer = &none;
    nan.argument = -1;
    nan.input_count = 0;
    nan.is_of_unwritten = 0;
    CHECK(nan, "inf_of_a_graph", &nan);
}

TEST(wrong_rows)
{
    struct stack_frame frames[2], released[2], taken[2];
    cufence_buffer none = {0}, buffer = world[A];
    struct region_fact region = {.name = "kv", .row = 17, .rows = 64, .bytes = 1000, .state = REGION_IS_FREE};
    strcpy(buffer.label, "block_table");
    struct table_fact table = {.by =
                                   kernel_of("void attend<float>(float*, int*)", "_Z6attendIfEvPfPi", "attend<float>", frames),
                               .buffer = &buffer,
                               .buffer_frames = {frames_of, NULL},
                               .address = buffer.address + 148,
                               .element = 37,
                               .count = 64,
                               .wrong = 3,
                               .width = 4,
                               .value = {.whole = 17, .kind = SCALAR_WHOLE},
                               .why = TABLE_OUTSIDE,
                               .rows = 17,
                               .name = "kv",
                               .wants = "",
                               .now_ns = 73000000};
    CHECK(table, "wrong_row_outside", &table);
    table.why = TABLE_FREE;
    table.is_held = 1;
    table.region = &region;
    region.released = (struct region_event){72000000, 4243, 0, "request 4", released, frames_of(NULL, 90, released, 2)};
    CHECK(table, "wrong_row_free", &table);
    region.released.owner = NULL;
    region.taken = (struct region_event){72500000, 4243, 0, "request 9", taken, frames_of(NULL, 91, taken, 2)};
    CHECK(table, "wrong_row_taken_since", &table);
    region.state = REGION_IS_LIVE;
    region.released = (struct region_event){0};
    table.by.kernel = table.by.symbol = NULL;
    table.by.plain = table.by.graph_kernels = "attend, scale";
    table.buffer = &none;
    table.is_held = 0;
    table.why = TABLE_OTHER;
    table.wants = "request 7";
    CHECK(table, "wrong_row_of_another", &table);
}

TEST(uninitialised_reads)
{
    cufence_buffer buffer = world[A];
    strcpy(buffer.label, "y");
    struct uninit_fact fact = {.kernel = "scale(float*, int)",
                               .symbol = "_Z5scalePfi",
                               .grid = {8, 1, 1},
                               .block = {128, 1, 1},
                               .number = 41,
                               .fresh = &buffer,
                               .from = 1,
                               .unwritten = 96,
                               .first_unwritten = 3904,
                               .argument = 0,
                               .type = VALUE_FLOAT32,
                               .elements = 1000,
                               .different = 24,
                               .first = 7,
                               .values = {"0", "13323083"},
                               .place = "train.py:41 in step"};
    CHECK(uninit, "uninit", &fact);
    fact.more = 2;
    fact.may_be_result = 1;
    fact.different = 0;
    fact.place = NULL;
    CHECK(uninit, "uninit_of_several", &fact);
    fact = (struct uninit_fact){.what = "the program on the host", .place = "a.py:1", .from = -1, .argument = -1};
    CHECK(uninit, "uninit_on_the_host", &fact);
}
