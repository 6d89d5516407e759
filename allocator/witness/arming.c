#include "arming.h"

#include "driver/driver.h"
#include "base/env.h"
#include "base/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

cufence_status fifo_make(struct dump_fifo *fifo)
{
    const char *base = env_get("TMPDIR");
    if (!base || !*base)
        base = "/tmp";
    int length = snprintf(fifo->folder, sizeof fifo->folder, "%s/cufence-XXXXXX", base);
    if (length < 0 || (size_t)length >= sizeof fifo->folder || !mkdtemp(fifo->folder)) {
        fifo->folder[0] = '\0';
        return error_set(CUFENCE_ERROR_SYSTEM, "cannot make a folder in %s: %s; set TMPDIR to one that can be written", base,
                         strerror(errno));
    }
    snprintf(fifo->path, sizeof fifo->path, "%s/core", fifo->folder);
    if (mkfifo(fifo->path, 0600) != 0) {
        cufence_status status = error_set(CUFENCE_ERROR_SYSTEM, "cannot make the FIFO %s: %s", fifo->path, strerror(errno));
        rmdir(fifo->folder);
        fifo->folder[0] = '\0';
        return status;
    }
    return CUFENCE_OK;
}

static cufence_status set_dumps(const struct dump_fifo *fifo)
{
    bool on = true;
    int flags = CU_COREDUMP_LIGHTWEIGHT_FLAGS | CU_COREDUMP_SKIP_ABORT;
    char file[sizeof fifo->path];
    size_t size = strlen(fifo->path) + 1;
    memcpy(file, fifo->path, size);
    cufence_status status =
        driver_check(driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, file, &size), "cuCoredumpSetAttributeGlobal(FILE)");
    size = sizeof flags;
    if (status == CUFENCE_OK)
        status = driver_check(driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &size),
                              "cuCoredumpSetAttributeGlobal(GENERATION_FLAGS)");
    size = sizeof on;
    if (status == CUFENCE_OK)
        status = driver_check(driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size),
                              "cuCoredumpSetAttributeGlobal(ENABLE_ON_EXCEPTION)");
    return status;
}

/* Leaves file and flags as set: without ENABLE_ON_EXCEPTION no dump is written. */
void dumps_disarm(void)
{
    bool off = false;
    size_t size = sizeof off;
    driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &off, &size);
}

void dumps_remove_fifo(const struct dump_fifo *fifo)
{
    unlink(fifo->path);
    rmdir(fifo->folder);
}

cufence_status dumps_arm(struct dump_fifo *fifo)
{
    static const char *const taken[] = {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_COREDUMP_FILE",
                                        "CUDA_COREDUMP_GENERATION_FLAGS", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (env_get(taken[i]))
            return error_set(CUFENCE_ERROR_UNSUPPORTED, "%s is set and wins over cufence; unset it", taken[i]);
    }
    if (!driver->cuCoredumpSetAttributeGlobal)
        return error_set(CUFENCE_ERROR_UNSUPPORTED, "the driver (CUDA %d.%d) cannot arm core dumps; CUDA 12.1 and later can",
                         driver->version / 1000, driver->version % 1000 / 10);
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    for (int i = 0; i < devices; i++) {
        unsigned flags;
        int is_active = 0;
        CUdevice device;
        if (driver->cuDeviceGet(&device, i) == CUDA_SUCCESS &&
            driver->cuDevicePrimaryCtxGetState(device, &flags, &is_active) == CUDA_SUCCESS && is_active)
            return error_set(CUFENCE_ERROR_UNSUPPORTED,
                             "CUDA was in use on device %d before cufence was started, and dumps must be "
                             "armed before; start cufence first",
                             i);
    }
    cufence_status status = fifo_make(fifo);
    if (status != CUFENCE_OK)
        return status;
    status = set_dumps(fifo);
    if (status != CUFENCE_OK) {
        dumps_disarm();
        dumps_remove_fifo(fifo);
    }
    return status;
}
