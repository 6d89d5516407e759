/* The stories of fault_stories.h with a second launch on the memory as the fault left it. */
#pragma once

#include "fault_stories.h"

/* Adds bytes that the second launch wrote: `value` again and again. */
static inline struct rerun_write *add_write(struct story *story, const cufence_buffer *buffer, uint64_t address, uint64_t bytes,
                                            const void *value, size_t size)
{
    struct rerun_write *write = &story->rerun.writes[story->rerun.write_count++];
    *write = (struct rerun_write){.buffer = buffer, .address = address, .bytes = bytes};
    write->is_before = buffer && address < buffer->address;
    if (buffer)
        write->distance = write->is_before ? buffer->address - address - bytes : address - buffer->address - buffer->size;
    write->value_bytes = bytes < sizeof write->values ? bytes : sizeof write->values;
    for (size_t i = 0; i < write->value_bytes; i++)
        write->values[i] = ((const uint8_t *)value)[i % size];
    story->rerun.written_bytes += bytes;
    return write;
}

/* The story's kernel faults again, in another process and so at another PC, in a warp with two lanes. */
static inline void fault_again(struct story *story, uint64_t address)
{
    memcpy(story->parameters_again, story->parameters, sizeof story->parameters);
    for (uint32_t i = 0; i < 3; i++)
        story->lanes_again[i] = (struct evidence_lane){
            .lane = i, .thread = {104 + i}, .address = address + UINT64_C(4) * i, .certainty = CERTAIN_EXACT};
    story->stops_again[0] = story->stops[0];
    story->stops_again[0].error_pc = 0x7e8800001400;
    story->stops_again[0].is_warp_alive = story->stops_again[0].has_grid = 1;
    story->stops_again[0].is_grid_borrowed = 0;
    story->stops_again[0].block_index[0] = 7;
    story->stops_again[0].grid[0] = 8;
    story->stops_again[0].lanes = story->lanes_again;
    story->stops_again[0].lane_count = 2;
    story->stops_again[0].parameters = (const uint8_t *)story->parameters_again;
    story->stops_again[0].parameter_bytes = sizeof story->parameters_again;
    story->evidence_again = (struct evidence){.stops = story->stops_again, .stop_count = 1};
    story->rerun.outcome = RERUN_FAULTED;
    story->rerun.evidence = &story->evidence_again;
    story->rerun.launches_tried = 1;
    story->rerun.took_ms = 131;
    if (story->memory.launch_count)
        story->rerun.launch = &story->launches[0];
}

static const float two = 2;

VARIANT(rerun, exited_launched)
{
    fault_again(story, A_END);
    add_write(story, &story->near[0], A_END, 96, &two, sizeof two);
}

/* Adds what the memory at an address holds. */
static inline void add_figures(struct story *story, uint64_t address, const void *bytes, size_t size, uint64_t whole)
{
    struct figures *figures = &story->rerun.figures[story->rerun.figure_count++];
    struct figures_count *count = figures_begin();
    figures_add(count, bytes, size);
    figures_end(count, figures);
    figures->address = address;
    figures->bytes = whole;
}

/* The type of the first argument is not known, and only part of it was read. */
static inline void rerun_given(struct story *story)
{
    static const double doubles[] = {-0.25, 1e22, 0.1, 3, 0.7, 1.1, -0.3, 0.2};
    float floats[1000];
    for (size_t i = 0; i < 1000; i++)
        floats[i] = (float)(i % 8) - 4;
    floats[1] = __builtin_nanf("");
    floats[2] = -__builtin_inff();
    rerun(story);
    story->stops[0].kernel = story->stops_again[0].kernel = "k_oob(void*, float*, int)";
    story->parameters[0] = story->parameters_again[0] = B_START;
    memcpy(story->entries[0].bytes, story->parameters, 20);
    add_figures(story, B_START, doubles, sizeof doubles, 8000);
    add_figures(story, A_START, floats, sizeof floats, sizeof floats);
    add_figures(story, A_START, doubles, sizeof doubles, 8); /* of another buffer that was there */
}

/* The first dump has the address. */
VARIANT(rerun_for_nothing, launched)
{
    fault_again(story, A_END + 400);
    add_write(story, &story->near[0], A_END + 400, 8, &two, sizeof two);
}

