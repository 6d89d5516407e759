/* The simulated device's virtual memory: what FACTS of a real one the allocator rests on. */
#include "device_memory.h"
#include "results.h"

static CUdeviceptr reserve(size_t size)
{
    CUdeviceptr address = 0;
    OK(cuMemAddressReserve(&address, size, 0, 0, 0));
    assert_int_equal(address % GRANULE, 0);
    return address;
}

static CUmemGenericAllocationHandle create(size_t size)
{
    CUmemGenericAllocationHandle handle = 0;
    OK(cuMemCreate(&handle, size, &device_memory, 0));
    return handle;
}

static int set_up(void **state)
{
    setenv("CUFENCE_SIM", "devices=2,memory=64M", 1);
    use_device(0);
    return 0;
}

TEST(reservations_are_limited)
{
    CUdeviceptr address = 0;
    size_t size = (size_t)64 << 40;
    assert_result(cuMemAddressReserve(&address, size, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    while (cuMemAddressReserve(&address, size, 0, 0, 0) != CUDA_SUCCESS)
        size /= 2;
    assert_true(size >= (size_t)8 << 30);
    OK(cuMemAddressFree(address, size));
    assert_result(cuMemAddressReserve(&address, 4096, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressReserve(&address, GRANULE, (size_t)1 << 30, 0, 0));
    assert_int_equal(address % ((size_t)1 << 30), 0);
    assert_result(cuMemAddressFree(address, 2 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(address, GRANULE));
}

TEST(one_handle_shows_the_same_bytes_at_two_addresses)
{
    CUdeviceptr base = reserve(8 * GRANULE);
    CUmemGenericAllocationHandle handle = create(GRANULE);
    CUdeviceptr first = base, second = base + 4 * GRANULE;
    OK(cuMemMap(first, GRANULE, 0, handle, 0));
    OK(cuMemMap(second, GRANULE, 0, handle, 0));
    OK(cuMemSetAccess(first, GRANULE, &read_write, 1));
    OK(cuMemSetAccess(second, GRANULE, &read_write, 1));
    uint32_t word = 0x12345678, back = 0;
    OK(cuMemcpyHtoD(first + 100, &word, sizeof word));
    OK(cuMemcpyDtoH(&back, second + 100, sizeof back));
    assert_int_equal(back, word);

    /* A released handle lives on in its mappings; after the last one its memory comes back empty. */
    OK(cuMemRelease(handle));
    assert_result(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(first, GRANULE));
    OK(cuMemcpyDtoH(&back, second + 100, sizeof back));
    assert_int_equal(back, word);
    OK(cuMemUnmap(second, GRANULE));
    OK(cuMemAddressFree(base, 8 * GRANULE));
}

TEST(maps_are_whole_handles_in_free_reserved_space)
{
    CUdeviceptr base = reserve(8 * GRANULE);
    CUmemGenericAllocationHandle handle = create(2 * GRANULE);
    assert_result(cuMemMap(base, GRANULE, GRANULE, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_result(cuMemMap(base, GRANULE, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_result(cuMemMap(base + 4096, 2 * GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemMap(base + 7 * GRANULE, 2 * GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemMap(base - (CUdeviceptr)1024 * GRANULE, 2 * GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemMap(base, 2 * GRANULE, 0, 77, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(base, 2 * GRANULE, 0, handle, 0));
    assert_result(cuMemMap(base + GRANULE, 2 * GRANULE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(base + 2 * GRANULE, 2 * GRANULE, 0, handle, 0));
    assert_result(cuMemAddressFree(base, 8 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemUnmap(base, GRANULE), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemUnmap(base + GRANULE, 2 * GRANULE), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(base, 4 * GRANULE));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(base, 8 * GRANULE));
}

TEST(access_is_what_was_set)
{
    CUdeviceptr base = reserve(GRANULE);
    CUmemGenericAllocationHandle handle = create(GRANULE);
    OK(cuMemMap(base, GRANULE, 0, handle, 0));
    uint32_t word = 1;
    assert_result(cuMemcpyHtoD(base, &word, sizeof word), CUDA_ERROR_INVALID_VALUE);
    unsigned long long access = 99;
    OK(cuMemGetAccess(&access, &device_memory.location, base));
    assert_int_equal(access, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUmemAccessDesc description = read_write;
    description.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    OK(cuMemSetAccess(base, GRANULE, &description, 1));
    OK(cuMemcpyDtoH(&word, base, sizeof word));
    assert_int_equal(word, 0);
    assert_result(cuMemcpyHtoD(base, &word, sizeof word), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemSetAccess(base, GRANULE, &read_write, 1));
    OK(cuMemcpyHtoD(base, &word, sizeof word));
    OK(cuMemGetAccess(&access, &device_memory.location, base));
    assert_int_equal(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    const CUmemLocation other = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    OK(cuMemGetAccess(&access, &other, base));
    assert_int_equal(access, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    description.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    OK(cuMemSetAccess(base, GRANULE, &description, 1));
    assert_result(cuMemcpyDtoH(&word, base, sizeof word), CUDA_ERROR_INVALID_VALUE);
}

TEST(access_is_of_the_device_that_executes)
{
    CUdeviceptr base = reserve(GRANULE);
    CUmemGenericAllocationHandle handle = create(GRANULE);
    CUcontext first, second;
    uint32_t word = 7;
    OK(cuCtxGetCurrent(&first));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuMemMap(base, GRANULE, 0, handle, 0));
    OK(cuMemSetAccess(base, GRANULE, &read_write, 1));
    OK(cuMemsetD32(base, word, 2));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(second));
    assert_result(cuMemcpyDtoH(&word, base, sizeof word), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemcpyDtoD(base + 8, base, 8), CUDA_ERROR_INVALID_VALUE);
    assert_result(cuMemsetD8(base, 1, 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyPeer(base + 8, first, base, first, 8));
    CUmemAccessDesc description = read_write;
    description.location.id = 1;
    OK(cuMemSetAccess(base, GRANULE, &description, 1));
    OK(cuMemcpyDtoH(&word, base + 12, sizeof word));
    assert_int_equal(word, 7);
}

TEST_GROUP(set_up, NULL)
TEST_CONCURRENTLY
