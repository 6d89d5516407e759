/* The ranges of memory that an input asks the rerun process to describe. */
#include "support/test.h"

#include "fault_world.h"
#include "record/record.h"
#include "rerun/input.h"

#define MOST 4096

static const uint8_t arguments[8] = {7};
static const struct rerun_launch one = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .argument_bytes = 8, .arguments = arguments};

static size_t write_input(const struct rerun_input *input, uint8_t bytes[MOST])
{
    int fd = rerun_input_write(input);
    assert_true(fd >= 0);
    ssize_t size = pread(fd, bytes, MOST, 0);
    close(fd);
    assert_true(size > 0);
    return (size_t)size;
}

static struct rerun_input small_input(void)
{
    return (struct rerun_input){.arena_start = ARENA,
                                .arena_end = ARENA_END,
                                .dump = "dump",
                                .symbol = "k",
                                .image = (const uint8_t *)"image",
                                .image_bytes = 5,
                                .launches = &one,
                                .launch_count = 1};
}

TEST(ranges_arrive)
{
    uint8_t bytes[MOST];
    struct rerun_input input = small_input(), found;
    struct record_memory memory = {NULL};
    struct problem problem;
    for (size_t count = 0; count <= RERUN_RANGES; count += RERUN_RANGES / 2) {
        input.range_count = count;
        for (size_t i = 0; i < count; i++)
            input.ranges[i] = (struct rerun_range){ARENA + i, 1000 - i};
        size_t size = write_input(&input, bytes);
        assert_int_equal(rerun_input_read(bytes, size, &found, &memory, &problem), CUFENCE_OK);
        assert_int_equal(found.range_count, count);
        assert_memory_equal(found.ranges, input.ranges, count * sizeof *input.ranges);
        assert_memory_equal(found.launches[0].arguments, arguments, sizeof arguments);
        assert_memory_equal(found.image, "image", 5);
        record_free(&memory);
    }
}

/* Finds the number of ranges in the file, and makes it larger than an input may have. */
TEST(too_many_ranges_are_refused)
{
    uint8_t few[MOST], many[MOST];
    struct rerun_input input = small_input(), found;
    struct record_memory memory = {NULL};
    struct problem problem;
    size_t at = 0, size = write_input(&input, few);
    input.range_count = 1;
    write_input(&input, many);
    while (few[at] == many[at])
        at++;
    for (uint32_t count = RERUN_RANGES + 1; count; count = count < 1u << 31 ? count * 2 : 0) {
        memcpy(many, few, size);
        memcpy(many + at, &count, sizeof count);
        assert_int_equal(rerun_input_read(many, size, &found, &memory, &problem), CUFENCE_ERROR_CORRUPT);
    }
}

TEST(what_arguments_point_to_is_described)
{
    uint64_t words[40] = {A_START + 8, B_START, 17, A_START + 8, A_END, A_START};
    struct rerun_launch launch = {.argument_bytes = 6 * 8 + 4, .arguments = (const uint8_t *)words};
    cufence_buffer near[2] = {world[0], world[1]};
    const struct fault_memory memory = {.near = near, .near_count = 2};
    struct rerun_input input = {.range_count = 0};
    rerun_input_describe(&input, &launch, &memory);
    assert_int_equal(input.range_count, 3);
    assert_int_equal(input.ranges[0].address, A_START + 8);
    assert_int_equal(input.ranges[0].bytes, 3992);
    assert_int_equal(input.ranges[1].address, B_START);
    assert_int_equal(input.ranges[1].bytes, 8000);
    assert_int_equal(input.ranges[2].bytes, 4000);
    near[0].freed_ns = 1; /* its memory is gone */
    input.range_count = 0;
    rerun_input_describe(&input, &launch, &memory);
    assert_int_equal(input.range_count, 1);
    for (size_t i = 0; i < 40; i++)
        words[i] = B_START + i;
    launch.argument_bytes = sizeof words;
    rerun_input_describe(&input, &launch, &memory);
    assert_int_equal(input.range_count, RERUN_RANGES);
}
