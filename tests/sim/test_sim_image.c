/*
 * The simulated device's modules: a cubin out of a core dump, changed or not, is loaded by a process that knows nothing of its
 * kernels, and faults there as its code says. Also the attributes of functions.
 * Every launch is a process of its own: this program, started anew, armed by the environment.
 */
#define TEST_OWN_MAIN
#include "device_memory.h"
#include "sim_dump.h"
#include <sim/sim.h>

#define EXIT_AT 0x60 /* of the code that the simulated device makes up */
#define PADDING_AT 0x80

static char dump_name[64], image_name[64]; /* in the process of a story */

struct instruction {
    uint64_t low, high;
};

/* Measured: what keeps a warp at the input, over NOPs behind the kernel's last branch. */
static const struct instruction fence[] = {{0x7992, 0x000fec0000003000},
                                           {0x79ab, 0x000fc00000000000},
                                           {0x75ab, 0x000fec0000000000},
                                           {0x00000000ff00798f, 0x000fe20002000000},
                                           {0x794d, 0x000fea0003800000}};
static const struct instruction exit_instruction = {0x794d, 0x000fea0003800000};
static const struct instruction nop = {0x7918, 0x000fc00000000000};
static const struct instruction branch_by_one = {0x0000000000047947, 0x000fea0003800000}; /* over one instruction */
static const struct instruction branch_to_itself = {0xfffffffc00fc7947, 0x000fc0000383ffff};

/* ---- the process that launches ---- */

static void check_environment(void)
{
    unsigned flags = 0;
    unsigned char truth = 0;
    size_t size = sizeof flags, one = 1;
    OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
    CHECK(flags == (CU_COREDUMP_LIGHTWEIGHT_FLAGS | CU_COREDUMP_SKIP_ABORT));
    OK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_LIGHTWEIGHT, &truth, &one));
    CHECK(truth == 1);
    CHECK(cuCoredumpSetAttributeGlobal(CU_COREDUMP_LIGHTWEIGHT, &truth, &one) == CUDA_ERROR_NOT_PERMITTED);
}

/* Thread 36 of block 1 stores to the end of the memory. `how`: the image is loaded as a "module" or a "library", or then as one
 * whose kernel is "unused", and the kernel of another module launched. */
static void run_launch(const char *how, const char *image)
{
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function, other;
    OK(cuInit(0));
    use_device(0);
    check_environment();
    CUdeviceptr end = map_granule(16) + GRANULE;
    CHECK(end != GRANULE);
    struct dump file = {0};
    if (image[0] != '\0')
        file = read_all(open(image, O_RDONLY));
    const void *bytes = image[0] == '\0' ? "any image" : (const void *)file.bytes;
    if (strcmp(how, "library") == 0) {
        OK(cuLibraryLoadData(&library, bytes, NULL, NULL, 0, NULL, NULL, 0));
        OK(cuLibraryGetKernel(&kernel, library, "store_last"));
        OK(cuKernelGetFunction(&function, kernel));
        OK(cuLibraryUnload(library));
    } else {
        OK(cuModuleLoadData(&module, bytes));
        OK(cuModuleGetFunction(&function, module, "store_last"));
        OK(cuModuleGetFunction(&other, module, "store_last"));
        CHECK(function == other);
        CHECK(cuModuleGetFunction(&other, module, "none") == CUDA_ERROR_NOT_FOUND);
        /* A cubin has the kernels of its symbol table; other images have every kernel. */
        CHECK(cuModuleGetFunction(&other, module, "cufence_poison") ==
              (image[0] == '\0' ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND));
    }
    if (strcmp(how, "unused") == 0) {
        OK(cuModuleLoadData(&module, "any image"));
        OK(cuModuleGetFunction(&function, module, "store_last"));
    }
    if (file.size)
        memset(file.bytes, 0, file.size); /* the driver has its own copy */
    uint32_t index = 100;
    CUdeviceptr out = end - 4 * index;
    OK(cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, NULL, (void *[]){&out, &index}, NULL));
    OK(cuCtxSynchronize());
}

