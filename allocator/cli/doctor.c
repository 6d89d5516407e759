/* `cufence doctor`: what this machine's driver and permissions allow, and what to do about each 'no'. */
#include "doctor.h"

#include "command_line.h"
#include "environment.h"
#include "program.h"

#include "base/env.h"
#include "base/error.h"
#include "base/files.h"
#include "base/options.h"
#include "base/text.h"
#include "driver/driver.h"
#include "fault/descriptors.h"

#include "doctor_py.h"

#include <cufence.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- what it has found ---- */

#define SCHEMA 1

enum { FINDING_INDENT = 4 + 1 + 18 + 1 }; /* the columns of the mark and the name */

static const char *const words[] = {"yes", "no", "missing", "none"}, *const marks[] = {"yes", "no", "NO", "-"};

/* Starts a section. `title` is a static string. */
static void findings_section(struct findings *findings, const char *title)
{
    findings->section = title;
    if (!findings->is_json)
        printf("%s%s\n", findings->all ? "\n" : "", title);
}

/* Adds a finding. `remedy` says what to do about a no, as a sentence without a full stop; NULL: nothing. */
__attribute__((format(printf, 5, 6))) static void found(struct findings *findings, enum verdict_mark mark, const char *what,
                                                        const char *remedy, const char *format, ...)
{
    char detail[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    for (char *at = detail; (at = strpbrk(at, "\r\n")) != NULL;) /* messages of drivers come here too */
        *at = at[1] ? ' ' : '\0';
    if (!findings->all)
        findings->all = json_array();
    findings->count[mark]++;
    json_array_append_new(findings->all, json_pack("{ss ss ss so so*}", "section", findings->section, "check",
                                                   what + strspn(what, " "), "found", words[mark], "detail",
                                                   text_to_json(detail), "remedy", remedy ? text_to_json(remedy) : NULL));
    if (findings->is_json)
        return;
    printf("%-4s %-18s ", marks[mark], what);
    words_print(stdout, detail, FINDING_INDENT);
    if (remedy) {
        printf("%-*s-> ", FINDING_INDENT, "");
        words_print(stdout, remedy, FINDING_INDENT + 3);
    }
    fflush(stdout); /* the next check may take long, or end the process */
}

void ask(struct findings *findings, const char *what, const char *format, ...)
{
    char said[16384] = "", *command = NULL, *answer;
    va_list arguments;
    json_t *check, *all = NULL;
    size_t i;
    va_start(arguments, format);
    FILE *out = vasprintf(&command, format, arguments) >= 0 ? popen(command, "re") : NULL;
    va_end(arguments);
    said[out ? fread(said, 1, sizeof said - 1, out) : 0] = '\0';
    int status = out ? pclose(out) : -1;
    if ((answer = strstr(said, "[{")) && (all = json_loads(answer, JSON_DISABLE_EOF_CHECK, NULL)))
        *answer = '\0';
    if (!all || *said)
        found(findings, FOUND_NO, what, NULL, "%s (status 0x%x): %.400s", all ? "it has said" : "it does not answer",
              (unsigned)status, said);
    json_array_foreach(all, i, check)
    {
        const char *name = "", *word = "", *detail = "", *remedy = NULL;
        int mark = FOUND_MARKS;
        json_unpack(check, "{ss ss ss s?s}", "check", &name, "found", &word, "detail", &detail, "remedy", &remedy);
        while (--mark > FOUND_YES && strcmp(words[mark], word) != 0)
            ;
        found(findings, (enum verdict_mark)mark, name, remedy, "%s", detail);
    }
    json_decref(all);
    free(command);
}

/* Prints the last line, or the JSON document. */
static void findings_conclude(const struct findings *findings)
{
    if (findings->is_json)
        text_put_json(stdout,
                      json_pack("{si ss sb sO}", "schema", SCHEMA, "cufence", cufence_version_string(), "can_work",
                                !findings->count[FOUND_MISSING], "checks", findings->all),
                      JSON_INDENT(1));
    else if (findings->count[FOUND_MISSING])
        printf("\ncufence cannot work here: it lacks what is marked NO.\n");
    else
        printf("\ncufence can work here%s.\n", findings->count[FOUND_NO] ? ", with the limits marked no" : "");
}

/* ---- environment, limits, python3 ---- */

/* What it means that a variable is set: to another value than "" and `fine`, or to one that holds `part`. */
static const struct row {
    const char *check, *variable, *fine, *part, *harm, *remedy;
} rows[] = {
    {"LD_PRELOAD", "LD_PRELOAD", "", "san", "",
     "unset it while you look for a GPU bug: a sanitizer has to be loaded first, and AddressSanitizer lets CUDA start only "
     "with ASAN_OPTIONS=protect_shadow_gap=0"},
    {"launches", "CUDA_LAUNCH_BLOCKING", "0", "", " makes every launch wait for its kernel",
     "unset it: cufence names the kernel without it, and the program runs at its own speed"},
    {"other tools", "CUDA_INJECTION64_PATH", "", "", " loads a tool into every CUDA program",
     "unset it while cufence runs: a tool that patches kernels, or that handles their exceptions, leaves nothing for cufence"},
};

void judge_environment(struct findings *findings)
{
    const char *text = env_get("CUFENCE_OPTIONS");
    size_t limits = findings->count[FOUND_NO];
    struct options options;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        const char *value = env_get(row->variable);
        if (value && *value && strcmp(value, row->fine) != 0 && strstr(value, row->part))
            found(findings, FOUND_NO, row->check, row->remedy, "%s=%s%s", row->variable, value, row->harm);
    }
    if (findings->count[FOUND_NO] == limits)
        found(findings, FOUND_YES, "environment", NULL, "no variable is in the way of launches or the preload library");
    options_default(&options);
    if (!text || !*text)
        found(findings, FOUND_YES, "options", NULL, "CUFENCE_OPTIONS is not set: the defaults");
    else if (options_parse(&options, text, "CUFENCE_OPTIONS") == CUFENCE_OK)
        found(findings, FOUND_YES, "options", NULL, "CUFENCE_OPTIONS=%s", text);
    else
        found(findings, FOUND_MISSING, "options", "correct it: `cufence options` lists what is allowed", "%s", error_detail());
}

