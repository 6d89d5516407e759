/* An input from an untrusted source: everything that it says lies within its bytes, and it can be written again. */
#include "fuzz.h"

#include "base/reader.h"
#include "record/record.h"
#include "rerun/input.h"

#include <unistd.h>

static void expect_within(const uint8_t *data, size_t size, const void *part, size_t part_size)
{
    const uint8_t *at = part;
    require(at >= data && at <= data + size && part_size <= (size_t)(data + size - at));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rerun_input input;
    struct record_memory memory = {NULL};
    struct problem problem;
    if (rerun_input_read(data, size, &input, &memory, &problem) != CUFENCE_OK)
        return 0;
    require(input.launch_count >= 1 && input.launch_count <= RERUN_LAUNCHES);
    for (size_t i = 0; i < input.launch_count; i++)
        expect_within(data, size, input.launches[i].arguments, input.launches[i].argument_bytes);
    expect_within(data, size, input.image, input.image_bytes);
    expect_within(data, size, input.symbol, strlen(input.symbol) + 1);
    expect_within(data, size, input.dump, strlen(input.dump) + 1);

    uint64_t end = input.arena_start;
    require(input.reserved_count <= RERUN_RESERVED);
    for (size_t i = 0; i < input.reserved_count; i++) {
        require(input.reserved[i].address >= end && input.reserved[i].bytes);
        end = input.reserved[i].address + input.reserved[i].bytes;
    }
    require(end <= input.arena_end);
    require(rerun_pinned_is_sound(input.pinned, input.pinned_count, input.arena_start, input.arena_end));

    int fd = rerun_input_write(&input);
    uint8_t *again = malloc(size);
    require(fd >= 0 && again && lseek(fd, 0, SEEK_END) == (off_t)size && pread(fd, again, size, 0) == (ssize_t)size);
    require(rerun_input_read(again, size, &input, &memory, &problem) == CUFENCE_OK);
    record_free(&memory);
    free(again);
    close(fd);
    return 0;
}
