/* Faults in the memory of fault_world.h, as the witness and the heap would report them, for test_report.c. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "analysis/verdict/launches.h"
#include "analysis/verdict/rerun_result.h"
#include "fault_world.h"

/* A report is made from evidence and memory through the diagnosis, as in the program. The other stories modify overrun(). */
struct story {
    cufence_buffer near[ALL];
    struct fault_memory memory;
    struct evidence_lane lanes[3];
    struct evidence_stop stops[3];
    struct evidence evidence;
    uint64_t parameters[3];
    struct launch_entry entries[3];
    struct fault_launch launches[3];
    struct rerun_result rerun;
    struct evidence_lane lanes_again[3]; /* of the second launch */
    struct evidence_stop stops_again[2];
    struct evidence evidence_again;
    uint64_t parameters_again[3];
    struct tensor_map map, maps[12];
    uint8_t with_map[112 + MAP_BYTES], with_maps[12 * MAP_BYTES];
};

/* A story that is another one, but for what follows. */
#define VARIANT(name, of)                                                                                                      \
    static inline void name##_but(struct story *story);                                                                        \
    static inline void name(struct story *story)                                                                               \
    {                                                                                                                          \
        of(story);                                                                                                             \
        name##_but(story);                                                                                                     \
    }                                                                                                                          \
    static inline void name##_but(struct story *story)

static inline void overrun(struct story *story)
{
    *story = (struct story){
        .lanes = {{.thread = {104}, .address = A_END, .certainty = CERTAIN_EXACT},
                  {.thread = {105}, .address = A_END + 4, .certainty = CERTAIN_EXACT}},
        .parameters = {0, A_START, 1000},
    };
    story->memory = memory_of(BIT(A) | BIT(B), story->near);
    for (size_t i = 0; i < 3; i++)
        story->stops[i] = (struct evidence_stop){.exception = exception_of(14, NULL),
                                                 .sm = (uint32_t)i,
                                                 .error_pc = 0x7f0000001400,
                                                 .is_warp_alive = i == 0,
                                                 .kernel = "k_oob",
                                                 .symbol = "k_oob",
                                                 .kernel_offset = 0x400,
                                                 .file = "oob.py",
                                                 .line = 9,
                                                 .instruction = "STG.E [R2.64], R5",
                                                 .access = ACCESS_WRITE,
                                                 .access_bytes = 4,
                                                 .has_grid = i == 0,
                                                 .grid = {8, 1, 1},
                                                 .block = {128, 1, 1},
                                                 .block_index = {7},
                                                 .parameters = i ? NULL : (const uint8_t *)story->parameters,
                                                 .parameter_bytes = i ? 0 : sizeof story->parameters,
                                                 .lanes = i ? NULL : story->lanes,
                                                 .lane_count = i ? 0 : 2};
    story->evidence = (struct evidence){.device_name = "NVIDIA H100 80GB HBM3", .stops = story->stops, .stop_count = 1};
}

VARIANT(without_parameters, overrun)
{
    story->stops[0].parameters = NULL;
    story->stops[0].parameter_bytes = 0;
    story->lanes[0].address = A_END + (B_START - A_END) / 2;
    story->stops[0].lane_count = 1;
}

VARIANT(vector_overrun, overrun)
{
    story->lanes[0].address = A_END - 8;
    story->stops[0].lane_count = 1;
    story->stops[0].access_bytes = 16;
    story->stops[0].access = ACCESS_READ;
    story->stops[0].instruction = NULL;
    story->stops[0].line = 0;
    story->stops[0].cluster[0] = story->stops[0].cluster[1] = story->stops[0].cluster[2] = 1;
    story->stops[0].cluster[1] = 2;
    story->stops[1].is_warp_alive = 1;
    story->evidence.stop_count = 3;
}

VARIANT(approximate, overrun)
{
    story->lanes[0].certainty = story->lanes[1].certainty = CERTAIN_DERIVED;
    story->stops[0].access = ACCESS_UNKNOWN;
    story->stops[0].access_bytes = 0;
    story->stops[0].file = story->stops[0].symbol = story->stops[0].instruction = NULL;
    story->stops[0].has_grid = 0;
}