static void check_system(struct findings *findings)
{
    char path[4096];
    struct rlimit limit;
    findings_section(findings, "process and system");
    judge_environment(findings);
    environment_tell("doctor");
    if (hidden_open(path, sizeof path)) {
        hidden_close(path);
        found(findings, FOUND_YES, "dump pipe", NULL, "needs no name in the file system");
    } else {
        found(findings, FOUND_NO, "dump pipe", "set TMPDIR to a folder on a local file system that you may write to",
              "core dumps go through a named pipe in TMPDIR here");
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 256)
        found(findings, FOUND_NO, "file limit", "ulimit -n 1024",
              "%u open files (ulimit -n); CUDA opens many, cufence up to 30 more", (unsigned)limit.rlim_cur);
}

static void check_python(struct findings *findings)
{
    struct alloc_conf confs[ALLOC_CONFS];
    findings_section(findings, "Python");
    /* With these set, the start-up hook would re-execute the interpreter under the preload library. */
    ask(findings, "python3",
        "cd / && exec timeout -k1 20 env -u PYTORCH_CUDA_ALLOC_CONF -u PYTORCH_ALLOC_CONF -u LD_PRELOAD -u CUFENCE_OPTIONS "
        "python3 - %s 2>&1 <<'END'\n%.*s\nEND\n",
        cufence_version_string(), (int)sizeof doctor_py, (const char *)doctor_py);
    cufence_status status = alloc_conf_rewrite_both(env_get, confs);
    const char *asking = status == CUFENCE_OK ? alloc_conf_asking(confs) : NULL;
    if (status != CUFENCE_OK)
        found(findings, FOUND_NO, "settings", "correct the variable", "%s", cufence_error_detail());
    else if (asking)
        found(findings, FOUND_YES, "settings", NULL, "%s=%s asks for cufence", asking, env_get(asking));
    else
        found(findings, FOUND_NEITHER, "settings", NULL, "PYTORCH_CUDA_ALLOC_CONF=backend:cufence turns cufence on");
    for (int i = 0; i < ALLOC_CONFS; i++)
        alloc_conf_free(&confs[i]);
}

