/*
 * The simulated device's memory in two processes: handles as file descriptors, and the same addresses. The other process is
 * this program, started anew before CUDA is: so the addresses of its libraries and stacks are its own.
 */
#define TEST_OWN_MAIN
#include "device_memory.h"
#include "sim_dump.h"
#include <sim/sim.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

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

static void map(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle)
{
    OK(cuMemMap(address, size, 0, handle, 0));
    OK(cuMemSetAccess(address, size, &read_write, 1));
}

static uint32_t load(CUdeviceptr address)
{
    uint32_t value;
    OK(cuMemcpyDtoH(&value, address, sizeof value));
    return value;
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

/* ---- the other process ---- */

/* What is sent: where the reservation was, and a descriptor of the memory at its second granule. */
struct message {
    CUdeviceptr base;
    size_t reserved, mapped;
};

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void send_memory(int to, struct message message, int descriptor)
{
    union control control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct iovec part = {&message, sizeof message};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    CHECK(sendmsg(to, &header, 0) == sizeof message);
}

static int receive_memory(int from, struct message *message)
{
    union control control;
    struct iovec part = {message, sizeof *message};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    CHECK(recvmsg(from, &header, 0) == sizeof *message);
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(&control.header), sizeof descriptor);
    return descriptor;
}

/* Maps what it is sent at the same address, checks it, changes it, and checks it again when the sender has ended. */
static void run_other(int socket)
{
    struct message message;
    int descriptor = receive_memory(socket, &message);
    start();
    CUdeviceptr base = 0;
    CUmemGenericAllocationHandle handle;
    OK(cuMemAddressReserve(&base, message.reserved, 0, message.base, 0));
    CHECK(base == message.base);
    size_t free_before, free_after, total;
    OK(cuMemGetInfo(&free_before, &total));
    OK(import(&handle, descriptor));
    CHECK(close(descriptor) == 0);
    OK(cuMemGetInfo(&free_after, &total));
    CHECK(free_before == free_after);
    map(base + GRANULE, message.mapped, handle);
    CHECK(load(base + GRANULE) == 0x1111 && load(base + GRANULE + message.mapped - 4) == 0x2222);
    OK(cuMemsetD32(base + GRANULE, 0x3333, 1));
    OK(cuCtxSynchronize());
    char byte = 0;
    CHECK(write(socket, &byte, 1) == 1);
    CHECK(read(socket, &byte, 1) == 0); /* the sender has ended */
    CHECK(load(base + GRANULE) == 0x4444 && load(base + GRANULE + message.mapped - 4) == 0x2222);
}

static pid_t start_other(int *to_it)
{
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK(fcntl(sockets[0], F_SETFD, FD_CLOEXEC) == 0);
    pid_t other = fork();
    CHECK(other >= 0);
    if (other == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", sockets[1]);
        execl("/proc/self/exe", "sim_share", number, (char *)NULL);
        _exit(127);
    }
    close(sockets[1]);
    *to_it = sockets[0];
    return other;
}

/* Sends two granules, with 0x1111 at their start and 0x2222 at their end. */
static CUdeviceptr share(int to)
{
    struct message message = {.reserved = (size_t)8 << 30, .mapped = 2 * GRANULE};
    start();
    create(GRANULE, &exportable); /* in front of the other */
    CUmemGenericAllocationHandle handle = create(message.mapped, &exportable);
    OK(cuMemAddressReserve(&message.base, message.reserved, 0, 0, 0));
    CUdeviceptr memory = message.base + GRANULE, end = memory + message.mapped;
    map(memory, message.mapped, handle);
    OK(cuMemsetD32(memory, 0x1111, 1));
    OK(cuMemsetD32(end - 4, 0x2222, 1));
    OK(cuCtxSynchronize());
    OK(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(memory + 5)));
    int descriptor = export_handle(handle);
    for (int i = 0; i < 2; i++) /* the mapping's own reference is left */
        OK(cuMemRelease(handle));
    send_memory(to, message, descriptor);
    close(descriptor);
    char byte;
    CHECK(read(to, &byte, 1) == 1); /* the other one has changed it */
    return memory;
}

static void expect_well(pid_t other)
{
    CHECK(await_child(other) == 0);
}

/* ---- stories ---- */

STORY(another_process_maps_the_same_bytes_at_the_same_address)
{
    int to;
    pid_t other = start_other(&to);
    CUdeviceptr memory = share(to);
    CHECK(load(memory) == 0x3333);
    OK(cuMemsetD32(memory, 0x4444, 1));
    OK(cuCtxSynchronize());
    /* The other one keeps the memory alive. */
    OK(cuMemUnmap(memory, 2 * GRANULE));
    close(to);
    expect_well(other);
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

int main(int argc, char **argv)
{
    if (argc == 2 && atoi(argv[1]) > 0) {
        run_other(atoi(argv[1]));
        return 0;
    }
    return test_run(argc, argv);
}
