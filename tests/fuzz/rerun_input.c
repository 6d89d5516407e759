/* An input from an untrusted source: everything that it says lies within its bytes, and it can be written again. */
#include "fuzz.h"

#include "json/json_table.h"
#include "rerun/input.h"

#include <unistd.h>

FUZZ(rerun_input)
{
    struct rerun_input input;
    struct problem problem;
    if (rerun_input_read(data, size, &input, &problem) != CUFENCE_OK)
        return 0;
    require(input.bundle.launch_count >= 1 && input.bundle.launch_count <= RERUN_LAUNCHES);
    require(input.image >= data && input.image_bytes <= (size_t)(data + size - input.image));
    require(bundle_has_sound_pinned(&input.bundle));

    int fd = rerun_input_write(&input);
    off_t bytes = lseek(fd, 0, SEEK_END);
    uint8_t *again = bytes > 0 ? malloc((size_t)bytes) : NULL;
    json_memory_free(&input.bundle.memory);
    require(again && pread(fd, again, (size_t)bytes, 0) == bytes);
    require(rerun_input_read(again, (size_t)bytes, &input, &problem) == CUFENCE_OK);
    json_memory_free(&input.bundle.memory);
    free(again);
    close(fd);
    return 0;
}
