#include "rerun/rerun.h"

#include "base/error.h"
#include "base/reader.h"
#include "base/thread.h"
#include "driver/driver.h"
#include "process_memory.h"
#include "json/json_table.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATUS_DONE = 0, STATUS_FAILED = 1, STATUS_FAULTED = 2 };

static struct {
    int socket, device;
    struct rerun_input input;
    CUmodule module;
    CUfunction function;
    int is_refused; /* the driver does not load the image */
} self;

/* The driver aborts the process after its dump. That is no crash: leaves without a core dump of the host. */
static void leave_after_dump(int signal)
{
    (void)signal;
    _exit(STATUS_FAULTED);
}

static void *watch(void *unused)
{
    struct pollfd other = {.fd = self.socket};
    (void)unused;
    while (poll(&other, 1, -1) < 0 && errno == EINTR)
        ;
    if (other.revents & (POLLHUP | POLLERR))
        kill(getpid(), SIGKILL); /* the driver's exit handlers may wait for the kernel */
    return NULL;
}

/* Ends this process with the one at the other end of the socket, also while a launch or a call of the driver hangs, and where
 * the kernel does not send the signal that spawn.c asks for. */
static cufence_status watch_socket(void)
{
    pthread_t thread;
    int failed = thread_start(&thread, watch, NULL);
    if (!failed)
        pthread_detach(thread);
    return failed ? error_set(CUFENCE_ERROR_SYSTEM, "a thread cannot be started: %s", strerror(failed)) : CUFENCE_OK;
}

static int has_sound_move(const struct rerun_input *input)
{
    return !input->moved_bytes || (input->moved_to >= input->bundle.arena_start + MOVED_ROOM &&
                                   input->moved_to < input->bundle.arena_end - MOVED_ROOM &&
                                   input->moved_bytes < input->bundle.arena_end - MOVED_ROOM - input->moved_to);
}

cufence_status rerun_input_read(const void *bytes, size_t size, struct rerun_input *input, struct problem *problem)
{
    struct json_memory memory = {NULL};
    struct reader reader = reader_of((struct span){bytes, size}, 0);
    struct rerun_head got;
    json_error_t ignored;
    *input = (struct rerun_input){0};
    if (!reader_copy(&reader, &got, sizeof got) || memcmp(got.magic, RERUN_MAGIC, sizeof got.magic) != 0)
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "this is not an input of cufence");
    if (got.version != RERUN_VERSION)
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "an input of version %u, but this cufence reads version %u",
                           got.version, RERUN_VERSION);
    struct reader json = reader_cut(&reader, got.json_bytes);
    memory.json = json_loadb((const char *)json.at, reader_left(&json), 0, &ignored);
    cufence_status status = json_table_read(&rerun_input_record, memory.json, input, &memory, problem);
    input->image = reader.at;
    input->bundle.memory = memory;
    if (status == CUFENCE_OK && input->bundle.launch_count && input->bundle.arena_start < input->bundle.arena_end &&
        has_sound_move(input) && bundle_has_sound_pinned(&input->bundle) && input->image_bytes &&
        reader_left(&reader) == input->image_bytes)
        return CUFENCE_OK;
    json_memory_free(&input->bundle.memory);
    return status == CUFENCE_ERROR_OUT_OF_MEMORY ? status : problem_set(problem, CUFENCE_ERROR_CORRUPT, "the input is damaged");
}

static cufence_status receive_input(void)
{
    struct rerun_message message;
    struct problem problem;
    struct stat file;
    int fd = -1;
    if (!rerun_receive(self.socket, &message, &fd) || message.type != MESSAGE_INPUT || fd < 0 || fstat(fd, &file) != 0)
        return error_set(CUFENCE_ERROR_CORRUPT, "no input came over the socket");
    if (message.number)
        alarm(message.number / 1000 + 2); /* if the process that faulted ends, nobody else does it */
    const void *bytes = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return error_set(CUFENCE_ERROR_SYSTEM, "the input cannot be mapped");
    cufence_status status = rerun_input_read(bytes, (size_t)file.st_size, &self.input, &problem);
    return status == CUFENCE_OK ? CUFENCE_OK : error_set(status, "%s", problem.text);
}

static cufence_status find_device(void)
{
    int count = 0;
    if (!driver->cuDeviceGetUuid || !driver->cuLaunchKernelEx || (*self.input.dump && !driver->cuCoredumpSetAttributeGlobal))
        return error_set(CUFENCE_ERROR_UNSUPPORTED, "the driver is too old");
    driver->cuDeviceGetCount(&count);
    for (int i = 0; i < count; i++) {
        CUuuid uuid;
        CUdevice device;
        self.device = i;
        if (driver->cuDeviceGet(&device, i) == CUDA_SUCCESS && driver->cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS &&
            !memcmp(uuid.bytes, self.input.device, sizeof self.input.device))
            return CUFENCE_OK;
    }
    return error_set(CUFENCE_ERROR_UNSUPPORTED, "the new process does not see the GPU");
}

