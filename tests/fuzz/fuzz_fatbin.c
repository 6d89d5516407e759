/* A fat binary, and its images unpacked. The input is the file. */
#include "fuzz.h"

#include "analysis/lines/fatbin.h"

#define MOST (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span file = {data, size};
    struct fatbin_image image;
    uint64_t at = 0;
    if (size < FATBIN_HEADER || fatbin_size(data) == 0)
        return 0;
    while (fatbin_next(file, &at, &image) == 1) {
        require(at <= size);
        uint8_t *room = image.size <= MOST ? malloc(image.size) : NULL;
        if (room)
            fatbin_unpack(&image, room);
        free(room);
    }
    return 0;
}
