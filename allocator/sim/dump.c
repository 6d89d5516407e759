#include "config.h"
#include "cubin.h"
#include "elf_file.h"
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

struct __attribute__((packed)) device_row {
    uint64_t devName, devType, smType; /* string indices */
    uint32_t devId, pciBusId, pciDevId, numSMs, numWarpsPerSM, numLanesPerWarp, numRegsPerLane, numPredicates;
    uint32_t smMajor, smMinor, instructionSize, status, numUniformRegs, numUniformPreds, numConvBarriers, pad;
};
_Static_assert(sizeof(struct device_row) == 88, "as in the format");

struct __attribute__((packed)) context_row {
    uint64_t contextId, sharedWindowBase, localWindowBase, globalWindowBase;
    uint32_t deviceIdx, tid;
};
_Static_assert(sizeof(struct context_row) == 40, "as in the format");

struct __attribute__((packed)) module_row {
    uint64_t moduleHandle;
};
_Static_assert(sizeof(struct module_row) == 8, "as in the format");

struct __attribute__((packed)) grid_row {
    uint64_t gridId64, contextId, function, functionEntry, moduleHandle, parentGridId64, paramsOffset;
    uint32_t kernelType, origin, gridStatus, numRegs, gridDim[3], blockDim[3], launchBlocking, hostTid;
    uint32_t clusterDim[3], pad1, preferredClusterDim[3], pad2;
};
_Static_assert(sizeof(struct grid_row) == 136, "as in the format");

struct __attribute__((packed)) sm_row {
    uint32_t smId, pad, exception, errorPCValid;
    uint64_t errorPC;
    uint32_t clusterTargetValid, clusterTarget[3];
    uint64_t exceptionString;
};
_Static_assert(sizeof(struct sm_row) == 48, "as in the format");

struct __attribute__((packed)) cta_row {
    uint64_t gridId64;
    uint32_t blockIdx[3], pad1, clusterIdx[3], pad2, clusterDim[3], pad3;
};
_Static_assert(sizeof(struct cta_row) == 56, "as in the format");

struct __attribute__((packed)) warp_row {
    uint64_t errorPC;
    uint32_t warpId, validLanes, activeLanes, isBroken, errorPCValid, pad1, numRegs, pad2, sharedMemSize, pad3;
    uint32_t inSyscall, cbuActive, cbuExited, cbuCollective;
};
_Static_assert(sizeof(struct warp_row) == 64, "as in the format");

struct __attribute__((packed)) lane_row {
    uint64_t virtualPC, physPC;
    uint32_t ln, threadIdx[3], exception, callDepth, syscallDepth, cc, cbuState, pad;
};
_Static_assert(sizeof(struct lane_row) == 56, "as in the format");

struct __attribute__((packed)) meta_row {
    uint64_t generatorName;
    uint32_t driverMajor, driverMinor, cudaMajor, cudaMinor, flags, timestamp;
};
_Static_assert(sizeof(struct meta_row) == 32, "as in the format");

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
    unsigned devices, contexts, modules, sms, grids, ctas, warps, lanes;
};

static unsigned add_table(struct dump *dump, const char *name, uint32_t type, unsigned parent, uint32_t row, const void *rows,
                          size_t row_bytes, size_t count)
{
    Elf64_Shdr header = {.sh_type = type, .sh_link = parent, .sh_info = row, .sh_entsize = row_bytes};
    return elf_add(&dump->elf, name, header, rows, row_bytes * count);
}

static void add_device(struct dump *dump)
{
    int device = dump->site->context->device;
    struct device_row row = {.devName = elf_string(&dump->elf, SIM_DEVICE_NAME),
                             .devType = elf_string(&dump->elf, "GH100"),
                             .smType = elf_string(&dump->elf, "sm_90"),
                             .devId = (uint32_t)device,
                             .pciBusId = config_get()->pci[device].bus,
                             .pciDevId = config_get()->pci[device].device,
                             .numSMs = SIM_MULTIPROCESSORS,
                             .numWarpsPerSM = 64,
                             .numLanesPerWarp = WARP_LANES,
                             .numRegsPerLane = 256,
                             .numPredicates = PREDICATES,
                             .smMajor = 9,
                             .instructionSize = 16,
                             .numUniformRegs = UNIFORM_REGISTERS,
                             .numUniformPreds = PREDICATES,
                             .numConvBarriers = 16};
    dump->devices = add_table(dump, ".cudbg.devtbl", CUDBG_SHT_DEVTBL, 0, 0, &row, sizeof row, 1);
}

