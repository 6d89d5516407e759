/* A scene from an untrusted source: everything that it says lies within its bytes, and it can be written again. */
#include "base/reader.h"
#include "restage/scene.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int is_so)
{
    if (!is_so)
        abort();
}

static void expect_within(const uint8_t *data, size_t size, const void *part, size_t part_size)
{
    const uint8_t *at = part;
    expect(at >= data && at <= data + size && part_size <= (size_t)(data + size - at));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scene scene;
    struct scene_launch launches[SCENE_LAUNCHES];
    struct problem problem;
    if (scene_read(data, size, &scene, launches, &problem) != CUFENCE_OK)
        return 0;
    expect(scene.launch_count >= 1 && scene.launch_count <= SCENE_LAUNCHES);
    for (size_t i = 0; i < scene.launch_count; i++)
        expect_within(data, size, launches[i].arguments, launches[i].argument_bytes);
    expect_within(data, size, scene.image, scene.image_bytes);
    expect_within(data, size, scene.symbol, strlen(scene.symbol) + 1);
    expect_within(data, size, scene.dump, strlen(scene.dump) + 1);

    uint64_t end = scene.arena_start;
    expect(scene.reserved_count <= SCENE_RESERVED);
    for (size_t i = 0; i < scene.reserved_count; i++) {
        expect(scene.reserved[i].address >= end && scene.reserved[i].bytes);
        end = scene.reserved[i].address + scene.reserved[i].bytes;
    }
    expect(end <= scene.arena_end);
    expect(scene_pinned_is_sound(scene.pinned, scene.pinned_count, scene.arena_start, scene.arena_end));

    int fd = scene_write(&scene);
    uint8_t *again = malloc(size);
    expect(fd >= 0 && again && lseek(fd, 0, SEEK_END) == (off_t)size && pread(fd, again, size, 0) == (ssize_t)size);
    expect(scene_read(again, size, &scene, launches, &problem) == CUFENCE_OK);
    free(again);
    close(fd);
    return 0;
}
