#include "kernel.h"
#include "trap.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READER_SECONDS 10 /* a FIFO without a reader does not stop the device for longer than this */

static pthread_mutex_t settings_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static struct dump_settings global;                               /* under settings_lock */
/* Attributes set by the environment can't be changed. Written by cuInit() only. */
static int is_fixed[CU_COREDUMP_MAX];

void coredump_snapshot(struct dump_settings *settings)
{
    HOLD(&settings_lock);
    *settings = global;
}

static const char *fixed_by(const char *variable, CUcoredumpSettings attribute)
{
    const char *value = secure_getenv(variable);
    if (value != NULL)
        is_fixed[attribute] = 1;
    return value;
}

void coredump_load_environment(void)
{
    HOLD(&settings_lock);
    const char *enable = fixed_by("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", CU_COREDUMP_ENABLE_ON_EXCEPTION);
    const char *file = fixed_by("CUDA_COREDUMP_FILE", CU_COREDUMP_FILE);
    const char *trigger = fixed_by("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", CU_COREDUMP_ENABLE_USER_TRIGGER);
    const char *lightweight = fixed_by("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", CU_COREDUMP_LIGHTWEIGHT);
    const char *host = fixed_by("CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", CU_COREDUMP_TRIGGER_HOST);
    const char *flags = fixed_by("CUDA_COREDUMP_GENERATION_FLAGS", CU_COREDUMP_GENERATION_FLAGS);
    global.is_enabled = enable != NULL && atoi(enable) != 0;
    global.is_user_trigger_enabled = trigger != NULL && atoi(trigger) != 0;
    if (file != NULL)
        snprintf(global.file, sizeof global.file, "%s", file);
    if (lightweight != NULL && atoi(lightweight) != 0)
        global.flags |= CU_COREDUMP_LIGHTWEIGHT_FLAGS;
    if (host != NULL && atoi(host) == 0)
        global.flags |= CU_COREDUMP_SKIP_ABORT;
    if (flags != NULL) {
        global.flags |= strstr(flags, "skip_abort") != NULL ? CU_COREDUMP_SKIP_ABORT : 0; /* the others change no dump here */
        is_fixed[CU_COREDUMP_LIGHTWEIGHT] = is_fixed[CU_COREDUMP_TRIGGER_HOST] = 1;
    }
}

enum form { NONE, TRUTH, WITH_FLAGS, WITHOUT_FLAGS, NUMBER, TEXT };
static const size_t form_bytes[] = {0, 1, 1, 1, sizeof global.flags, sizeof global.file}; /* a truth is a C++ bool */

static const struct attribute {
    enum form form;
    size_t offset; /* in the settings */
    unsigned flags;
} attributes[CU_COREDUMP_MAX] = {
    [CU_COREDUMP_ENABLE_ON_EXCEPTION] = {TRUTH, offsetof(struct dump_settings, is_enabled), 0},
    [CU_COREDUMP_TRIGGER_HOST] = {WITHOUT_FLAGS, 0, CU_COREDUMP_SKIP_ABORT},
    [CU_COREDUMP_LIGHTWEIGHT] = {WITH_FLAGS, 0, CU_COREDUMP_LIGHTWEIGHT_FLAGS},
    [CU_COREDUMP_ENABLE_USER_TRIGGER] = {TRUTH, offsetof(struct dump_settings, is_user_trigger_enabled), 0},
    [CU_COREDUMP_FILE] = {TEXT, offsetof(struct dump_settings, file), 0},
    [CU_COREDUMP_PIPE] = {TEXT, offsetof(struct dump_settings, pipe), 0},
    [CU_COREDUMP_GENERATION_FLAGS] = {NUMBER, offsetof(struct dump_settings, flags), 0},
};

/* Checks the arguments of both. Without a value, tells the size that it takes. */
static CUresult find_attribute(const struct attribute **out, CUcoredumpSettings attribute, const void *value, size_t *size)
{
    CALL_REFUSE(size == NULL || (unsigned)attribute >= CU_COREDUMP_MAX || attributes[attribute].form == NONE, INVALID_VALUE);
    *out = &attributes[attribute];
    if (value == NULL)
        *size = form_bytes[(*out)->form];
    return CUDA_SUCCESS;
}

