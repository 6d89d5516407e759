#include "evidence.h"

#include <cuda.h>
#include <stddef.h>
#include <string.h>

/* The result of every later call, by CUDA's documentation. */
enum {
    ADDRESS = CUDA_ERROR_ILLEGAL_ADDRESS,
    STACK = CUDA_ERROR_HARDWARE_STACK_ERROR,
    ILLEGAL = CUDA_ERROR_ILLEGAL_INSTRUCTION,
    MISALIGNED = CUDA_ERROR_MISALIGNED_ADDRESS,
    SPACE = CUDA_ERROR_INVALID_ADDRESS_SPACE,
    PC = CUDA_ERROR_INVALID_PC,
    ASSERT = CUDA_ERROR_ASSERT,
    FAILED = CUDA_ERROR_LAUNCH_FAILED /* what is not documented otherwise */
};

/* By number, as enum CUDBGException_t of cudadebugger.h; 30 is new in CUDA 13. Meanings: cuda-gdb's manual. */
static const struct known {
    const char *name;
    enum exception_class class;
    int error;
    const char *meaning, *cause;
} exceptions[] = {
    [0] = {"no exception", CLASS_OTHER, FAILED, NULL, NULL},
    [1] = {"illegal address", CLASS_ADDRESS, ADDRESS, NULL, NULL},
    [2] = {"user stack overflow", CLASS_NO_BUFFER, FAILED, "a thread's stack is full",
           "a recursion, or large arrays in a function; cudaLimitStackSize sets its size"},
    [3] = {"hardware stack overflow", CLASS_NO_BUFFER, STACK, "the hardware's stack of calls is full", "a deep recursion"},
    [4] = {"illegal instruction", CLASS_NO_BUFFER, ILLEGAL, "a warp ran an illegal instruction", NULL},
    [5] = {"out-of-range address", CLASS_GIVEN_ONLY, FAILED,
           "an access went outside the shared or local memory that it was meant for", NULL},
    [6] = {"misaligned address", CLASS_MISALIGNED, MISALIGNED, NULL, NULL},
    [7] = {"invalid address space", CLASS_GIVEN_ONLY, SPACE, "an instruction was given an address of the wrong kind of memory",
           NULL},
    [8] = {"invalid program counter", CLASS_NO_BUFFER, PC, "a warp jumped to an address without code",
           "a function pointer that is not valid on the device, or a return address that was overwritten on the stack"},
    [9] = {"hardware stack overflow", CLASS_NO_BUFFER, STACK, "the hardware's stack of calls is full", "a deep recursion"},
    [10] = {"illegal address", CLASS_ADDRESS, ADDRESS, NULL, NULL},
    [11] = {"misaligned address", CLASS_MISALIGNED, MISALIGNED, NULL, NULL},
    [12] = {"assertion failed", CLASS_NO_BUFFER, ASSERT, "an assert() in the kernel failed; its text is on stdout or stderr",
            NULL},
    [13] = {"system call error", CLASS_NO_BUFFER, FAILED, "malloc(), free() or another call in the kernel failed",
            "free() of a pointer that the kernel's malloc() did not return, or a double free"},
    [14] = {"illegal address", CLASS_ADDRESS, ADDRESS, NULL, NULL},
    [15] = {"system atomic on memory that cannot migrate", CLASS_OTHER, FAILED, NULL, NULL},
    [16] = {"invalid system atomic", CLASS_OTHER, FAILED, NULL, NULL},
    [17] = {"cluster: out-of-range address", CLASS_NO_BUFFER, FAILED,
            "an access went outside the shared memory of the cluster's blocks", NULL},
    [18] = {"cluster: block not present", CLASS_NO_BUFFER, FAILED, "a block was accessed that is not in the cluster",
            "a block that has ended, or a rank outside of the cluster"},
    [19] = {"stack canary overwritten", CLASS_NO_BUFFER, FAILED,
            "a function wrote past the end of an array on its thread's stack", NULL},
    [20] = {"tensor memory access check", CLASS_NO_BUFFER, FAILED, "an access to tensor memory that was not allocated", NULL},
    [21] = {"tensor memory leak", CLASS_NO_BUFFER, FAILED, "a block ended before it had freed its tensor memory", NULL},
    [22] = {"call requires a newer driver", CLASS_NO_BUFFER, FAILED,
            "the kernel calls a function that this driver does not have", NULL},
    [23] = {"misaligned program counter", CLASS_NO_BUFFER, PC, "a warp jumped to an address where no instruction begins",
            "a function pointer that is not valid on the device, or a return address that was overwritten on the stack"},
    [24] = {"program counter overflow", CLASS_NO_BUFFER, PC, "a warp ran past the end of the code", NULL},
    [25] = {"misaligned register", CLASS_NO_BUFFER, FAILED, "an instruction names a register that it may not use", NULL},
    [30] = {"MMU fault", CLASS_ADDRESS, ADDRESS, NULL, NULL},
};