/* Returns the dump of a launch of that image, or of no cubin if its name is empty. */
static struct dump launch(const char *image, const char *how)
{
    unlink(dump_name);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        setenv("CUSIM_KERNELS", CUFENCE_SIM_KERNELS, 1);
        setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
        setenv("CUDA_COREDUMP_FILE", dump_name, 1);
        setenv("CUDA_COREDUMP_GENERATION_FLAGS", "skip_abort", 1);
        setenv("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "1", 1);
        execl("/proc/self/exe", "sim_image", how, image, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct dump dump = read_all(open(dump_name, O_RDONLY));
    unlink(dump_name);
    return dump;
}

/* ---- images ---- */

/* Returns the cubin of a dump of the kernel as it is. */
static struct dump original(void)
{
    snprintf(dump_name, sizeof dump_name, "/tmp/cufence-sim-image-%d.dump", (int)getpid());
    snprintf(image_name, sizeof image_name, "/tmp/cufence-sim-image-%d.cubin", (int)getpid());
    struct dump dump = launch("", "module"), cubin;
    uint64_t instruction[2];
    faulting_instruction(dump, &cubin, instruction);
    CHECK((instruction[0] & 0xfff) == 0x986);
    struct dump copy = {keep(2 * cubin.size + 256), cubin.size}; /* with room for move_code() */
    memcpy(copy.bytes, cubin.bytes, cubin.size);
    return copy;
}

static Elf64_Shdr *text_of(struct dump cubin)
{
    Elf64_Ehdr header;
    memcpy(&header, cubin.bytes, sizeof header);
    Elf64_Shdr *sections = (Elf64_Shdr *)(void *)(cubin.bytes + header.e_shoff);
    for (unsigned i = 1; i < header.e_shnum; i++) {
        if ((sections[i].sh_flags & SHF_EXECINSTR) != 0)
            return &sections[i];
    }
    CHECK(0 && "a cubin has code");
    return NULL;
}

static struct instruction *code_of(struct dump cubin)
{
    return (struct instruction *)(void *)(cubin.bytes + text_of(cubin)->sh_offset);
}

/* What a cubin has that has not been loaded. */
static void clear_addresses(struct dump cubin)
{
    text_of(cubin)->sh_addr = 0;
    Elf64_Shdr symbols = find(cubin, SHT_SYMTAB, 0, NULL);
    for (uint64_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym))
        ((Elf64_Sym *)(void *)(cubin.bytes + symbols.sh_offset + at))->st_value = 0;
}

/* EXIT becomes a branch to the padding, where the barrier is. */
static void put_fence(struct dump cubin)
{
    struct instruction *code = code_of(cubin);
    code[EXIT_AT / 16] = branch_by_one;
    memcpy(&code[PADDING_AT / 16], fence, sizeof fence);
}

/* Moves the code behind the file's end, with two instructions in front of it. */
static void move_code(struct dump *cubin)
{
    Elf64_Shdr *text = text_of(*cubin);
    uint64_t from = text->sh_offset, to = (cubin->size + 127) / 128 * 128, size = text->sh_size;
    text->sh_offset = to;
    text->sh_size = size + 32;
    cubin->size = to + size + 32;
    memcpy(cubin->bytes + to, &nop, 16);
    memcpy(cubin->bytes + to + 16, &nop, 16);
    memcpy(cubin->bytes + to + 32, cubin->bytes + from, size);
    memset(cubin->bytes + from, 0, size);
}

static struct dump launch_image(struct dump cubin, const char *how)
{
    int file = open(image_name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, cubin.bytes, cubin.size) == (ssize_t)cubin.size && close(file) == 0);
    struct dump dump = launch(image_name, how);
    unlink(image_name);
    return dump;
}

/* Checks a dump of a warp that has ended: an error PC, at the store, and nothing else. */
static void check_gone(struct dump dump, uint64_t offset)
{
    struct dump cubin;
    uint64_t instruction[2];
    faulting_instruction(dump, &cubin, instruction);
    CHECK((instruction[0] & 0xfff) == 0x986);
    CHECK(u64(dump, find(dump, TYPE(11), 0, NULL), sm_of_fault(dump) * 48 + 16) == text_of(cubin)->sh_addr + offset);
    for (unsigned n = 12; n <= 15; n++)
        CHECK(find(dump, TYPE(n), 0, NULL).sh_type == 0);
}

/* Checks a dump of a warp that waits behind its barrier. */
static void check_alive(struct dump dump, uint64_t offset, uint64_t resume)
{
    struct dump cubin;
    uint64_t instruction[2];
    faulting_instruction(dump, &cubin, instruction);
    CHECK((instruction[0] & 0xfff) == 0x986);
    uint64_t entry = text_of(cubin)->sh_addr;
    CHECK(u64(dump, find(dump, TYPE(11), 0, NULL), sm_of_fault(dump) * 48 + 16) == entry + offset);
    Elf64_Shdr ctas = find(dump, TYPE(13), 0, NULL), warps = find(dump, TYPE(14), 0, NULL);
    Elf64_Shdr lanes = find(dump, TYPE(15), 0, NULL), registers = find(dump, TYPE(5), 4, NULL);
    CHECK(ctas.sh_entsize == 56 && u32(dump, ctas, 8) == 1);
    CHECK(warps.sh_entsize == 64 && u64(dump, warps, 0) == entry + offset && u32(dump, warps, 8) == 1);
    CHECK(lanes.sh_size == 32 * 56 && u32(dump, lanes, 4 * 56 + 20) == 36 && u32(dump, lanes, 4 * 56 + 32) == 14);
    CHECK(u64(dump, lanes, 4 * 56) == entry + resume);
    CHECK(u64(dump, find(dump, TYPE(18), 0, NULL), 0) + 400 == u64(dump, registers, 2 * 4));
}