static CUresult get(const struct dump_settings *settings, CUcoredumpSettings number, void *value, size_t *size)
{
    const struct attribute *attribute;
    HOLD(&settings_lock);
    CALL_TRY(find_attribute(&attribute, number, value, size));
    if (value == NULL)
        return CUDA_SUCCESS;
    const char *source = (const char *)settings + attribute->offset;
    size_t used = attribute->form == TEXT ? strlen(source) + 1 : form_bytes[attribute->form];
    unsigned char truth = (settings->flags & attribute->flags) == attribute->flags;
    CALL_REFUSE(*size < used, INVALID_VALUE);
    if (attribute->form == WITHOUT_FLAGS)
        truth = !truth;
    memcpy(value, attribute->form == WITH_FLAGS || attribute->form == WITHOUT_FLAGS ? (const void *)&truth : source, used);
    *size = used;
    return CUDA_SUCCESS;
}

static void *listen_to_pipe(void *settings);

static CUresult set(struct dump_settings *to, CUcoredumpSettings number, const void *value, size_t *size)
{
    const struct attribute *attribute;
    HOLD(&settings_lock);
    CALL_TRY(find_attribute(&attribute, number, value, size));
    if (value == NULL)
        return CUDA_SUCCESS;
    CALL_REFUSE(is_fixed[number], NOT_PERMITTED);
    char *out = (char *)to + attribute->offset;
    size_t length = attribute->form == TEXT ? strnlen(value, *size) : form_bytes[attribute->form];
    if (attribute->form == TEXT ? length >= form_bytes[TEXT] : *size < length)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_REFUSE(attribute->form == WITH_FLAGS || attribute->form == WITHOUT_FLAGS, NOT_SUPPORTED);
    memcpy(out, value, length);
    if (attribute->form == TEXT)
        out[length] = '\0';
    /* Measured: the driver makes the pipe, also where contexts exist already. */
    if (number == CU_COREDUMP_ENABLE_USER_TRIGGER && to->is_user_trigger_enabled && mkfifo(to->pipe, 0600) == 0)
        worker_start("cusim-dump", listen_to_pipe, memory_copy(to, sizeof *to));
    return CUDA_SUCCESS;
}

#define COREDUMP_DRIVER(name, act)                                                                                             \
    DRIVER_IS(name##Global, 12010, (CUcoredumpSettings, attrib, void *, value, size_t *, size),                                \
              act(&global, attrib, value, size))                                                                               \
    DRIVER(name, 12010, (CUcoredumpSettings, attrib, void *, value, size_t *, size))                                           \
    {                                                                                                                          \
        CONTEXT_CURRENT(context);                                                                                              \
        return act(&context->home->dump, attrib, value, size);                                                                 \
    }
COREDUMP_DRIVER(cuCoredumpGetAttribute, get)
/* Measured (580.159): a context for which dumps were not on when it was created writes none. */
COREDUMP_DRIVER(cuCoredumpSetAttribute, set)

/* ---- the dump ---- */

/* Section types and table rows of a GPU core dump as driver 580 writes them. The names are the format's own. */
enum {
    CUDBG_SHT_REGS = 0x80000005,
    CUDBG_SHT_RELFIMG = 0x80000007,
    CUDBG_SHT_DEVTBL = 0x80000009,
    CUDBG_SHT_CTXTBL = 0x8000000a,
    CUDBG_SHT_SMTBL = 0x8000000b,
    CUDBG_SHT_GRIDTBL = 0x8000000c,
    CUDBG_SHT_CTATBL = 0x8000000d,
    CUDBG_SHT_WPTBL = 0x8000000e,
    CUDBG_SHT_LNTBL = 0x8000000f,
    CUDBG_SHT_MODTBL = 0x80000010,
    CUDBG_SHT_PRED = 0x80000011,
    CUDBG_SHT_PARAM = 0x80000012,
    CUDBG_SHT_UREGS = 0x80000013,
    CUDBG_SHT_META = 0x80000016
};

/* Rows are words, in the order that a comment names; a LONG has two. */
#define LONG(value) (uint32_t)(value), (uint32_t)((uint64_t)(value) >> 32)