#define TRAP_MEANING "the kernel trapped by itself"
#define TRAP_CAUSE "__trap(), __builtin_unreachable(), or a check of a library that ends in one"

#define STACK_MEANING "an access went outside the local memory of its thread: its stack"
#define STACK_CAUSE "a recursion, large arrays in a function (cudaLimitStackSize sets the size), or an index out of range"
#define SHARED_MEANING "an access went outside the shared memory of its block"
#define SHARED_CAUSE "an index out of range, or a launch with less dynamic shared memory than the kernel uses"

/* What the throwing instruction adds. `instruction` as in sass_class(). */
static const struct {
    uint32_t exception; /* 0: any exception without a buffer */
    const char *instruction;
    const char *meaning, *cause;
} throwers[] = {
    {0, "BPT", TRAP_MEANING, TRAP_CAUSE},
    {5, "STL", STACK_MEANING, STACK_CAUSE},
    {5, "LDL", STACK_MEANING, STACK_CAUSE},
    {5, "STS", SHARED_MEANING, SHARED_CAUSE},
    {5, "LDS", SHARED_MEANING, SHARED_CAUSE},
    {5, "ATOMS", SHARED_MEANING, SHARED_CAUSE},
    {5, "LDSM", SHARED_MEANING, SHARED_CAUSE},
    {5, "STSM", SHARED_MEANING, SHARED_CAUSE},
    {4, "WARPSYNC", NULL, "the mask of a __syncwarp(), vote, shuffle or match does not name the threads that run it"},
    {4, "VOTE", NULL, "the mask of a vote does not match the threads that run it"},
    {4, "SHFL", NULL, "the mask of a shuffle does not match the threads that run it"},
    {4, "MATCH", NULL, "the mask of a match does not match the threads that run it"},
    {4, "REDUX", NULL, "the mask of a reduction does not match the threads that run it"},
};

static const struct known *find(uint32_t exception)
{
    static const struct known unknown = {"unknown exception", CLASS_OTHER, FAILED, NULL, NULL};
    static const struct known trap = {"trap", CLASS_NO_BUFFER, FAILED, TRAP_MEANING, TRAP_CAUSE};
    if (exception == EXCEPTION_TRAP)
        return &trap;
    int is_known = exception < sizeof(exceptions) / sizeof(exceptions[0]) && exceptions[exception].name;
    return is_known ? &exceptions[exception] : &unknown;
}

/* Returns the index in `throwers`, -1 if the instruction adds nothing to this exception. */
static int thrower_of(uint32_t exception, const char *instruction)
{
    for (size_t i = 0; instruction && i < sizeof(throwers) / sizeof(throwers[0]); i++) {
        int fits = throwers[i].exception ? throwers[i].exception == exception : find(exception)->class == CLASS_NO_BUFFER;
        if (fits && strcmp(throwers[i].instruction, instruction) == 0)
            return (int)i;
    }
    return -1;
}

struct exception exception_of(uint32_t number, const char *instruction)
{
    const struct known *known = find(number);
    int thrower = thrower_of(number, instruction);
    int has_meaning = thrower >= 0 && throwers[thrower].meaning;
    return (struct exception){.number = number,
                              .name = known->name,
                              .class = known->class,
                              .meaning = has_meaning ? throwers[thrower].meaning : known->meaning,
                              .cause = thrower >= 0 ? throwers[thrower].cause : known->cause,
                              .error = known->error};
}
