/* Checks the preload library of `cufence run` and backend:cufence: is it installed, does it load, do its hooks work? */
#include "doctor.h"
#include "program.h"

#include "base/env.h"
#include "base/text.h"
#include "driver/driver.h"

#include <cufence.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#define PATIENCE 60 /* seconds: the first start of a driver on a large machine takes several */

static const char elsewhere[] = "without it there is the C API, and cufence.enable() in Python";

void try_preload(struct preload_trial *trial)
{
    char self[PATH_MAX], preload[2 * sizeof trial->file + 32];
    const char *before = env_get("LD_PRELOAD");
    memset(trial, 0, sizeof *trial);
    if (!installed_program(self) || !installed_preload(self, trial->file))
        return;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s%s%s", trial->file, before && *before ? ":" : "", before ? before : "");
    child_run((const char *const[]){self, "doctor", "--probe", NULL}, (const char *const[]){preload, "CUFENCE_OPTIONS", NULL},
              PATIENCE, &trial->child);
}

/* Returns the reason in the loader's message about the library, "" if there is no such message. */
static void find_complaint(const char *text, char *complaint, size_t size)
{
    const char *at = strstr(text, "ld.so: object");
    complaint[0] = '\0';
    if (at && strstr(at, INSTALLED_PRELOAD))
        snprintf(complaint, size, "%.*s", (int)strcspn(at, "\n"), at);
}

static void judge_loading(struct findings *findings, const struct child *child, json_t *facts)
{
    char complaint[512];
    find_complaint(child->error, complaint, sizeof complaint);
    if (json_object_get(facts, "preload"))
        found(findings, FOUND_YES, "loading", NULL, "the loader puts it into programs (LD_PRELOAD works)");
    else if (complaint[0])
        found(findings, FOUND_NO, "loading", "reinstall cufence, built for this machine's C library and architecture", "%s",
              complaint);
    else if (child->is_timed_out)
        found(findings, FOUND_NO, "loading", "see whether nvidia-smi answers; else restart the machine's driver",
              "a program under it did not end within %d s", PATIENCE);
    else if (!child->is_started || !facts)
        found(findings, FOUND_NO, "loading",
              "run `cufence doctor --probe` with LD_PRELOAD set to the library, and report what it says",
              "a program under it has failed (status 0x%x): %.400s", (unsigned)child->status, child->error);
    else
        found(findings, FOUND_NO, "loading",
              "the loader ignores LD_PRELOAD in programs with set-uid or capabilities, in static ones and in those of "
              "another C "
              "library (musl): run without these rights, link dynamically, or use the C API",
              "LD_PRELOAD was ignored%s", getauxval(AT_SECURE) ? ": this process runs with special rights (AT_SECURE)" : "");
}

static void judge_hook(struct findings *findings, const char *what, json_t *facts, const char *way)
{
    const char *whose = json_string_value(json_object_get(facts, way));
    if (!whose)
        found(findings, FOUND_NEITHER, what, NULL, "not tried: the driver has no %s of CUDA 12", way);
    else if (strcmp(whose, "ours") == 0)
        found(findings, FOUND_YES, what, NULL, "a program that finds the driver with %s gets its memory from cufence", way);
    else
        found(findings, FOUND_MISSING, what, "reinstall cufence: library and preload library must come from one build",
              "a program that finds the driver with %s gets its memory from %s", way, whose);
}

static void judge_hooks(struct findings *findings, const struct child *child, json_t *facts)
{
    const char *problem = json_string_value(json_object_get(facts, "problem"));
    const char *version = json_string_value(json_object_get(facts, "version"));
    if (problem) {
        found(findings, FOUND_NEITHER, "hooks", NULL, "not tried: %s", problem);
        return;
    }
    if (!version)
        found(findings, FOUND_MISSING, "library",
              "reinstall cufence: libcufence.so must be in the same folder as " INSTALLED_PRELOAD,
              "the preload library did not open libcufence.so: %.400s", child->error[0] ? child->error : "it does not say why");
    else if (strcmp(version, cufence_version_string()) != 0)
        found(findings, FOUND_NO, "library", "reinstall cufence: these are two installations in one place",
              "libcufence.so is version %s, this program %s", version, cufence_version_string());
    else
        found(findings, FOUND_YES, "library", NULL, "libcufence.so %s", version);
    judge_hook(findings, "hooks (dlsym)", facts, "dlsym");
    judge_hook(findings, "hooks (address)", facts, "cuGetProcAddress");
}