/* ---- stories ---- */

STORY(code_ends_as_compiled_code_does)
{
    struct dump cubin = original();
    const struct instruction *code = code_of(cubin);
    CHECK(memcmp(&code[EXIT_AT / 16], &exit_instruction, 16) == 0);
    CHECK(memcmp(&code[EXIT_AT / 16 + 1], &branch_to_itself, 16) == 0);
    CHECK(text_of(cubin)->sh_size % 128 == 0 && text_of(cubin)->sh_size - PADDING_AT >= 8 * 16);
    for (uint64_t at = PADDING_AT; at < text_of(cubin)->sh_size; at += 16)
        CHECK(memcmp(&code[at / 16], &nop, 16) == 0);
}

STORY(a_cubin_faults_where_it_did)
{
    struct dump cubin = original();
    check_gone(launch_image(cubin, "module"), 0x40);
    clear_addresses(cubin);
    check_gone(launch_image(cubin, "module"), 0x40);
    move_code(&cubin);
    check_gone(launch_image(cubin, "module"), 0x60);
    check_gone(launch_image(cubin, "library"), 0x60);
}

STORY(a_fence_keeps_the_warp)
{
    struct dump cubin = original();
    put_fence(cubin);
    check_alive(launch_image(cubin, "module"), 0x40, PADDING_AT + 16);
    check_gone(launch_image(cubin, "unused"), 0x40);
    clear_addresses(cubin);
    move_code(&cubin);
    check_alive(launch_image(cubin, "module"), 0x60, PADDING_AT + 48);
    check_alive(launch_image(cubin, "library"), 0x60, PADDING_AT + 48);
}

STORY(a_way_past_the_fence_is_open)
{
    struct dump cubin = original();
    put_fence(cubin);
    code_of(cubin)[EXIT_AT / 16] = exit_instruction;
    check_gone(launch_image(cubin, "module"), 0x40);
    code_of(cubin)[EXIT_AT / 16] = branch_by_one;
    code_of(cubin)[PADDING_AT / 16] = nop;
    code_of(cubin)[1] = fence[0]; /* a barrier before the store, long before the EXIT */
    check_gone(launch_image(cubin, "module"), 0x40);
}

STORY(bad_images_are_refused)
{
    CUmodule module;
    struct dump cubin = original();
    OK(cuInit(0));
    use_device(0);
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)cubin.bytes;
    const Elf64_Ehdr good = *header;
    OK(cuModuleLoadData(&module, cubin.bytes));
    OK(cuModuleUnload(module));
    header->e_machine = EM_X86_64;
    CHECK(cuModuleLoadData(&module, cubin.bytes) == CUDA_ERROR_INVALID_IMAGE);
    *header = good;
    header->e_shnum = 1;
    CHECK(cuModuleLoadData(&module, cubin.bytes) == CUDA_ERROR_INVALID_IMAGE);
    *header = good;
    text_of(cubin)->sh_size = 0;
    CHECK(cuModuleLoadData(&module, cubin.bytes) == CUDA_ERROR_INVALID_IMAGE);
}

STORY(a_missing_library_of_kernels_is_an_error)
{
    setenv("CUSIM_KERNELS", "/nowhere/kernels.so", 1);
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    CHECK(cuInit(0) == CUDA_ERROR_INVALID_VALUE);
}

STORY(shared_memory_is_asked_for)
{
    setenv("CUSIM_KERNELS", CUFENCE_SIM_KERNELS, 1);
    CUmodule module;
    CUfunction function;
    OK(cuInit(0));
    use_device(0);
    OK(cuModuleLoadData(&module, "any image"));
    OK(cuModuleGetFunction(&function, module, "cufence_fence"));
    const CUfunction_attribute shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    int value = 0, most = 0;
    OK(cuFuncGetAttribute(&value, shared, function));
    OK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    CHECK(value == 49152 && most > value);
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 49153, NULL, NULL, 0};
    CHECK(cuLaunchKernelEx(&config, function, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 49153, NULL, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(function, shared, most));
    OK(cuFuncGetAttribute(&value, shared, function));
    CHECK(value == most);
    OK(cuLaunchKernelEx(&config, function, NULL, NULL));
    config.numAttrs = 1;
    CHECK(cuLaunchKernelEx(&config, function, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuFuncSetAttribute(function, shared, most + 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuFuncSetAttribute(function, shared, -1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuFuncSetAttribute(NULL, shared, 1) == CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxSynchronize());
}

TEST_CONCURRENTLY

int main(int argc, char **argv)
{
    if (argc == 3) {
        run_launch(argv[1], argv[2]);
        return 0;
    }
    return test_run(argc, argv);
}
