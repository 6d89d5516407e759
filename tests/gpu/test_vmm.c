/* The driver's behaviour that cufence relies on: virtual memory and core dump attributes. Without cufence. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "story.h"

#include <stdbool.h>

#define PAGE ((size_t)2 << 20)

static const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc read_write = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static CUdeviceptr reserve(size_t size)
{
    CUdeviceptr address;
    story_ok(driver->cuMemAddressReserve(&address, size, 0, 0, 0), "cuMemAddressReserve");
    return address;
}

static CUmemGenericAllocationHandle create(size_t size)
{
    CUmemGenericAllocationHandle handle;
    story_ok(driver->cuMemCreate(&handle, size, &properties, 0), "cuMemCreate");
    return handle;
}

static void map(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle)
{
    story_ok(driver->cuMemMap(address, size, 0, handle, 0), "cuMemMap");
    story_ok(driver->cuMemSetAccess(address, size, &read_write, 1), "cuMemSetAccess");
}

static void expect_well(int (*tell)(void))
{
    const struct story *story = story_run(NULL, tell);
    if (story->exit_status != 0)
        fail_msg("status %d, signal %d: %s", story->exit_status, story->signal, story->stderr_text);
}

static int tell_granularity(void)
{
    size_t minimum = 0, recommended = 0;
    story_ok(driver->cuMemGetAllocationGranularity(&minimum, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "granularity");
    story_ok(driver->cuMemGetAllocationGranularity(&recommended, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
             "granularity");
    story_check(minimum == PAGE && recommended == PAGE, "granularity %zu, recommended %zu", minimum, recommended);
    return 0;
}

static int tell_reservation(void)
{
    CUdeviceptr small = reserve((size_t)1 << 40), large = reserve((size_t)64 << 40);
    story_check(small % PAGE == 0 && large % PAGE == 0, "not aligned");
    story_ok(driver->cuMemAddressFree(large, (size_t)64 << 40), "cuMemAddressFree");
    story_ok(driver->cuMemAddressFree(small, (size_t)1 << 40), "cuMemAddressFree");
    return 0;
}

static int tell_offset_refused(void)
{
    CUdeviceptr address = reserve(4 * PAGE);
    CUmemGenericAllocationHandle handle = create(2 * PAGE);
    CUresult offset = driver->cuMemMap(address, PAGE, PAGE, handle, 0), part = driver->cuMemMap(address, PAGE, 0, handle, 0);
    story_check(offset != CUDA_SUCCESS, "an offset was accepted");
    story_check(part != CUDA_SUCCESS, "part of a handle was mapped");
    map(address, 2 * PAGE, handle);
    return 0;
}

static int tell_two_addresses(void)
{
    CUdeviceptr address = reserve(4 * PAGE);
    CUmemGenericAllocationHandle handle = create(PAGE);
    uint32_t written = 0x600df00d, read = 0;
    map(address, PAGE, handle);
    map(address + 2 * PAGE, PAGE, handle);
    story_ok(driver->cuMemcpyHtoD(address + 64, &written, sizeof written), "cuMemcpyHtoD");
    story_ok(driver->cuMemcpyDtoH(&read, address + 2 * PAGE + 64, sizeof read), "cuMemcpyDtoH");
    story_check(read == written, "read %x", read);
    return 0;
}

/* This is why the allocator waits for a stream before it unmaps. */
static int tell_unmap_does_not_wait(void)
{
    CUdeviceptr address = reserve(PAGE);
    CUmemGenericAllocationHandle handle = create(PAGE);
    unsigned long long wait_ns = 500000000;
    int value = 1;
    map(address, PAGE, handle);
    story_ok(story_launch("gpu_fill", 1, NULL, ARGUMENTS(&address, &(size_t){1}, &value)), "launch"); /* loads the module */
    story_ok(driver->cuCtxSynchronize(), "cuCtxSynchronize");
    story_ok(story_launch("gpu_wait", 1, NULL, ARGUMENTS(&wait_ns, &address, &value)), "launch");
    uint64_t start = story_now();
    story_ok(driver->cuMemUnmap(address, PAGE), "cuMemUnmap");
    uint64_t took = story_now() - start;
    story_check(took < 100000000, "cuMemUnmap took %llu ns", (unsigned long long)took);
    story_check(driver->cuCtxSynchronize() != CUDA_SUCCESS, "the kernel did not fault");
    return 0;
}

static int tell_copy_past_mapping(void)
{
    static char bytes[4096];
    CUdeviceptr address = reserve(2 * PAGE);
    map(address, PAGE, create(PAGE));
    story_check(driver->cuMemcpyHtoD(address + PAGE - 1, bytes, 2) == CUDA_ERROR_INVALID_VALUE,
                "a copy past the end was accepted");
    story_ok(driver->cuMemcpyHtoD(address + PAGE - 1, bytes, 1), "cuMemcpyHtoD after the refusal");
    return 0;
}

static int tell_map_while_capturing(void)
{
    CUresult (*begin)(CUstream, CUstreamCaptureMode) = (__typeof__(begin))story_symbol("cuStreamBeginCapture_v2");
    CUresult (*end)(CUstream, CUgraph *) = (__typeof__(end))story_symbol("cuStreamEndCapture");
    CUstream stream = story_stream();
    CUgraph graph = NULL;
    CUdeviceptr address = reserve(PAGE);
    story_ok(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    map(address, PAGE, create(PAGE));
    story_ok(end(stream, &graph), "cuStreamEndCapture");
    story_check(graph != NULL, "the capture was invalidated");
    return 0;
}

static int tell_coredump_attributes(void)
{
    if (!driver->cuCoredumpSetAttributeGlobal)
        return 0;
    bool on = true, read = false;
    size_t size = sizeof on;
    story_ok(driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_LIGHTWEIGHT, &on, &size), "cuCoredumpSetAttributeGlobal");
    size = sizeof read;
    story_ok(driver->cuCoredumpGetAttributeGlobal(CU_COREDUMP_LIGHTWEIGHT, &read, &size), "cuCoredumpGetAttributeGlobal");
    story_check(read, "the attribute did not stay");
    return 0;
}

#define STORY(name)                                                                                                            \
    TEST(test_##name)                                                                                                          \
    {                                                                                                                          \
        expect_well(tell_##name);                                                                                              \
    }
STORY(granularity)
STORY(reservation)
STORY(offset_refused)
STORY(two_addresses)
STORY(unmap_does_not_wait)
STORY(copy_past_mapping)
STORY(map_while_capturing)
STORY(coredump_attributes)

int main(int argc, char **argv)
{
    story_require_gpu();
    return test_run(argc, argv);
}
