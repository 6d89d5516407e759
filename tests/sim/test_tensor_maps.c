/* Tensor maps: what is remembered of them, and what a report says of those that a faulted kernel was given. */
#include "hooked.h"

#include "launch/tensor_maps.h"

enum { COLUMNS = 64, ROWS = 256 };

static CUresult encode(CUtensorMap *map, CUdeviceptr base, cuuint64_t rows)
{
    const cuuint64_t size[] = {COLUMNS, rows}, stride[] = {COLUMNS * 4};
    const cuuint32_t box[] = {COLUMNS, 16}, step[] = {1, 1};
    return hook_cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)(uintptr_t)base, size, stride, box,
                                       step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                       CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static CUdeviceptr rows_of(cuuint64_t rows)
{
    CUdeviceptr address;
    CHECK_CU(hook_cuMemAlloc_v2(&address, rows * COLUMNS * 4));
    return address;
}

static void read_element(const char *kernel, void *argument, int element)
{
    CUfunction function;
    CHECK_CU(cuModuleGetFunction(&function, module, kernel));
    CHECK_CU(hook_cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){argument, &element}, NULL));
    hook_cuCtxSynchronize();
}

TELLS(too_large, "makes a tensor map that reaches 25600 bytes past the end of buffer #1",
      "argument 0 is a tensor map, \\[356, 64\\] of 4 bytes in buffer #1, 25600 bytes past its end",
      "past its end; cuTensorMapEncodeTiled", "tensor maps: 1 of guarded buffers, of which 1 reaches past")
{
    CUtensorMap map;
    start_hooked("explain=dump,say=verbose");
    CHECK_CU(encode(&map, rows_of(ROWS), ROWS + 100));
    read_element("read_mapped", &map, ROWS * COLUMNS);
}

TELLS(freed, "use-after-free READ", "tensor map, .* in buffer #1, which has been freed")
{
    CUtensorMap map;
    start_hooked("explain=dump,uaf=strict");
    CUdeviceptr rows = rows_of(ROWS);
    CHECK_CU(encode(&map, rows, ROWS));
    CHECK_CU(hook_cuMemFree_v2(rows));
    uint32_t word;
    while (cuMemcpyDtoH(&word, rows, sizeof word) == CUDA_SUCCESS) /* it is unmapped in the background */
        usleep(1000);
    read_element("read_mapped", &map, 16);
}

/* The kernel is given the address of a copy in device memory. */
TELLS(copied, "argument 0 points to a copy of a tensor map, \\[256, 64\\] of 4 bytes in buffer #",
      "0 bytes past the end of buffer #2")
{
    CUtensorMap maps[2] = {{{0}}};
    start_hooked("explain=dump");
    CUdeviceptr copy = rows_of(1), at = copy + sizeof maps[0];
    CHECK_CU(encode(&maps[1], rows_of(ROWS), ROWS));
    CHECK_CU(hook_cuMemcpyHtoD_v2(copy, maps, sizeof maps));
    read_element("read_copied", &at, ROWS * COLUMNS);
}

/* The same after the buffer's free, with default options: the launch brings out that it is used. */
TELLS(copied_and_freed, "use-after-free READ",
      "argument 0 points to a copy of a tensor map, \\[256, 64\\] of 4 bytes in buffer #")
{
    CUtensorMap map;
    start_hooked("explain=dump");
    CUdeviceptr copy = rows_of(1), rows = rows_of(ROWS);
    CHECK_CU(encode(&map, rows, ROWS));
    CHECK_CU(hook_cuMemcpyHtoD_v2(copy, &map, sizeof map));
    CHECK_CU(hook_cuMemFree_v2(rows));
    read_element("read_copied", &copy, 16);
}

/* A map that is larger than its buffer may be made: nothing is wrong before it is used there. */
STORY_OF(unused_rows_are_no_finding, 0, "no faults", "tensor map")
{
    CUtensorMap map;
    start_hooked("explain=dump");
    CHECK_CU(encode(&map, rows_of(ROWS), UINT64_C(1) << 31));
    read_element("read_mapped", &map, ROWS * COLUMNS - 1);
    CHECK(maps_figures().encoded == 1 && maps_figures().too_large == 1);
}