/* Two launches with different arguments: only the older one goes out of bounds. */
VARIANT(rerun_second_launch, exited_launched_twice)
{
    fault_again(story, B_END + 12);
    story->rerun.launch = &story->launches[1];
    story->rerun.launches_tried = 2;
}

/* The warp had exited in the second launch too. */
VARIANT(rerun_exited, rerun)
{
    story->stops_again[0].is_warp_alive = 0;
    story->stops_again[0].lanes = NULL;
    story->stops_again[0].lane_count = 0;
}

/* Three buffers, one of them unknown, and more ranges than are shown. */
static inline void rerun_all_over(struct story *story)
{
    static const int32_t numbers[] = {-1, 70000000};
    static const uint8_t bytes[] = {0xca, 0xfe};
    rerun(story);
    story->rerun.written_bytes = story->rerun.write_count = 0;
    add_write(story, &story->near[0], A_END + 128, 8, numbers, sizeof numbers);
    add_write(story, &story->near[1], B_START - 76, 12, numbers, sizeof numbers);
    add_write(story, &story->near[1], B_START - 1, 1, bytes, sizeof bytes);
    add_write(story, NULL, C_END + 1, 62, bytes, sizeof bytes);
    add_write(story, &story->near[1], B_END, 4, &two, sizeof two);
}

VARIANT(rerun_result_elsewhere_in_it, exited_launched)
{
    fault_again(story, A_END);
    story->stops_again[0].line = 12;
    story->stops_again[0].kernel_offset = 0x4c0;
}

VARIANT(rerun_well, exited_launched)
{
    story->rerun = (struct rerun_result){.outcome = RERUN_NO_FAULT, .launches_tried = 1, .took_ms = 98};
}

VARIANT(rerun_well_with_variables, rerun_well)
{
    snprintf(story->rerun.unset, sizeof story->rerun.unset, "counter");
}

VARIANT(not_rerun, exited_launched)
{
    story->rerun =
        (struct rerun_result){.outcome = RERUN_FAILED, .reason = "the device has no memory\nfor copies of 3 buffers"};
}

/* Whatever a snapshot has of a second launch and of buffers, for what is read back of it. */
static inline void rerun_with_all(struct story *story)
{
    static const struct origin cause = {
        .is_known = 1,
        .address = 0xfedcba9876543210,
        .base = 0x7e0000000000,
        .base_at = -1,
        .base_from = 0x10,
        .constant = (uint64_t)-8,
        .terms = {{.value = (uint64_t)-1,
                   .is_negative = 1,
                   .adds = (uint64_t)-4,
                   .factor = 4,
                   .times = -1,
                   .from = 0x7e0000000010,
                   .bytes = 8,
                   .place = {0x40, 23, "k.cu"}},
                  {.input = ORIGIN_THREAD, .at = 2, .value = 3, .adds = 5, .times = 12, .times_value = 64}},
        .term_count = 2,
        .wraps = {{{0x50, 24, "k.cu"}, ORIGIN_WRAPPED_SUM, -1, 2, -3, INT64_MIN, INT32_MIN, 0x7e0000000020}},
        .wrap_count = 1};
    rerun_exited(story);
    struct rerun_write *slack = add_write(story, NULL, 16, 1, &two, sizeof two);
    slack->is_before = slack->is_slack = 1;
    snprintf(story->rerun.note, sizeof story->rerun.note, "the GPU was full");
    story->rerun.figures[0] = (struct figures){.address = 0xfedcba9876543210,
                                               .bytes = UINT64_C(3) << 30,
                                               .seen = 16 << 20,
                                               .first = {0xff, 0, 1, [31] = 7},
                                               .types = {{-1.5, 1e300, 0.1, 5, 4, 3, 2}, [VALUE_UINT64] = {.max = 1}}};
    story->rerun.figures[1] = (struct figures){.address = 16};
    story->rerun.figure_count = 2;
    story->rerun.cause = cause;
    story->near[0].redzone_before = 256;
    story->near[0].redzone_after = 312;
    story->memory.shared = UINT64_C(1) << 63 | 2;
}