/* ---- the driver, its devices, and what they allow ---- */

#define GIB (1ull << 30)

/* Reserves as the allocator does: starts with the most that it asks for, and halves that until the driver agrees. */
static void check_address_space(struct findings *findings)
{
    CUdeviceptr address = 0;
    size_t size = 64ull << 40;
    while (size >= GIB && driver->cuMemAddressReserve(&address, size, 0, 0, 0) != CUDA_SUCCESS)
        size /= 2;
    if (size >= GIB)
        driver->cuMemAddressFree(address, size);
    found(findings, size >= GIB ? FOUND_YES : FOUND_MISSING, "address space",
          size >= GIB ? NULL : "raise the limit on address space: ulimit -v unlimited", "%zu GiB can be reserved in one piece",
          (size_t)(size / GIB));
}

/* What an attribute of the device may not be, or has to be. */
static const struct attribute {
    CUdevice_attribute which;
    int value, is_wanted; /* wanted: any other value is wrong */
    enum verdict_mark mark;
    const char *check, *remedy, *detail;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1, 1, FOUND_MISSING, "  memory mapping",
     "use another device; a vGPU may have it switched off", "the device has no virtual memory management (attribute 102)"},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_PROHIBITED, 0, FOUND_MISSING, "  compute mode",
     "nvidia-smi --compute-mode=0 (as root)", "prohibited: no context can be created"},
    {CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 1, 0, FOUND_NO, "  sharing", "stop the daemon: echo quit | nvidia-cuda-mps-control",
     "the device is shared by MPS, whose clients share a fault; cufence has not been tried there"},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1, 1, FOUND_NO, "  second launch",
     "use another device; a vGPU may have it switched off",
     "the device cannot give memory to another process (attribute 103): reports say less"},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_EXCLUSIVE_PROCESS, 0, FOUND_NO, "  second launch",
     "nvidia-smi --compute-mode=0 (as root)", "no other process can use the device: reports say less"},
};

/* Maps one page in the primary context, which becomes current. */
static CUresult try_mapping(CUdevice device, size_t *granularity)
{
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    const CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    CUcontext context;
    CUresult result =
        driver->cuDevicePrimaryCtxRetain(&context, device)
            ?: driver->cuCtxSetCurrent(context)
            ?: driver->cuMemGetAllocationGranularity(granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM)
            ?: driver->cuMemAddressReserve(&address, *granularity, 0, 0, 0)
            ?: driver->cuMemCreate(&handle, *granularity, &properties, 0)
            ?: driver->cuMemMap(address, *granularity, 0, handle, 0)
            ?: driver->cuMemSetAccess(address, *granularity, &access, 1);
    if (result == CUDA_SUCCESS)
        driver->cuMemUnmap(address, *granularity);
    if (handle)
        driver->cuMemRelease(handle);
    if (address)
        driver->cuMemAddressFree(address, *granularity);
    return result;
}

static void check_device(struct findings *findings, CUdevice device)
{
    char name[128] = "?", what[32];
    size_t memory = 0, granularity = 0, missing = findings->count[FOUND_MISSING];
    unsigned compute = driver_describe(device, name, sizeof name);
    snprintf(what, sizeof what, "device %d", device);
    driver->cuDeviceTotalMem(&memory, device);
    found(findings, FOUND_YES, what, NULL, "%s, compute capability %u.%u, %.1f GiB", name, compute / 10, compute % 10,
          (double)memory / (double)GIB);
    if (compute < 70 || compute > 121) /* docs/guide/platforms.md */
        found(findings, FOUND_NEITHER, "  generation", NULL, "code of this GPU is not decoded: reports say less");
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        int value = 0;
        int is_known = driver->cuDeviceGetAttribute(&value, attributes[i].which, device) == CUDA_SUCCESS;
        if (attributes[i].is_wanted ? !is_known || value != attributes[i].value : is_known && value == attributes[i].value)
            found(findings, attributes[i].mark, attributes[i].check, attributes[i].remedy, "%s", attributes[i].detail);
    }
    if (findings->count[FOUND_MISSING] != missing)
        return;
    CUresult result = try_mapping(device, &granularity);
    if (result == CUDA_SUCCESS)
        found(findings, FOUND_YES, "  memory mapping", NULL, "granularity %zu KiB", granularity >> 10);
    else
        found(findings, FOUND_MISSING, "  memory mapping",
              "free memory on the device (nvidia-smi shows who holds it), or update the NVIDIA driver",
              "no page can be mapped: error %d", (int)result);
}