void judge_preload(struct findings *findings, const struct preload_trial *trial)
{
    findings_section(findings, "preload: cufence run, backend:cufence");
    if (!trial->file[0]) {
        found(findings, FOUND_NO, "preload library", elsewhere,
              INSTALLED_PRELOAD " is in none of these places, relative to this program's folder: " INSTALLED_PLACES);
        return;
    }
    if (strpbrk(trial->file, " :"))
        found(findings, FOUND_NO, "preload library", "install cufence in another folder",
              "%s: LD_PRELOAD cannot name it, because of the space or colon in it", trial->file);
    else
        found(findings, FOUND_YES, "preload library", NULL, "%s", trial->file);
    json_t *facts = json_loads(trial->child.out, 0, NULL);
    judge_loading(findings, &trial->child, facts);
    if (json_object_get(facts, "preload"))
        judge_hooks(findings, &trial->child, facts);
    json_decref(facts);
}

/* ---- the child ---- */

/* Looks functions up as a program does: the driver table of ours bypasses the hooks. */
#define NAME(function) #function
#define FIND(function) ((__typeof__(&(function)))dlsym(driver->library, NAME(function)))

/* Starts CUDA and makes device 0's context current. Returns what failed, or NULL. */
static const char *start_cuda(void)
{
    CUdevice device;
    CUcontext context;
    if (driver_load() != CUFENCE_OK)
        return cufence_error_detail();
    if (!FIND(cuInit) || !FIND(cuDeviceGet) || !FIND(cuDevicePrimaryCtxRetain) || !FIND(cuCtxSetCurrent))
        return "the driver lacks a function";
    if (FIND(cuInit)(0) != CUDA_SUCCESS)
        return "cuInit has failed";
    if (FIND(cuDeviceGet)(&device, 0) != CUDA_SUCCESS)
        return "there is no device";
    return FIND(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS && FIND(cuCtxSetCurrent)(context) == CUDA_SUCCESS
               ? NULL
               : "no context can be made";
}

/* Allocates with these functions and says whose memory it is. `library` is libcufence.so, NULL if it is not there. */
static const char *whose(void *allocate, void *release, void *library)
{
    enum { BYTES = 1000 };
    CUdeviceptr pointer = 0;
    cufence_description what = {0};
    __typeof__(&cufence_describe) describe = library ? (__typeof__(describe))dlsym(library, "cufence_describe") : NULL;
    if (!allocate || !release)
        return "the functions were not found";
    if (((__typeof__(&cuMemAlloc))allocate)(&pointer, BYTES) != CUDA_SUCCESS)
        return "the allocation has failed";
    int is_ours = describe && describe((const void *)(uintptr_t)pointer, &what) == CUFENCE_OK &&
                  what.place == CUFENCE_PLACE_INSIDE && what.buffer.size == BYTES;
    if (((__typeof__(&cuMemFree))release)(pointer) != CUDA_SUCCESS)
        return "the free has failed";
    return is_ours ? "ours" : "the driver's";
}

static void *by_address(const char *name)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult found;
    return FIND(cuGetProcAddress_v2)(name, &function, 3020, 0, &found) == CUDA_SUCCESS ? function : NULL;
}

static void try_hooks(json_t *facts)
{
    void *library = dlopen("libcufence.so.0", RTLD_NOW | RTLD_NOLOAD);
    void *version = library ? dlsym(library, "cufence_version_string") : NULL;
    if (version)
        json_object_set_new(facts, "version", json_string(((__typeof__(&cufence_version_string))version)()));
    json_object_set_new(facts, "dlsym", json_string(whose(FIND(cuMemAlloc), FIND(cuMemFree), library)));
    if (FIND(cuGetProcAddress_v2))
        json_object_set_new(facts, "cuGetProcAddress",
                            json_string(whose(by_address("cuMemAlloc"), by_address("cuMemFree"), library)));
}

/*
 * Uses CUDA as a program does, and checks whether the memory that it gets is cufence's. Prints one JSON object:
 * - preload: true if the preload library is mapped; all others are absent if it is not
 * - problem: why CUDA could not be tried, such as no driver or no device
 * - version: of the libcufence.so that the preload library has opened; absent if it has not
 * - dlsym, cuGetProcAddress (CUDA 12): whose memory an allocation is by a symbol found in this way: "ours", "the driver's", or
 *   what failed
 */
int doctor_probe(void)
{
    json_t *facts = json_object();
    if (dlopen(INSTALLED_PRELOAD, RTLD_NOW | RTLD_NOLOAD)) {
        const char *problem = start_cuda();
        json_object_set_new(facts, "preload", json_true());
        if (problem)
            json_object_set_new(facts, "problem", json_string(problem));
        else
            try_hooks(facts);
    }
    text_put_json(stdout, facts, JSON_COMPACT);
    return 0;
}