#define OS_ABI_CUDA 0x33
#define UNIFORM_REGISTERS 63
#define PREDICATES 7
#define DESCRIPTOR_REGISTER 4 /* UR4:UR5, the cache policy used by the access */
#define PARAMETER_BASE 0x210  /* offset of the parameters in constant bank 0 on sm_90 */

/* A dump under construction. The indices are those of sections that are parents of others. */
struct dump {
    struct elf_writer elf;
    const struct fault_site *site;
    const struct CUfunc_st *function;
    struct code code;
    uint64_t error_pc;
    uint32_t sm;
    uint32_t first_faulted; /* lane */
    unsigned devices, contexts, modules, sms, warps;
};

/* Adds a table of `count` rows of so many words. */
static unsigned add_table(struct dump *dump, uint32_t type, unsigned parent, uint32_t row, const void *rows, size_t words,
                          size_t count)
{
    const size_t bytes = words * sizeof(uint32_t);
    const Elf64_Shdr header = {.sh_type = type, .sh_link = parent, .sh_info = row, .sh_entsize = bytes};
    return elf_add(&dump->elf, ".cudbg", header, rows, bytes * count);
}
#define WORDS(words) words, sizeof(words) / sizeof *(words)

static void add_device(struct dump *dump)
{
    const uint32_t device = (uint32_t)dump->site->context->device;
    /* devName, devType, smType; devId, pciBusId, pciDevId, numSMs, numWarpsPerSM, numLanesPerWarp, numRegsPerLane,
     * numPredicates; smMajor, smMinor, instructionSize, status, numUniformRegs, numUniformPreds, numConvBarriers, pad */
    const uint32_t row[22] =
        LIST(elf_string(&dump->elf, SIM_DEVICE_NAME), 0, elf_string(&dump->elf, "GH100"), 0, elf_string(&dump->elf, "sm_90"), 0,
             device, config_get()->pci[device].bus, config_get()->pci[device].device, SIM_MULTIPROCESSORS, 64, WARP_LANES, 256,
             PREDICATES, 9, 0, 16, 0, UNIFORM_REGISTERS, PREDICATES, 16);
    dump->devices = add_table(dump, CUDBG_SHT_DEVTBL, 0, 0, WORDS(row), 1);
}

static void add_context(struct dump *dump)
{
    /* contextId, sharedWindowBase, localWindowBase, globalWindowBase; deviceIdx, tid */
    const uint32_t row[10] = LIST(LONG(dump->site->context->id), LONG(UINT64_C(0x7e0000000000)), LONG(UINT64_C(0x7e1000000000)),
                                  LONG(0), 0, (uint32_t)getpid());
    dump->contexts = add_table(dump, CUDBG_SHT_CTXTBL, dump->devices, 0, WORDS(row), 1);
}

/* A module has one function, whose address is its handle. */
static void add_module(struct dump *dump)
{
    const uint32_t row[2] = LIST(LONG((uintptr_t)dump->function)); /* moduleHandle */
    dump->modules = add_table(dump, CUDBG_SHT_MODTBL, dump->contexts, 0, WORDS(row), 1);
    size_t size = 0;
    unsigned char *cubin = cubin_create(dump->function, dump->site->faults[dump->first_faulted].is_write, &size);
    elf_add(&dump->elf, ".cudbg", (Elf64_Shdr){.sh_type = CUDBG_SHT_RELFIMG, .sh_link = dump->modules}, cubin, size);
    free(cubin);
}

static void add_multiprocessors(struct dump *dump)
{
    /* smId, pad, exception, errorPCValid; errorPC; clusterTargetValid, clusterTarget[3]; exceptionString */
    uint32_t rows[SIM_MULTIPROCESSORS][12] = {{0}};
    for (uint32_t i = 0; i < SIM_MULTIPROCESSORS; i++)
        rows[i][0] = i;
    const uint32_t fault[] = {dump->site->exception, 1, LONG(dump->error_pc)};
    memcpy(&rows[dump->sm][2], fault, sizeof fault);
    dump->sms = add_table(dump, CUDBG_SHT_SMTBL, dump->devices, 0, WORDS(rows[0]), SIM_MULTIPROCESSORS);
}

