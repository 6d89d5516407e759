/* The simulated device's memory handles as file descriptors. That another process maps them at the same addresses, the second
 * launch shows: test_witness.c. */
#include "device_memory.h"
#include "sim_dump.h"
#include <sim/sim.h>

#include <sys/mman.h>
#include <sys/resource.h>

#if defined(__SANITIZE_THREAD__)
#define IS_THREAD_SANITIZED 1
#else
#define IS_THREAD_SANITIZED 0
#endif

#define FILE_HANDLE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static const CUmemAllocationProp exportable = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .requestedHandleTypes = FILE_HANDLE,
                                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

static void start(void)
{
    OK(cuInit(0));
    use_device(0);
}

static CUmemGenericAllocationHandle create(size_t size, const CUmemAllocationProp *properties)
{
    CUmemGenericAllocationHandle handle = 0;
    OK(cuMemCreate(&handle, size, properties, 0));
    return handle;
}

static int export_handle(CUmemGenericAllocationHandle handle)
{
    int descriptor = -1;
    OK(cuMemExportToShareableHandle(&descriptor, handle, FILE_HANDLE, 0));
    CHECK(descriptor > 2);
    return descriptor;
}

static CUresult import(CUmemGenericAllocationHandle *handle, int descriptor)
{
    return cuMemImportFromShareableHandle(handle, (void *)(uintptr_t)descriptor, FILE_HANDLE);
}

STORY(only_exportable_handles_are_exported)
{
    start();
    CUmemGenericAllocationHandle handle = create(GRANULE, &exportable), other = create(GRANULE, &device_memory);
    int descriptor = -1;
    CHECK(cuMemExportToShareableHandle(&descriptor, other, FILE_HANDLE, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemExportToShareableHandle(&descriptor, 77, FILE_HANDLE, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemExportToShareableHandle(NULL, handle, FILE_HANDLE, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_NONE, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_WIN32, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemExportToShareableHandle(&descriptor, handle, FILE_HANDLE, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(descriptor == -1);
    CUmemAllocationProp fabric = exportable;
    fabric.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    CHECK(cuMemCreate(&other, GRANULE, &fabric, 0) == CUDA_ERROR_NOT_SUPPORTED);
    int is_supported = 0;
    OK(cuDeviceGetAttribute(&is_supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
    CHECK(is_supported == 1);
    OK(cuMemRelease(handle));
    CHECK(cuMemExportToShareableHandle(&descriptor, handle, FILE_HANDLE, 0) == CUDA_ERROR_INVALID_VALUE);
}

STORY(other_descriptors_are_refused)
{
    start();
    CUmemGenericAllocationHandle handle;
    int null = open("/dev/null", O_RDWR), file = memfd_create("other", 0), ends[2];
    CHECK(null >= 0 && file >= 0 && pipe(ends) == 0);
    CHECK(ftruncate(file, ((off_t)1 << 46) + ((off_t)1 << 31)) == 0);
    const int bad[] = {-1, 9999, null, file, ends[0], STDERR_FILENO};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(import(&handle, bad[i]) == CUDA_ERROR_INVALID_VALUE);
    int descriptor = export_handle(create(GRANULE, &exportable));
    CHECK(import(NULL, descriptor) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)descriptor, CU_MEM_HANDLE_TYPE_FABRIC) ==
          CUDA_ERROR_INVALID_VALUE);
    OK(import(&handle, descriptor));
}

STORY(handles_need_no_descriptors)
{
    const struct rlimit few = {32, 32};
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    start();
    for (int i = 0; i < 1000; i++) {
        CUmemGenericAllocationHandle handle = create(GRANULE, &exportable), imported;
        int descriptor = export_handle(handle);
        OK(import(&imported, descriptor));
        close(descriptor);
        if (i < 500)
            OK(cuMemRelease(imported));
    }
}

STORY(a_wanted_address_is_given_where_it_is_free)
{
    start();
    CUdeviceptr base, again, elsewhere;
    OK(cuMemAddressReserve(&base, (size_t)4 << 30, 0, 0, 0));
#if !IS_THREAD_SANITIZED
    CHECK(base == (CUdeviceptr)1 << 45); /* in every process */
#endif
    OK(cuMemAddressReserve(&elsewhere, GRANULE, 0, base + GRANULE, 0));
    CHECK(elsewhere < base || elsewhere >= base + ((CUdeviceptr)4 << 30));
    OK(cuMemAddressFree(base, (size_t)4 << 30));
    OK(cuMemAddressReserve(&again, GRANULE, 0, base + 64 * GRANULE, 0));
    CHECK(again == base + 64 * GRANULE);
}

TEST_CONCURRENTLY
