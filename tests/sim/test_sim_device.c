/* The simulated device: its configuration, what a strict one does, memory that is unmapped too early, and memory handles as
 * file descriptors. That another process maps them at the same addresses, and what a fault leaves, the second launch shows:
 * test_rerun.c. */
#include "device_memory.h"
#include "child.h"
#include <sim/sim.h>

#include <sys/mman.h>
#include <sys/resource.h>

#if defined(__SANITIZE_THREAD__)
#define IS_THREAD_SANITIZED 1
#else
#define IS_THREAD_SANITIZED 0
#endif

#define OK(call) CHECK((call) == CUDA_SUCCESS)
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

/* ---- memory that is unmapped while it is used ---- */

static CUmodule module;

static void touch_until_gone_kernel(const cusim_thread *thread, void *const *arguments)
{
    uint32_t *is_running = *(uint32_t *const *)arguments[1];
    for (;;) {
        (void)*(*(volatile uint32_t *const *)arguments[0]);
        __atomic_store_n(is_running, 1, __ATOMIC_RELEASE);
    }
}

static void launch(const char *name, void **arguments)
{
    CUfunction function;
    OK(cuModuleGetFunction(&function, module, name));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
}

/* Returns a granule that is mapped. */
static CUdeviceptr open_device(void)
{
    static const size_t pointers[] = {8, 8};
    static const cusim_kernel touch = {
        .name = "touch", .function = touch_until_gone_kernel, .argument_bytes = pointers, .argument_count = 2};
    cusim_register_kernel(&touch);
    start();
    OK(cuModuleLoadData(&module, "any image"));
    return map_granule();
}

STORY(unmapping_does_not_wait_for_the_kernel)
{
    CUdeviceptr base = open_device();
    uint32_t is_running = 0, *flag = &is_running;
    launch("touch", (void *[]){&base, &flag});
    while (__atomic_load_n(&is_running, __ATOMIC_ACQUIRE) == 0)
        continue;
    OK(cuMemUnmap(base, GRANULE));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

STORY(unmapped_copies_fail_when_they_run)
{
    CUdeviceptr base = open_device();
    uint32_t flag = 0, *pointer = &flag;
    void *word;
    OK(cuMemAllocHost(&word, sizeof flag)); /* a copy to other memory would be over when it returns */
    launch("cusim_spin", (void *[]){&pointer});
    OK(cuMemcpyDtoHAsync(word, base, sizeof flag, NULL));
    OK(cuMemUnmap(base, GRANULE));
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- configurations ---- */

STORY_OF(a_strict_device_names_the_call_and_aborts, 128 + SIGABRT, "cuStreamQuery", NULL)
{
    CUcontext own;
    CUstream streams[8], next;
    signal(SIGABRT, SIG_DFL); /* cmocka's */
    setenv("CUFENCE_SIM", "strict=1,reuse=0", 1);
    OK(cuInit(0));
    OK(cuCtxCreate(&own, NULL, 0, 0));
    for (int i = 0; i < 8; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 8; i++)
        OK(cuStreamDestroy(streams[i]));
    for (int i = 0; i < 8; i++) {
        OK(cuStreamCreate(&next, CU_STREAM_NON_BLOCKING));
        for (int j = 0; j < 8; j++)
            CHECK(next != streams[j]);
    }
    cuStreamQuery(streams[3]);
}

STORY(a_bad_configuration_is_refused)
{
    static const char *const bad[] = {"devices=9", "memory=lots", "unknown=1", "fail=cuMemCreate:2", "memory",
                                      "pci=1:0",   "pci=0:0:20",  "strict=2",  "newer=13000",        "reuse=yes"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pid_t child = fork();
        if (child == 0) {
            setenv("CUFENCE_SIM", bad[i], 1);
            _exit(cuInit(0) == CUDA_ERROR_INVALID_VALUE ? 0 : 1);
        }
        CHECK(await_child(child) == 0);
    }
}

STORY(a_configuration_is_obeyed)
{
    setenv("CUFENCE_SIM", "devices=2,memory=1G,reserve=4G,latency=cuInit:1,fail=cuMemAlloc:1:2,pci=1:0a:3,pci=beef:0a:3", 1);
    int count;
    size_t bytes;
    CUdeviceptr memory;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    OK(cuDeviceTotalMem(&bytes, 1));
    CHECK(count == 2 && bytes == (size_t)1 << 30);
    for (int i = 0; i < 2; i++) {
        int domain, bus, device;
        OK(cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, i));
        OK(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
        OK(cuDeviceGetAttribute(&device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, i));
        CHECK(domain == (i == 0 ? 1 : 0xbeef) && bus == 10 && device == 3);
    }
    use_device(0);
    CHECK(map_granule() != 0);
    CHECK(cuMemAlloc(&memory, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&memory, 1));
    CHECK(cuMemAddressReserve(&memory, (size_t)4 << 30, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CONCURRENTLY