static void add_context(struct dump *dump)
{
    struct context_row row = {.contextId = dump->site->context->id,
                              .sharedWindowBase = UINT64_C(0x7e0000000000),
                              .localWindowBase = UINT64_C(0x7e1000000000),
                              .deviceIdx = 0,
                              .tid = (uint32_t)getpid()};
    dump->contexts = add_table(dump, ".cudbg.ctxtbl.dev0", CUDBG_SHT_CTXTBL, dump->devices, 0, &row, sizeof row, 1);
}

static uint64_t module_handle(const struct dump *dump)
{
    return (uint64_t)(uintptr_t)dump->function;
}

static void add_module(struct dump *dump)
{
    struct module_row row = {.moduleHandle = module_handle(dump)};
    dump->modules = add_table(dump, ".cudbg.modtbl.dev0.ctx0", CUDBG_SHT_MODTBL, dump->contexts, 0, &row, sizeof row, 1);
    size_t size = 0;
    unsigned char *cubin = cubin_create(dump->function, dump->site->faults[dump->first_faulted].is_write, &size);
    if (cubin == NULL)
        dump->elf.is_failed = 1;
    const Elf64_Shdr header = {.sh_type = CUDBG_SHT_RELFIMG, .sh_link = dump->modules};
    elf_add(&dump->elf, ".cudbg.relfimg.dev0.ctx0.mod0", header, cubin, size);
    free(cubin);
}

static void add_multiprocessors(struct dump *dump)
{
    struct sm_row rows[SIM_MULTIPROCESSORS] = {{0}};
    for (uint32_t i = 0; i < SIM_MULTIPROCESSORS; i++)
        rows[i].smId = i;
    rows[dump->sm].exception = dump->site->exception;
    rows[dump->sm].errorPCValid = 1;
    rows[dump->sm].errorPC = dump->error_pc;
    dump->sms =
        add_table(dump, ".cudbg.smtbl.dev0", CUDBG_SHT_SMTBL, dump->devices, 0, rows, sizeof rows[0], SIM_MULTIPROCESSORS);
}

static void add_grid(struct dump *dump)
{
    const struct launch *launch = dump->site->launch;
    struct grid_row row = {.gridId64 = dump->site->grid_id,
                           .contextId = dump->site->context->id,
                           .function = module_handle(dump),
                           .functionEntry = dump->function->entry,
                           .moduleHandle = module_handle(dump),
                           .paramsOffset = PARAMETER_BASE,
                           .numRegs = CUBIN_REGISTERS,
                           .hostTid = launch->host_tid,
                           .clusterDim = {1, 1, 1},
                           .preferredClusterDim = {1, 1, 1}};
    memcpy(row.gridDim, launch->grid, sizeof row.gridDim);
    memcpy(row.blockDim, launch->block, sizeof row.blockDim);
    dump->grids = add_table(dump, ".cudbg.gridtbl.dev0", CUDBG_SHT_GRIDTBL, dump->devices, 0, &row, sizeof row, 1);
    if (launch->parameter_bytes != 0)
        add_table(dump, ".cudbg.param.dev0.grid0", CUDBG_SHT_PARAM, dump->grids, 0, launch->parameters, 1,
                  launch->parameter_bytes);
}

