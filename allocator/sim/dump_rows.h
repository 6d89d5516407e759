/*
 * Section types and table rows of a GPU core dump as driver 580 writes them. The names are the format's own.
 */
#ifndef CUFENCE_SIM_DUMP_ROWS_H
#define CUFENCE_SIM_DUMP_ROWS_H

#include <stdint.h>

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

#endif