static uint64_t excess_of(uint32_t bits, uint32_t rank, const uint64_t *size, const uint64_t *stride, uint64_t room)
{
    struct tensor_map map = {.element_bits = bits, .rank = rank, .buffer = 1, .room = room};
    memcpy(map.size, size, rank * sizeof *size);
    if (rank > 1)
        memcpy(map.stride + 1, stride, (rank - 1) * sizeof *stride);
    return map_excess(&map);
}

TEST(test_what_a_map_describes)
{
    const uint64_t size[] = {10, 3, 2}, stride[] = {64, 256}, huge[] = {UINT64_C(1) << 32, UINT64_C(1) << 32},
                   far[] = {UINT64_C(1) << 39};
    assert_int_equal(excess_of(32, 1, size, NULL, 40), 0);
    assert_int_equal(excess_of(32, 1, size, NULL, 39), 1);
    assert_int_equal(excess_of(32, 3, size, stride, 256 + 128 + 40), 0);
    assert_int_equal(excess_of(16, 3, size, stride, 256 + 128), 20);
    assert_int_equal(excess_of(4, 1, size, NULL, 4), 1);
    assert_int_equal(excess_of(0, 1, size, NULL, 4), 0);
    assert_int_equal(excess_of(8, 2, huge, far, 100), UINT64_MAX - 100);
}

/* A map with another address is another map. */
STORY(an_address_can_be_replaced)
{
    CUtensorMap map;
    struct tensor_map found;
    start_hooked("explain=dump");
    CUdeviceptr first = rows_of(ROWS), second = rows_of(ROWS / 2);
    CHECK_CU(encode(&map, first, ROWS));
    CHECK(maps_find(&map, &found) && found.buffer == 1 && !map_excess(&found));
    CHECK_CU(hook_cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)second));
    CHECK(maps_find(&map, &found) && found.buffer == 2 && map_excess(&found) == ROWS / 2 * COLUMNS * 4);
    CHECK(encode(&map, second + 1, ROWS) == CUDA_ERROR_INVALID_VALUE && maps_figures().encoded == 2);
    CHECK_CU(hook_cuTensorMapSetAllocationClass(&map, 1, NULL)); /* it changes a bit of the map */
    CHECK(maps_find(&map, &found) && found.buffer == 2 && maps_figures().encoded == 3);
}

/* Of these it is known what they describe, but not which part is copied at once. */
STORY(encode_others)
{
    CUtensorMap map;
    struct tensor_map found;
    const cuuint64_t size[] = {16, 8, 8, 2}, stride[] = {64, 512, 4096};
    const cuuint32_t step[] = {1, 1, 1, 1};
    const int lower[] = {0, 0}, upper[] = {0, 0};
    start_hooked("explain=dump");
    CUdeviceptr base;
    CHECK_CU(hook_cuMemAlloc_v2(&base, 8192));
    CHECK_CU(hook_cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, (void *)(uintptr_t)base, size, stride,
                                          lower, upper, 16, 8, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                          CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    CHECK(maps_find(&map, &found) && found.rank == 4 && map_extent(&found) == 8192 && !map_excess(&found) && !found.box[0]);
    CHECK_CU(hook_cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void *)(uintptr_t)(base + 4096), size,
                                          stride, lower, upper, 16, 8, step, CU_TENSOR_MAP_INTERLEAVE_16B,
                                          CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    CHECK(maps_find(&map, &found) && !map_extent(&found) && found.room == 4096);
    CHECK_CU(encode(&map, 4096, 2)); /* no memory of ours */
    CHECK(!maps_find(&map, &found) && maps_figures().encoded == 2);
}

/* Newer maps take the places of the oldest. */
TEST(test_many)
{
    static struct tensor_map all[MAPS_KEPT];
    struct tensor_map map = {.rank = 1}, found;
    for (uint64_t i = 1; i <= 2 * MAPS_KEPT + 7; i++) {
        memcpy(map.bytes, &i, sizeof i);
        map.base = i;
        maps_add(&map);
        maps_add(&map);
    }
    uint64_t bytes[MAP_BYTES / 8] = {MAPS_KEPT + 8};
    assert_true(maps_find(bytes, &found) && found.base == MAPS_KEPT + 8);
    bytes[0]--;
    assert_false(maps_find(bytes, &found));
    assert_int_equal(maps_read(all), MAPS_KEPT);
    assert_int_equal(all[0].base, 2 * MAPS_KEPT + 7);
    assert_int_equal(all[MAPS_KEPT - 1].base, MAPS_KEPT + 8);
}

TEST_CONCURRENTLY