VARIANT(underrun, overrun)
{
    story->memory = memory_of(BIT(A) | BIT(B) | BIT(C), story->near);
    story->near[1].size = UINT64_C(1) << 21;
    story->near[1].address = story->near[1].mapping_start;
    snprintf(story->near[1].label, sizeof story->near[1].label, "layer 3\nattention \xc3\xa9");
    story->parameters[1] = story->near[1].address;
    story->lanes[0].address = story->near[1].address - 32;
    story->stops[0].lane_count = 1;
    story->stops[0].access = ACCESS_ATOMIC;
}

VARIANT(use_after_free, overrun)
{
    story->memory = memory_of(BIT(B) | BIT(F) | BIT(C), story->near);
    story->lanes[0].address = F_START + 40;
    story->stops[0].lane_count = 1;
    story->stops[0].access = ACCESS_READ;
}

VARIANT(slack_behind_the_end, overrun)
{
    story->memory = memory_of(BIT(C), story->near);
    story->lanes[0].address = C_END + 15;
    story->parameters[1] = C_END - 4001;
    story->stops[0].lane_count = 1;
}

VARIANT(null_pointer, overrun)
{
    story->lanes[0].address = 0;
    story->lanes[1].address = 1;
    story->stops[0].lane_count = 1;
}

VARIANT(null_field, null_pointer)
{
    story->lanes[0].address = 16;
}

VARIANT(host_pointer, overrun)
{
    story->memory.is_host_address = 1;
    story->lanes[0].address = 0x7fff12345678;
    story->stops[0].lane_count = 1;
}

VARIANT(wild_outside, host_pointer)
{
    story->memory.is_host_address = 0;
}

/* The code takes the address from A, and it is far behind that, where a buffer was. */
VARIANT(far_from_its_buffer, overrun)
{
    story->memory = memory_of(BIT(A) | BIT(F) | BIT(C), story->near);
    story->lanes[0].address = F_START + 40;
    story->stops[0].lane_count = 1;
    story->parameters[0] = A_START;
    story->stops[0].parameters = (const uint8_t *)story->parameters;
    story->stops[0].parameter_bytes = sizeof story->parameters;
    story->stops[0].source = (struct address_source){1, 1, 0};
}

VARIANT(wild_inside, overrun)
{
    story->memory = memory_of(BIT(A) | BIT(C), story->near);
    story->lanes[0].address = SLOT_END(0) + GUARD + 8;
    story->stops[0].lane_count = 1;
}

VARIANT(misaligned, overrun)
{
    story->lanes[0].address = A_START + 10;
    story->stops[0].exception = exception_of(6, NULL);
    story->stops[0].lane_count = 1;
}

VARIANT(another_devices_buffer, overrun)
{
    story->lanes[0].address = B_START + 12;
    story->stops[0].lane_count = 1;
    story->near[1].device = 1;
}

VARIANT(exited, overrun)
{
    story->stops[0] = story->stops[1];
    story->stops[0].sm = 0;
    story->evidence.stop_count = 3;
    story->evidence.driver_major = 580;
    story->evidence.driver_minor = 159;
    story->memory.live = story->near;
    story->memory.live_count = 2;
    story->memory.live_total = 12;
}

VARIANT(exited_with_parameters, exited)
{
    story->evidence.stop_count = 1;
    story->evidence.driver_major = 0;
    story->memory = memory_of(BIT(A) | BIT(F), story->near);
    story->parameters[0] = F_START;
    story->stops[0].parameters = (const uint8_t *)story->parameters;
    story->stops[0].parameter_bytes = sizeof story->parameters;
    story->stops[0].has_grid = 1;
    story->stops[0].kernel = story->stops[0].symbol = NULL;
}

VARIANT(address_not_decoded, overrun)
{
    story->lanes[0].certainty = CERTAIN_NOT;
    story->stops[0].lane_count = 1;
    story->stops[0].instruction = "UTMALDG.2D";
    story->stops[0].access = ACCESS_UNKNOWN;
    story->stops[0].access_bytes = 0;
}