static void add_cta_and_warp(struct dump *dump)
{
    const struct fault_site *site = dump->site;
    char name[64];
    struct cta_row cta = {.gridId64 = site->grid_id, .clusterDim = {1, 1, 1}};
    memcpy(cta.blockIdx, site->block, sizeof cta.blockIdx);
    snprintf(name, sizeof name, ".cudbg.ctatbl.dev0.sm%u", dump->sm);
    dump->ctas = add_table(dump, name, CUDBG_SHT_CTATBL, dump->sms, dump->sm, &cta, sizeof cta, 1);

    struct warp_row warp = {.errorPC = dump->error_pc,
                            .warpId = site->warp,
                            .validLanes = site->valid,
                            .activeLanes = site->valid,
                            .isBroken = 1,
                            .errorPCValid = 1,
                            .numRegs = CUBIN_REGISTERS,
                            .cbuActive = site->valid};
    snprintf(name, sizeof name, ".cudbg.wptbl.dev0.sm%u.cta0", dump->sm);
    dump->warps = add_table(dump, name, CUDBG_SHT_WPTBL, dump->ctas, 0, &warp, sizeof warp, 1);

    uint32_t uniform[UNIFORM_REGISTERS] = {0};
    uniform[DESCRIPTOR_REGISTER + 1] = 0x10000000;
    snprintf(name, sizeof name, ".cudbg.uregs.dev0.sm%u.cta0.wp%u", dump->sm, site->warp);
    add_table(dump, name, CUDBG_SHT_UREGS, dump->warps, 0, uniform, sizeof uniform[0], UNIFORM_REGISTERS);
}

/* The host faults at the first inaccessible byte. The device requires accesses to be aligned to their width, so the register
 * held the next lower multiple of the width. */
static uint64_t access_address(const struct dump *dump, uint32_t lane)
{
    return dump->site->faults[lane].address & ~(uint64_t)(cubin_access_bytes(dump->function) - 1);
}

static void add_lane_registers(struct dump *dump, uint32_t row, uint32_t lane)
{
    uint32_t registers[CUBIN_REGISTERS] = {0}, predicates[PREDICATES] = {0};
    if ((dump->site->faulted & 1u << lane) != 0) {
        uint64_t address = access_address(dump, lane);
        registers[CUBIN_ADDRESS_REGISTER] = (uint32_t)address;
        registers[CUBIN_ADDRESS_REGISTER + 1] = (uint32_t)(address >> 32);
    }
    char name[64];
    snprintf(name, sizeof name, ".cudbg.regs.dev0.sm%u.cta0.wp%u.ln%u", dump->sm, dump->site->warp, lane);
    add_table(dump, name, CUDBG_SHT_REGS, dump->lanes, row, registers, sizeof registers[0], CUBIN_REGISTERS);
    snprintf(name, sizeof name, ".cudbg.pred.dev0.sm%u.cta0.wp%u.ln%u", dump->sm, dump->site->warp, lane);
    add_table(dump, name, CUDBG_SHT_PRED, dump->lanes, row, predicates, sizeof predicates[0], PREDICATES);
}

static void add_lanes(struct dump *dump)
{
    const struct fault_site *site = dump->site;
    struct lane_row rows[WARP_LANES] = {{0}};
    uint32_t count = 0;
    for (uint32_t lane = 0; lane < WARP_LANES; lane++) {
        if ((site->valid & 1u << lane) == 0)
            continue;
        struct lane_row *row = &rows[count++];
        row->virtualPC = row->physPC = dump->function->entry + dump->code.resume;
        row->ln = lane;
        memcpy(row->threadIdx, site->threads[lane], sizeof row->threadIdx);
        row->exception = (site->faulted & 1u << lane) != 0 ? site->exception : 0;
    }
    char name[64];
    snprintf(name, sizeof name, ".cudbg.lntbl.dev0.sm%u.cta0.wp%u", dump->sm, site->warp);
    dump->lanes = add_table(dump, name, CUDBG_SHT_LNTBL, dump->warps, 0, rows, sizeof rows[0], count);
    for (uint32_t row = 0; row < count; row++)
        add_lane_registers(dump, row, rows[row].ln);
}

static void add_meta(struct dump *dump)
{
    struct meta_row row = {.generatorName = elf_string(&dump->elf, "cufence simulated driver"),
                           .driverMajor = 580,
                           .driverMinor = 159,
                           .cudaMajor = 13,
                           .timestamp = (uint32_t)time(NULL)};
    add_table(dump, ".cudbg.meta", CUDBG_SHT_META, 0, 0, &row, sizeof row, 1);
}

unsigned char *dump_create(const struct fault_site *site, size_t *size)
{
    struct dump *dump = calloc(1, sizeof *dump);
    if (dump == NULL)
        return NULL;
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
