/* An input from an untrusted source: everything that it says lies within its bytes, and it can be written again. */
#include "fuzz.h"

#include "json/json_table.h"
#include "rerun/input.h"

#include <unistd.h>

FUZZ(rerun_input)
{
    struct rerun_input input;
    struct json_memory memory = {NULL};
    struct problem problem;
    if (rerun_input_read(data, size, &input, &memory, &problem) != CUFENCE_OK)
        return 0;
    require(input.launch_count >= 1 && input.launch_count <= RERUN_LAUNCHES);
    require(input.image >= data && input.image_bytes <= (size_t)(data + size - input.image));

    require(rerun_pinned_is_sound(input.pinned, input.pinned_count, input.arena_start, input.arena_end));

    int fd = rerun_input_write(&input);
    off_t bytes = lseek(fd, 0, SEEK_END);
    uint8_t *again = bytes > 0 ? malloc((size_t)bytes) : NULL;
    json_memory_free(&memory);
    require(again && pread(fd, again, (size_t)bytes, 0) == bytes);
    require(rerun_input_read(again, (size_t)bytes, &input, &memory, &problem) == CUFENCE_OK);
    json_memory_free(&memory);
    free(again);
    close(fd);
    return 0;
}