static void check_driver(struct findings *findings)
{
    int count = 0;
    findings_section(findings, "driver and devices");
    if (driver_load() != CUFENCE_OK) {
        found(findings, FOUND_MISSING, "driver",
              "install or update the NVIDIA driver, and see CUDA_VISIBLE_DEVICES; a container has to be started with --gpus",
              "%s", cufence_error_detail());
        return;
    }
    found(findings, FOUND_YES, "driver", NULL, "%s, CUDA %d.%d%s", driver->path, driver->version / 1000,
          driver->version % 1000 / 10, driver->is_sim ? ", the simulated device" : "");
    CUresult result = driver->cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS || count < 1)
        found(findings, FOUND_MISSING, "devices", "check CUDA_VISIBLE_DEVICES and nvidia-smi", "there is none: error %d",
              (int)result);
    for (int i = 0; result == CUDA_SUCCESS && i < count; i++)
        check_device(findings, i);
    check_address_space(findings);
    if (driver->cuCoredumpSetAttributeGlobal)
        found(findings, FOUND_YES, "core dumps", NULL, "the driver can write them on request");
    else
        found(findings, FOUND_NO, "core dumps", "update the NVIDIA driver to CUDA 12.1 or later",
              "the driver has no cuCoredumpSetAttributeGlobal: a fault stops the program, but is not explained");
    if (!driver->cuFuncGetParamInfo)
        found(findings, FOUND_NO, "arguments", "update the NVIDIA driver to CUDA 12.4 or later",
              "the driver does not tell the layout of kernels' arguments: reports show fewer of them");
}

/* ---- the preload library of `cufence run` and backend:cufence: is it installed, does it load, do its hooks work? ---- */

static void check_preload(struct findings *findings)
{
    char self[PATH_MAX], file[PATH_MAX];
    findings_section(findings, "preload: cufence run, backend:cufence");
    if (!installed_program(self) || !installed_preload(self, file)) {
        found(findings, FOUND_NO, "preload library", "without it there is the C API, and cufence.enable() in Python",
              INSTALLED_PRELOAD " is in none of these places, relative to this program's folder: " INSTALLED_PLACES);
        return;
    }
    found(findings, FOUND_YES, "preload library", NULL, "%s", file);
    /* a minute: the first start of a driver on a large machine takes several seconds */
    ask(findings, "loading",
        "exec timeout -k1 60 env -u CUFENCE_OPTIONS LD_PRELOAD='%s'\"${LD_PRELOAD:+:$LD_PRELOAD}\" '%s' doctor --probe 2>&1",
        file, self);
}

/* ---- the process under it ---- */

/* Looks functions up as a program does: the driver table of ours bypasses the hooks. */
#define NAME(function) #function
#define FIND(function) ((__typeof__(&(function)))dlsym(driver->library, NAME(function)))

/* Allocates with these functions, and looks whether the memory is cufence's. `library` is libcufence.so. */
static void try_hook(struct findings *findings, const char *check, void *allocate, void *release, void *library)
{
    enum { BYTES = 1000 };
    CUdeviceptr pointer = 0;
    cufence_description what = {.struct_size = sizeof what};
    __typeof__(&cufence_describe) describe = library ? (__typeof__(describe))dlsym(library, "cufence_describe") : NULL;
    int is_made = allocate && release && ((__typeof__(&cuMemAlloc))allocate)(&pointer, BYTES) == CUDA_SUCCESS;
    int is_ours = is_made && describe && describe((const void *)(uintptr_t)pointer, &what) == CUFENCE_OK &&
                  what.place == CUFENCE_PLACE_INSIDE && what.buffer.size == BYTES;
    if (is_made)
        ((__typeof__(&cuMemFree))release)(pointer);
    if (is_ours)
        found(findings, FOUND_YES, check, NULL, "a program that finds the driver so gets its memory from cufence");
    else
        found(findings, FOUND_MISSING, check, "reinstall cufence: library and preload library must come from one build",
              "a program that finds the driver so gets %s", is_made ? "its memory from the driver" : "no memory");
}