static void add_grid(struct dump *dump)
{
    const struct launch *launch = dump->site->launch;
    const uint32_t *grid = launch->grid, *block = launch->block;
    /* gridId64, contextId, function, functionEntry, moduleHandle, parentGridId64, paramsOffset; kernelType, origin, gridStatus,
     * numRegs, gridDim[3], blockDim[3], launchBlocking, hostTid, clusterDim[3], pad, preferredClusterDim[3], pad */
    const uint32_t row[34] = LIST(LONG(dump->site->grid_id), LONG(dump->site->context->id), LONG((uintptr_t)dump->function),
                                  LONG(dump->function->entry), LONG((uintptr_t)dump->function), LONG(0), LONG(PARAMETER_BASE),
                                  0, 0, 0, CUBIN_REGISTERS, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0,
                                  launch->host_tid, 1, 1, 1, 0, 1, 1, 1);
    unsigned grids = add_table(dump, CUDBG_SHT_GRIDTBL, dump->devices, 0, WORDS(row), 1);
    const Elf64_Shdr header = {.sh_type = CUDBG_SHT_PARAM, .sh_link = grids, .sh_entsize = 1};
    if (launch->parameter_bytes != 0)
        elf_add(&dump->elf, ".cudbg", header, launch->parameters, launch->parameter_bytes);
}

static void add_cta_and_warp(struct dump *dump)
{
    const struct fault_site *site = dump->site;
    /* gridId64; blockIdx[3], pad, clusterIdx[3], pad, clusterDim[3], pad */
    const uint32_t cta[14] = LIST(LONG(site->grid_id), site->block[0], site->block[1], site->block[2], 0, 0, 0, 0, 0, 1, 1, 1);
    unsigned ctas = add_table(dump, CUDBG_SHT_CTATBL, dump->sms, dump->sm, WORDS(cta), 1);
    /* errorPC; warpId, validLanes, activeLanes, isBroken, errorPCValid, pad, numRegs, pad, sharedMemSize, pad; inSyscall,
     * cbuActive, cbuExited, cbuCollective */
    const uint32_t warp[16] =
        LIST(LONG(dump->error_pc), site->warp, site->valid, site->valid, 1, 1, 0, CUBIN_REGISTERS, 0, 0, 0, 0, site->valid);
    dump->warps = add_table(dump, CUDBG_SHT_WPTBL, ctas, 0, WORDS(warp), 1);
    const uint32_t uniform[UNIFORM_REGISTERS] = {[DESCRIPTOR_REGISTER + 1] = 0x10000000};
    add_table(dump, CUDBG_SHT_UREGS, dump->warps, 0, uniform, 1, UNIFORM_REGISTERS);
}

static void add_lanes(struct dump *dump)
{
    const struct fault_site *site = dump->site;
    uint32_t rows[WARP_LANES][14], count = 0;
    for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
        if ((site->valid & 1u << lane) == 0)
            continue;
        const uint64_t pc = dump->function->entry + dump->code.resume;
        const uint32_t *thread = site->threads[lane], exception = (site->faulted & 1u << lane) != 0 ? site->exception : 0;
        /* virtualPC, physPC; ln, threadIdx[3], exception, callDepth, syscallDepth, cc, cbuState, pad */
        const uint32_t row[14] = LIST(LONG(pc), LONG(pc), lane, thread[0], thread[1], thread[2], exception);
        memcpy(rows[count++], row, sizeof row);
    }
    unsigned lanes = add_table(dump, CUDBG_SHT_LNTBL, dump->warps, 0, WORDS(rows[0]), count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t lane = rows[i][4], predicates[PREDICATES] = {0};
        /* The host faults at the first inaccessible byte. The device requires accesses to be aligned to their width, so the
         * register held the next lower multiple of the width. */
        const uint64_t address = site->faults[lane].address & ~(uint64_t)(cubin_access_bytes(dump->function) - 1);
        uint32_t registers[CUBIN_REGISTERS] = {[CUBIN_ADDRESS_REGISTER] = LONG(address)};
        if ((site->faulted & 1u << lane) == 0)
            memset(registers, 0, sizeof registers);
        add_table(dump, CUDBG_SHT_REGS, lanes, i, registers, 1, CUBIN_REGISTERS);
        add_table(dump, CUDBG_SHT_PRED, lanes, i, predicates, 1, PREDICATES);
    }
}