/* A box of a map that has more rows than its buffer. */
VARIANT(by_tensor_map, address_not_decoded)
{
    story->map = (struct tensor_map){.bytes = {1, [10] = 0x20},
                                     .call = "cuTensorMapEncodeTiled",
                                     .base = A_START,
                                     .rank = 2,
                                     .element_bits = 32,
                                     .size = {20, 60},
                                     .stride = {0, 96},
                                     .box = {32, 16},
                                     .buffer = story->near[0].id,
                                     .room = story->near[0].size};
    memcpy(story->with_map + 112, story->map.bytes, MAP_BYTES);
    story->stops[0].parameters = story->with_map;
    story->stops[0].parameter_bytes = sizeof story->with_map;
    story->stops[0].access = ACCESS_READ;
    story->stops[0].box = (struct evidence_box){2, {0, 32}};
    story->memory.maps = &story->map;
    story->memory.map_count = 1;
    boxes_place(&story->evidence, &story->memory);
}

/* More maps than a report names: the owner's is the last. */
VARIANT(by_one_of_many_tensor_maps, by_tensor_map)
{
    enum { COUNT = sizeof story->maps / sizeof story->maps[0] };
    for (size_t i = 0; i < COUNT; i++) {
        story->maps[i] = story->map;
        story->maps[i].bytes[20] = (uint8_t)(i + 1);
        if (i == 0) { /* of the owner, which has room for it */
            story->maps[i].size[1] = 40;
        } else if (i < COUNT - 1) {
            story->maps[i].buffer = story->near[1].id;
            story->maps[i].base = story->near[1].address;
            story->maps[i].room = story->near[1].size;
            story->maps[i].size[0] = 21 + i;
        }
        memcpy(story->with_maps + i * MAP_BYTES, story->maps[i].bytes, MAP_BYTES);
    }
    story->stops[0].parameters = story->with_maps;
    story->stops[0].parameter_bytes = sizeof story->with_maps;
    story->memory.maps = story->maps;
    story->memory.map_count = COUNT;
}

/* A map that is well, on a GPU for which drivers encode such maps wrongly. */
VARIANT(by_good_tensor_map, by_tensor_map)
{
    story->map.size[1] = 41;
    snprintf(story->evidence.sm_type, sizeof story->evidence.sm_type, "sm_100");
    story->lanes[0].certainty = CERTAIN_NOT;
    story->stops[0].access_bytes = 0;
    boxes_place(&story->evidence, &story->memory);
}

VARIANT(assertion, overrun)
{
    story->stops[0].exception = exception_of(12, NULL);
    story->lanes[0].certainty = story->lanes[1].certainty = CERTAIN_NOT;
    story->lanes[1].has_exception = 1;
    story->stops[0].is_in_driver = 1;
    story->stops[0].file = story->stops[0].instruction = NULL;
    story->stops[0].line = 0;
    story->stops[0].kernel_offset = 0;
}

VARIANT(trap, assertion)
{
    story->stops[0].is_in_driver = 0;
    story->stops[0].file = "oob.py";
    story->stops[0].line = 9;
    story->stops[0].kernel_offset = 0x400;
    story->stops[0].exception = exception_of(4, "BPT");
    story->stops[0].instruction = "BPT";
    story->stops[0].access = ACCESS_UNKNOWN;
    story->stops[0].access_bytes = 0;
}

VARIANT(wrong_vote_mask, trap)
{
    story->stops[0].exception = exception_of(4, "VOTE");
    story->stops[0].instruction = "VOTE";
}

/* A warp in bounds occupies the slot of the one that faulted. */
VARIANT(bystander, overrun)
{
    story->lanes[0].address = A_START;
    story->lanes[1].address = A_START + 4;
}

VARIANT(two_kernels, overrun)
{
    story->stops[1].kernel = "k_other";
    story->stops[1].symbol = "k_other";
    story->stops[1].error_pc++;
    story->evidence.stop_count = 2;
}

/* ---- with recorded launches ---- */

static const struct launch_function k_oob = {
    .name = "k_oob", .has_layout = 1, .argument_bytes = 20, .argument_count = 3, .arguments = {{0, 8}, {8, 8}, {16, 4}}};

static const struct launch_function add_one = {.name = "_Z7add_onePfi"};

VARIANT(no_exception, overrun)
{
    story->evidence.stop_count = 0;
    for (size_t i = 0; i < 3; i++)
        story->entries[i] = (struct launch_entry){.sequence = i + 1,
                                                  .time_ns = 60000000 + i,
                                                  .function = i == 1 ? &k_oob : &add_one,
                                                  .grid = {1, 1, 1},
                                                  .block = {32, 1, 1}};
    story->memory.recent = story->entries;
    story->memory.recent_count = 3;
}