static void *by_address(const char *name)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult found;
    return FIND(cuGetProcAddress_v2)(name, &function, 3020, 0, &found) == CUDA_SUCCESS ? function : NULL;
}

/* Uses CUDA as a program does. What is missing without it, check_driver() says. */
static void try_hooks(struct findings *findings)
{
    char self[PATH_MAX], file[PATH_MAX];
    CUdevice device;
    CUcontext context;
    if (driver_load() != CUFENCE_OK || FIND(cuInit)(0) != CUDA_SUCCESS || FIND(cuDeviceGet)(&device, 0) != CUDA_SUCCESS ||
        FIND(cuDevicePrimaryCtxRetain)(&context, device) != CUDA_SUCCESS || FIND(cuCtxSetCurrent)(context) != CUDA_SUCCESS) {
        found(findings, FOUND_NEITHER, "hooks", NULL, "not tried: CUDA cannot be started");
        return;
    }
    int is_found =
        installed_program(self) && installation_library(self, "libcufence.so", file); /* a wheel's has no other name */
    void *library = is_found ? dlopen(file, RTLD_NOW | RTLD_NOLOAD) : NULL;
    try_hook(findings, "hooks (dlsym)", FIND(cuMemAlloc), FIND(cuMemFree), library);
    if (FIND(cuGetProcAddress_v2))
        try_hook(findings, "hooks (address)", by_address("cuMemAlloc"), by_address("cuMemFree"), library);
}

/* What check_preload() runs under the preload library. Returns the exit status. */
static int doctor_probe(void)
{
    struct findings findings = {.is_json = 1, .section = ""};
    if (dlopen(INSTALLED_PRELOAD, RTLD_NOW | RTLD_NOLOAD)) {
        found(&findings, FOUND_YES, "loading", NULL, "the loader puts it into programs (LD_PRELOAD works)");
        try_hooks(&findings);
    } else {
        found(&findings, FOUND_NO, "loading", "run without special rights, link dynamically with glibc, or use the C API",
              "LD_PRELOAD was ignored%s", getauxval(AT_SECURE) ? ": this process runs with special rights (AT_SECURE)" : "");
    }
    text_put_json(stdout, findings.all, JSON_COMPACT);
    return fflush(stdout); /* before what cufence says at the end */
}

/* ---- the command ---- */

static int examine(int is_json)
{
    struct findings findings = {.is_json = is_json};
    check_preload(&findings); /* first: in exclusive mode there is room for one process */
    check_driver(&findings);
    check_system(&findings);
    check_python(&findings);
    findings_conclude(&findings);
    json_decref(findings.all);
    return findings.count[FOUND_MISSING] ? 1 : 0;
}

static const struct argument arguments[] = {{"json", NULL, "print one JSON document; see docs/doctor.md", .offset = 0}};

static int run(int argc, char **argv)
{
    int is_json = 0, status;
    if (argc == 2 && strcmp(argv[1], "--probe") == 0)
        return doctor_probe();
    return arguments_read(&doctor_command, argc, argv, &is_json, &status) ? examine(is_json) : status;
}

const struct command doctor_command = {
    .name = "doctor",
    .help = "check this machine's driver and permissions, and say what to fix",
    .run = run,
    ARGUMENTS(arguments),
    .about =
        "Says what this machine's driver and permissions allow, and what to do about each no. A NO in capitals is something "
        "that cufence needs. It asks the python3 on the PATH for PyTorch without importing it.",
    .examples = "Example: cufence doctor\n",
};
