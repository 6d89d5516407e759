/*
 * The simulated device's faults: what a program sees of one, with core dumps and without, and what the dump says.
 * Every story runs in a process of its own, because a fault stays with a context. The product's reader, which real dumps have
 * proved (unit.coredump), reads the rest of the dump in every test of a fault.
 */
#include "device_memory.h"
#include "sim_dump.h"
#include <sim/sim.h>

#include <elf.h>

#define FLAGS_SURVIVE (CU_COREDUMP_LIGHTWEIGHT_FLAGS | CU_COREDUMP_SKIP_ABORT)
#define NOT_SANITIZED __attribute__((no_sanitize("address", "undefined")))

static const int is_over = 0; /* for CHECK where the process cannot get to */

static char file_name[64];
static CUcontext context;
static CUmodule module;
static CUdeviceptr base, end; /* one mapped granule, with reserved space behind it */

/* ---- kernels ---- */

NOT_SANITIZED static void store_kernel(const cusim_thread *thread, void *const *arguments)
{
    uint32_t *out = *(uint32_t *const *)arguments[0];
    uint32_t index = thread->block_index[0] * thread->block[0] + thread->thread_index[0];
    if (index <= *(const uint32_t *)arguments[1])
        *(volatile uint32_t *)&out[index] = index + 1;
}

NOT_SANITIZED static void touch_until_gone_kernel(const cusim_thread *thread, void *const *arguments)
{
    uint32_t *is_running = *(uint32_t *const *)arguments[1];
    for (;;) {
        (void)*(*(volatile uint32_t *const *)arguments[0]);
        __atomic_store_n(is_running, 1, __ATOMIC_RELEASE);
    }
}

static void register_kernels(void)
{
    static const size_t pointer_and_number[] = {8, 4}, pointers[] = {8, 8};
    const cusim_kernel kernels[] = {
        {"_Z5storePjj", store_kernel, pointer_and_number, 2, "src/store.cu", 120, 4, 0, 0},
        {.name = "touch", .function = touch_until_gone_kernel, .argument_bytes = pointers, .argument_count = 2},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        cusim_register_kernel(&kernels[i]);
}

/* ---- set-up in the child ---- */

static void remove_dump(void)
{
    unlink(file_name);
}

/* Names the dump's file. */
static void name_dump(void)
{
    snprintf(file_name, sizeof file_name, "/tmp/cufence-sim-test-%d.dump", (int)getpid());
    unlink(file_name);
    CHECK(atexit(remove_dump) == 0);
}

static void arm(unsigned flags)
{
    unsigned char yes = 1;
    size_t one = 1, flags_size = sizeof flags;
    if (!file_name[0])
        name_dump();
    size_t name_size = strlen(file_name) + 1;
    OK(cuInit(0));
    OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, file_name, &name_size));
    OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &flags_size));
    OK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &yes, &one));
    yes = 0;
    OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_LIGHTWEIGHT, &yes, &one));
    CHECK(yes == ((flags & CU_COREDUMP_LIGHTWEIGHT_FLAGS) == CU_COREDUMP_LIGHTWEIGHT_FLAGS));
}

static void open_device(void)
{
    register_kernels();
    OK(cuInit(0));
    context = use_device(0);
    OK(cuModuleLoadData(&module, "any image"));
    CHECK((base = map_granule(64)) != 0);
    end = base + GRANULE;
}

static CUresult launch(const char *name, unsigned blocks, unsigned threads, void **arguments)
{
    CUfunction function;
    CUresult result = cuModuleGetFunction(&function, module, name);
    if (result != CUDA_SUCCESS)
        return result;
    return cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL);
}

/* Stores to 1000 numbers that end with the mapping, and to the one behind them: thread 104 of block 7 of 8 faults. */
static CUresult launch_overrun(uint32_t last)
{
    CUdeviceptr buffer = end - 4000;
    return launch("_Z5storePjj", 8, 128, (void *[]){&buffer, &last});
}

/* ---- stories ---- */

STORY(without_dumps_the_error_is_sticky)
{
    name_dump();
    open_device();
    OK(launch_overrun(1000));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    CUdeviceptr memory;
    CUevent event;
    CUstream stream;
    CHECK(cuMemAlloc(&memory, 16) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuEventCreate(&event, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuStreamCreate(&stream, 0) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(launch_overrun(999) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuStreamSynchronize(NULL) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(access(file_name, F_OK) != 0);
}

STORY(a_survived_fault_leaves_a_dump_and_a_good_context)
{
    arm(FLAGS_SURVIVE);
    open_device();
    OK(launch_overrun(1000));
    OK(cuCtxSynchronize());
    /* The synchronisation has waited for the dump, and every store in bounds has landed. */
    struct dump dump = read_all(open(file_name, O_RDONLY)), cubin;
    uint64_t instruction[2];
    CHECK(sm_of_fault(dump) == 7);
    faulting_instruction(dump, &cubin, instruction);
    /* STG.E desc[UR4][R2.64], R5: the encoding that was measured, but for its predicate. */
    CHECK(instruction[0] == 0x0000000502007986 && instruction[1] == 0x000fe2000c101904);
    uint32_t numbers[1000];
    OK(cuMemcpyDtoH(numbers, end - sizeof numbers, sizeof numbers));
    for (uint32_t i = 0; i < 1000; i++)
        CHECK(numbers[i] == i + 1);
    OK(launch_overrun(999));
    OK(cuCtxSynchronize());

    /* The second one writes a dump too, and then ends the context. */
    CHECK(unlink(file_name) == 0);
    OK(launch("cufence_poison", 1, 1, (void *[]){&end}));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuStreamQuery(NULL) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(access(file_name, F_OK) == 0);
}

STORY(unmapping_does_not_wait_for_the_kernel)
{
    open_device();
    uint32_t is_running = 0, *flag = &is_running;
    OK(launch("touch", 1, 1, (void *[]){&base, &flag}));
    while (__atomic_load_n(&is_running, __ATOMIC_ACQUIRE) == 0)
        continue;
    OK(cuMemUnmap(base, GRANULE));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static sigjmp_buf back;

static void host_handler(int signal_number)
{
    siglongjmp(back, 1);
}

NOT_SANITIZED static void touch_nothing(void)
{
    static const volatile uintptr_t nowhere = 64;
    *(volatile char *)nowhere = 1;
}

STORY(faults_of_the_host_go_to_the_handler_before)
{
    struct sigaction action = {.sa_handler = host_handler, .sa_flags = SA_NODEFER};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    open_device();
    OK(launch_overrun(1000));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    if (sigsetjmp(back, 1) == 0) {
        touch_nothing();
        CHECK(is_over);
    }
}

STORY(unmapped_copies_fail_when_they_run)
{
    open_device();
    uint32_t flag = 0, *pointer = &flag;
    void *word;
    OK(cuMemAllocHost(&word, sizeof flag)); /* a copy to other memory would be over when it returns */
    OK(launch("cusim_spin", 1, 1, (void *[]){&pointer}));
    OK(cuMemcpyDtoHAsync(word, base, sizeof flag, NULL));
    OK(cuMemUnmap(base, GRANULE));
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

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
    open_device();
    CHECK(cuMemAlloc(&memory, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&memory, 1));
    CHECK(cuMemAddressReserve(&memory, (size_t)4 << 30, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CONCURRENTLY