static const struct stack_frame step_frames[] = {{.is_python = 1, .function = "step", .file = "train.py", .line = 41},
                                                 {.is_python = 1, .function = "<module>", .file = "train.py", .line = 60}};
static const struct stack_frame native_frames_of[] = {{.function = "launch(int)", .module = "libmodel.so", .offset = 0x12f0}};

/* Adds a launch of the story's kernel with its parameters, 1.3 ms before the report. Add the newest one first. */
static inline struct launch_entry *add_launch(struct story *story, const struct stack_frame *frames, size_t frame_count,
                                              unsigned place)
{
    size_t index = story->memory.launch_count++;
    struct launch_entry *entry = &story->entries[index];
    *entry = (struct launch_entry){.sequence = 10 - index,
                                   .time_ns = 60000000,
                                   .function = &k_oob,
                                   .stream = 0x5581c0,
                                   .tid = 4242,
                                   .grid = {8, 1, 1},
                                   .block = {128, 1, 1},
                                   .argument_bytes = 20,
                                   .kept_bytes = 20};
    memcpy(entry->bytes, story->parameters, 20);
    story->launches[index] = (struct fault_launch){entry, frames, frame_count, place};
    story->memory.launches = story->launches;
    return entry;
}

VARIANT(launched, overrun)
{
    add_launch(story, step_frames, 2, 1);
}

/* Two launches with these arguments from one place, and one with other arguments. */
VARIANT(launched_twice, overrun)
{
    story->parameters[0] = B_START + 12;
    add_launch(story, step_frames, 2, 1);
    add_launch(story, native_frames_of, 1, 2)->grid[0] = 9;
    add_launch(story, step_frames, 2, 1);
}

VARIANT(launched_from_two_places, overrun)
{
    add_launch(story, native_frames_of, 1, 2);
    add_launch(story, step_frames, 2, 1);
}

VARIANT(launched_in_a_graph, overrun)
{
    add_launch(story, step_frames, 2, 1)->function = NULL;
    story->entries[0].graph = 0x77;
    story->entries[0].argument_bytes = story->entries[0].kept_bytes = 0;
}

/* Arguments by value: a struct that was kept in part, and odd sizes. */
static inline void launched_with_structs(struct story *story)
{
    static const struct launch_function structs = {.name = "k_oob",
                                                   .has_layout = 1,
                                                   .argument_bytes = 300,
                                                   .argument_count = 6,
                                                   .arguments = {{0, 24}, {24, 1}, {26, 2}, {32, 8}, {40, 12}, {52, 248}}};
    const uint64_t words[] = {17, A_START + 8, B_START, 0, UINT64_C(0xdeadbeef00000000)};
    overrun(story);
    struct launch_entry *entry = add_launch(story, step_frames, 1, 1);
    entry->function = &structs;
    entry->argument_bytes = 300;
    entry->kept_bytes = LAUNCH_KEPT_BYTES;
    memcpy(entry->bytes, words, sizeof words);
    entry->bytes[24] = 0xff;
    entry->bytes[27] = 1;
    story->stops[0].parameters = NULL;
    story->stops[0].parameter_bytes = 0;
}

VARIANT(exited_launched, exited)
{
    story->evidence.stop_count = 1;
    add_launch(story, step_frames, 1, 1);
}

/* The code shows that the address comes from word 1 of the parameters, or that it was loaded. */
VARIANT(exited_launched_traced, exited_launched)
{
    story->stops[0].source = (struct address_source){1, 2, 0};
}

VARIANT(exited_launched_loaded, exited_launched)
{
    story->stops[0].source = (struct address_source){1, 0, 1};
}

VARIANT(exited_launched_const, exited_launched)
{
    story->stops[0].kernel = "k_oob(float const*, float*, int)";
    story->parameters[0] = B_START;
    memcpy(story->entries[0].bytes, story->parameters, 20);
}

VARIANT(exited_launched_twice, exited_launched)
{
    story->parameters[1] = B_START;
    add_launch(story, native_frames_of, 1, 2);
}