static void add_meta(struct dump *dump)
{
    /* generatorName; driverMajor, driverMinor, cudaMajor, cudaMinor, flags, timestamp */
    const uint32_t row[8] = {elf_string(&dump->elf, "cufence simulated driver"), 0, 580, 159, 13, 0, 0, (uint32_t)time(NULL)};
    add_table(dump, CUDBG_SHT_META, 0, 0, WORDS(row), 1);
}

static unsigned char *dump_create(const struct fault_site *site, size_t *size)
{
    struct dump *dump = memory_new(sizeof *dump);
    const uint32_t *grid = site->launch->grid;
    uint64_t block = site->block[0] + (uint64_t)grid[0] * (site->block[1] + (uint64_t)grid[1] * site->block[2]);
    elf_begin(&dump->elf);
    dump->site = site;
    dump->function = site->launch->function;
    dump->code = cubin_code(dump->function);
    dump->error_pc = dump->function->entry + dump->code.fault;
    dump->sm = (uint32_t)(block % SIM_MULTIPROCESSORS);
    dump->first_faulted = (uint32_t)__builtin_ctz(site->faulted);
    add_device(dump);
    add_context(dump);
    add_module(dump);
    add_multiprocessors(dump);
    if (!dump->function->kernel.exits_at_fault || dump->code.is_fenced) {
        add_grid(dump);
        add_cta_and_warp(dump);
        add_lanes(dump);
    }
    add_meta(dump);
    unsigned char *file = elf_finish(&dump->elf, ET_CORE, OS_ABI_CUDA, 0, size);
    free(dump);
    return file;
}

/* Expands %p and %t. Without a name: core_TIME_PID.nvcudmp in the working folder. */
static void expand_name(const char *name, char *out, size_t capacity)
{
    size_t used = 0;
    for (name = name[0] == '\0' ? "core_%t_%p.nvcudmp" : name; *name != '\0' && used + 24 < capacity; name++) {
        if (name[0] != '%' || (name[1] != 'p' && name[1] != 't'))
            out[used++] = *name;
        else
            used += (size_t)snprintf(out + used, 24, "%lld", *++name == 'p' ? (long long)getpid() : (long long)time(NULL));
    }
    out[used] = '\0';
}

/* For a FIFO, waits until it has a reader. A reader that stops reading holds the thread until it ends. */
static FILE *open_file(const char *name)
{
    struct stat status;
    int is_fifo = stat(name, &status) == 0 && S_ISFIFO(status.st_mode), waited = 0, file;
    do
        file = open(name, is_fifo ? O_WRONLY | O_NONBLOCK | O_CLOEXEC : O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    while (is_fifo && file < 0 && errno == ENXIO && waited++ < READER_SECONDS * 1000 && usleep(1000) == 0);
    if (file >= 0)
        fcntl(file, F_SETFL, 0);
    return file < 0 ? NULL : fdopen(file, "wb");
}

void coredump_write(const struct fault_site *site, const struct dump_settings *settings)
{
    char name[2048];
    size_t size;
    unsigned char *bytes = dump_create(site, &size);
    expand_name(settings->file, name, sizeof name);
    FILE *file = open_file(name);
    if (file == NULL || fwrite(bytes, size, 1, file) != 1 || fflush(file) != 0)
        fprintf(stderr, "cufence_sim: the core dump could not be written to '%s': %s\n", name, strerror(errno));
    if (file != NULL)
        fclose(file);
    free(bytes);
}

/* ---- a dump that is asked for ---- */

/* The simulated device runs no code of a GPU: it tells what was recorded on one, in the file CUSIM_RUNNING. Measured (580.159):
 * the driver ends the contexts after that; here they go on. */
static void *listen_to_pipe(void *settings)
{
    struct dump_settings *own = settings;
    const char *recorded = secure_getenv("CUSIM_RUNNING");
    char name[2048], request;
    expand_name(own->file, name, sizeof name);
    int pipe = open(own->pipe, O_RDWR | O_CLOEXEC), from = open(recorded != NULL ? recorded : "", O_RDONLY | O_CLOEXEC);
    FILE *to = from >= 0 && read(pipe, &request, 1) == 1 ? open_file(name) : NULL;
    while (to != NULL && sendfile(fileno(to), from, NULL, 1 << 20) > 0)
        ;
    if (to != NULL)
        fclose(to);
    close(from);
    free(own);
    return NULL;
}
