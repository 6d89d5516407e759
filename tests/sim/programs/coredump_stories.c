/* Stories about programs that want a core dump of the driver for themselves. */
#include "program.h"

#include <unistd.h>

/* 4 bytes are stored past the end of a buffer as the driver allocates it, where nothing is mapped. */
static int overrun(void)
{
    CUdeviceptr address;
    MUST(cu.cuMemAlloc(&address, 4096));
    MUST(store(address + ((CUdeviceptr)2 << 20) + 512, 8, NULL));
    return say("context", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}

/* dump_by_variables FILE FLAGS: sets them itself, and shows what a child sees of them after cuInit. "": is not set. */
STORY(dump_by_variables)
{
    setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
    if (*arguments[2])
        setenv("CUDA_COREDUMP_FILE", arguments[2], 1);
    setenv("CUDA_COREDUMP_GENERATION_FLAGS", arguments[3], 1);
    start();
    fflush(stdout);
    if (system("echo \"$CUDA_ENABLE_COREDUMP_ON_EXCEPTION $CUDA_COREDUMP_FILE $CUDA_COREDUMP_GENERATION_FLAGS\"") != 0)
        return 9;
    return overrun();
}

static void set(__typeof__(cu.cuCoredumpSetAttribute) function, CUcoredumpSettings attribute, const void *value, size_t size)
{
    MUST(function(attribute, (void *)(uintptr_t)value, &size));
}

/* dump_by_attributes global|context FILE */
STORY(dump_by_attributes)
{
    static const unsigned char yes = 1;
    static const unsigned flags = CU_COREDUMP_LIGHTWEIGHT_FLAGS | CU_COREDUMP_SKIP_ABORT;
    const int is_global = strcmp(arguments[2], "global") == 0;
    unsigned read = 0;
    unsigned char truth = 0;
    char file[1024] = "";
    size_t file_size = sizeof file, flags_size = sizeof read, one = 1, none = 0;
    driver_find();
    if (is_global)
        MUST(cu.cuInit(0));
    else
        start();
    __typeof__(cu.cuCoredumpSetAttribute) change = is_global ? cu.cuCoredumpSetAttributeGlobal : cu.cuCoredumpSetAttribute;
    __typeof__(cu.cuCoredumpGetAttribute) get = is_global ? cu.cuCoredumpGetAttributeGlobal : cu.cuCoredumpGetAttribute;
    set(change, CU_COREDUMP_FILE, arguments[3], strlen(arguments[3]) + 1);
    set(change, CU_COREDUMP_GENERATION_FLAGS, &flags, sizeof flags);
    set(change, CU_COREDUMP_ENABLE_ON_EXCEPTION, &yes, 1);
    if (!is_global) { /* those of another context are its own */
        CUcontext other;
        MUST(cu.cuCtxCreate(&other, NULL, 0, 0));
        set(change, CU_COREDUMP_FILE, "other", sizeof "other");
        MUST(cu.cuCtxDestroy(other));
    }
    MUST(get(CU_COREDUMP_FILE, file, &file_size));
    MUST(get(CU_COREDUMP_GENERATION_FLAGS, &read, &flags_size));
    printf("%s %zu %u\n", file, file_size, read);
    MUST(get(CU_COREDUMP_TRIGGER_HOST, &truth, &one));
    printf("%d", truth);
    MUST(get(CU_COREDUMP_LIGHTWEIGHT, &truth, &one));
    printf(" %d", truth);
    MUST(get(CU_COREDUMP_ENABLE_ON_EXCEPTION, &truth, &one));
    printf(" %d\n", truth);
    say("room", get(CU_COREDUMP_FILE, file, &one));
    MUST(get(CU_COREDUMP_GENERATION_FLAGS, NULL, &none));
    say("size", none == 4 ? change(CU_COREDUMP_GENERATION_FLAGS, &read, &one) : CUDA_SUCCESS);
    say("none", change(CU_COREDUMP_MAX, &read, &flags_size));
    if (is_global)
        start();
    return overrun();
}