static cufence_status retain(CUcontext *context, CUdevice device)
{
    CUresult result = driver->cuDevicePrimaryCtxRetain(context, device);
    if (result == CUDA_ERROR_DEVICE_UNAVAILABLE)
        return error_set(CUFENCE_ERROR_UNSUPPORTED,
                         "the GPU is in compute mode exclusive-process, so it takes no second process "
                         "(`nvidia-smi --compute-mode=0` lets it)");
    if (result >= CUDA_ERROR_MPS_CONNECTION_FAILED && result <= CUDA_ERROR_MPS_CLIENT_TERMINATED)
        return error_set(CUFENCE_ERROR_UNSUPPORTED, "the MPS server takes no second process after the fault (%d)", (int)result);
    return driver_check(result, "cuDevicePrimaryCtxRetain");
}

/* Whatever the program's context is, one of its own or a green one: the memory and the code are the same in the primary one. */
static cufence_status open_context(void)
{
    CUdevice device;
    CUcontext context;
    return driver_check(driver->cuDeviceGet(&device, self.device), "cuDeviceGet")
               ?: retain(&context, device)
               ?: driver_check(driver->cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static cufence_status load_kernel(void)
{
    cufence_status status = driver_check(driver->cuModuleLoadData(&self.module, self.input.image), "cuModuleLoadData");
    if (status == CUFENCE_OK)
        status = driver_check(driver->cuModuleGetFunction(&self.function, self.module, self.input.bundle.symbol),
                              "cuModuleGetFunction");
    self.is_refused = status != CUFENCE_OK;
    return status;
}

static cufence_status launch_and_wait(const struct rerun_launch *launch)
{
    size_t bytes = launch->argument_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)launch->arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    CUlaunchAttribute attributes[2];
    CUlaunchConfig config = {.gridDimX = launch->grid[0],
                             .gridDimY = launch->grid[1],
                             .gridDimZ = launch->grid[2],
                             .blockDimX = launch->block[0],
                             .blockDimY = launch->block[1],
                             .blockDimZ = launch->block[2],
                             .sharedMemBytes = launch->shared_bytes,
                             .attrs = attributes};
    if (launch->is_cooperative)
        attributes[config.numAttrs++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    if (launch->cluster[0])
        attributes[config.numAttrs++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                .value.clusterDim = {launch->cluster[0], launch->cluster[1], launch->cluster[2]}};
    if (launch->shared_bytes)
        driver->cuFuncSetAttribute(self.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)launch->shared_bytes);
    if (launch->cluster[0])
        driver->cuFuncSetAttribute(self.function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    CUresult result = driver->cuLaunchKernelEx(&config, self.function, NULL, bytes ? extra : NULL);
    if (result != CUDA_SUCCESS)
        return driver_check(result, "cuLaunchKernelEx");
    return driver_check(driver->cuCtxSynchronize(), "cuCtxSynchronize");
}

static void tell_launch(size_t number, int has_patterns, uint64_t blocks)
{
    struct rerun_message message = {
        .type = MESSAGE_LAUNCHES, .number = (uint32_t)number, .address = (uint64_t)has_patterns, .bytes = blocks};
    rerun_send(self.socket, &message, -1);
}

static int set_variable(const struct rerun_variable *variable)
{
    CUdeviceptr address = 0;
    size_t bytes = 0;
    return driver->cuModuleGetGlobal(&address, &bytes, self.module, variable->name) == CUDA_SUCCESS &&
           bytes >= variable->bytes && driver->cuMemcpyHtoD(address, variable->value, variable->bytes) == CUDA_SUCCESS;
}

/* Gives the module's variables the values that they had when the kernel faulted. is_first: tells which cannot be set. */
static void set_variables(int is_first)
{
    for (size_t i = 0; i < self.input.bundle.variable_count; i++) {
        struct rerun_message message = {.type = MESSAGE_UNSET};
        if (set_variable(&self.input.bundle.variables[i]) || !is_first)
            continue;
        snprintf(message.text, sizeof message.text, "%s", self.input.bundle.variables[i].name);
        rerun_send(self.socket, &message, -1);
    }
}

/* Gives all memory the bytes that it had when the kernel faulted. */
static cufence_status refresh(void)
{
    set_variables(0);
    host_refresh();
    return memory_refresh();
}

/* Launches with patterns in the guards, until a launch writes there. Returns its number in *wrote, the number of launches if
 * none has. */
static cufence_status look_for_writes(size_t *wrote)
{
    cufence_status status = CUFENCE_OK;
    for (*wrote = 0; *wrote < self.input.bundle.launch_count; ++*wrote) {
        if (*wrote)
            status = refresh();
        status = status ?: memory_put_patterns();
        tell_launch(*wrote, 1, 0);
        status = status ?: launch_and_wait(&self.input.bundle.launches[*wrote]);
        if (status != CUFENCE_OK || memory_tell_writes(self.input.bundle.launch_count == 1))
            break;
    }
    cufence_status removed = memory_remove_patterns();
    return status == CUFENCE_OK ? removed : status;
}

/* Cuts the grid to its first blocks: as few as there can be of at least that many. Returns their number. */
static uint64_t cut(struct rerun_launch *launch, uint64_t wanted)
{
    uint64_t blocks = 1;
    for (unsigned axis = 0; axis < 3; axis++) {
        uint64_t most = blocks && blocks < wanted ? (wanted + blocks - 1) / blocks : 1;
        launch->grid[axis] = launch->grid[axis] < most ? launch->grid[axis] : (uint32_t)most;
        blocks *= launch->grid[axis];
    }
    return blocks;
}

/* Most often each block does what faults, and the driver's dump of a few takes no seconds. */
static cufence_status look_at_first(size_t number)
{
    struct rerun_launch launch = self.input.bundle.launches[number];
    tell_launch(number, 0, cut(&launch, self.input.first_blocks));
    return launch_and_wait(&launch) ?: refresh();
}

/* Launches with the guards unmapped: the one that wrote out of bounds, or all. Returns OK if none has faulted. */
static cufence_status look_for_fault(size_t wrote)
{
    int has_one = wrote < self.input.bundle.launch_count;
    size_t end = has_one ? wrote + 1 : self.input.bundle.launch_count;
    cufence_status status = CUFENCE_OK;
    for (size_t i = has_one ? wrote : 0; i < end && status == CUFENCE_OK; i++) {
        if (i && !has_one && memory_is_full()) /* the host's memory is no place for what many launches reach */
            return error_set(
                CUFENCE_ERROR_OUT_OF_MEMORY,
                "of launches that it may have been %zu did not fault, and the GPU has no room for what the others reach", i);
        status =
            memory_reach(self.input.bundle.launches[i].arguments, self.input.bundle.launches[i].argument_bytes) ?: refresh();
        if (status == CUFENCE_OK && self.input.first_blocks)
            status = look_at_first(i);
        tell_launch(i, 0, 0);
        status = status ?: launch_and_wait(&self.input.bundle.launches[i]);
    }
    return status;
}

/* Everything up to the context: addresses are reserved before a library or the driver may take them. */
static cufence_status set_up(void)
{
    const struct rerun_input *input = &self.input;
    cufence_status status = receive_input() ?: host_reserve(input) ?: watch_socket() ?: driver_load() ?: find_device();
    if (status == CUFENCE_OK &&
        *input->dump) /* without SKIP_ABORT: the first fault ends the process, there is no more to learn */
        status = dump_arm(input->dump, CU_COREDUMP_LIGHTWEIGHT_FLAGS);
    return status ?: memory_open(self.socket, self.device, input) ?: open_context();
}

/* Maps what the launches reach. Without pages in the guards, where later mappings may lie, the first launch's will do. */
static cufence_status fill(void)
{
    const struct rerun_input *input = &self.input;
    size_t count = input->mode == RERUN_BARE ? 1 : input->bundle.launch_count;
    cufence_status status = host_open(self.socket, input);
    for (size_t i = 0; status == CUFENCE_OK && i < input->bundle.variable_count; i++)
        status = memory_reach(input->bundle.variables[i].value, input->bundle.variables[i].bytes);
    status = status ?: memory_move(input);
    for (size_t i = 0; status == CUFENCE_OK && i < count; i++)
        status = memory_reach(input->bundle.launches[i].arguments, input->bundle.launches[i].argument_bytes);
    return status;
}

static cufence_status play(void)
{
    const struct rerun_input *input = &self.input;
    size_t wrote = input->bundle.launch_count;
    cufence_status status = load_kernel() ?: fill();
    if (status != CUFENCE_OK)
        return status;
    set_variables(1);
    figures_tell(self.socket, input);
    if (input->mode != RERUN_BARE)
        status = look_for_writes(&wrote);
    status = status ?: look_for_fault(wrote);
    return status || !input->bundle.has_outputs ? status : memory_tell_results() ?: host_tell_results(self.socket);
}

int rerun_play(void)
{
    struct sigaction action = {.sa_handler = leave_after_dump};
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL); /* it was started by a thread that blocks all signals */
    self.socket = STDIN_FILENO;
    sigaction(SIGABRT, &action, NULL);
    cufence_status status = set_up() ?: (self.input.mode == RERUN_TRACED ? trace_thread(self.socket, &self.input) : play());
    struct rerun_message message = {.type = status == CUFENCE_OK ? MESSAGE_DONE : MESSAGE_FAILED,
                                    .number = (uint32_t)self.is_refused};
    snprintf(message.text, sizeof message.text, "%s", status == CUFENCE_OK ? "" : error_detail());
    rerun_send(self.socket, &message, -1);
    _exit(status == CUFENCE_OK ? STATUS_DONE : STATUS_FAILED); /* without the driver's exit handlers: nothing is left to save */
}
