/* `cufence demo`: plants one bug, lets a kernel run into it and checks that the report says so. */
#include "arguments.h"
#include "cli.h"
#include "settings.h"
#include "words.h"

#include "base/clock.h"
#include "driver/driver.h"
#include "base/env.h"
#include "base/error.h"
#include "base/options.h"
#include "sim/sim.h"

#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef CUFENCE_NO_KERNELS
enum { HAS_KERNELS = 0 };
static const unsigned char demo_fatbin[1]; /* the simulated device looks for no code in it */
#else
enum { HAS_KERNELS = 1 };
#include "kernels/demo.h"
#endif

enum { EXIT_FOUND = 0, EXIT_NOT_FOUND = 1 };
enum { COUNT = 1000, BLOCK = 128, BLUR_RADIUS = 20000 };
enum { REPORT_SECONDS = 5, RETIRE_SECONDS = 5 };

struct bug {
    const char *name;
    const char *kind; /* expected cufence_fault.kind */
    const char *kernel;
    const char *options;                                       /* the user's follow, and so win */
    const char *story;                                         /* what the kernel does wrong */
    const char *advice;                                        /* what to look at in the report */
    int (*launch)(const struct bug *bug, CUfunction function); /* returns EXIT_FOUND if launched, else after a message */
};

/* ---- the same kernels for the simulated device ---- */

static uint32_t thread_number(const cusim_thread *thread)
{
    return thread->block_index[0] * thread->block[0] + thread->thread_index[0];
}

/* Argument `index` of the launch. */
#define ARGUMENT(type, index) (*(type *)arguments[index])

static void sim_overrun(const cusim_thread *thread, void *const *arguments)
{
    const int *lengths = ARGUMENT(const int *, 0);
    int *offsets = ARGUMENT(int *, 1), rows = ARGUMENT(int, 3);
    float *blurred = ARGUMENT(float *, 2);
    int row = (int)thread_number(thread), end = 0;
    if (row >= rows)
        return;
    for (int i = 0; i <= row; i++)
        end += lengths[i];
    offsets[row + 1] = end;
    blurred[row] = (float)lengths[row];
}

static void sim_underrun(const cusim_thread *thread, void *const *arguments)
{
    const float *samples = ARGUMENT(const float *, 0);
    float *smooth = ARGUMENT(float *, 1);
    int count = ARGUMENT(int, 2), i = (int)thread_number(thread);
    if (i >= count)
        return;
    float left = samples[i - 1];
    float right = i + 1 < count ? samples[i + 1] : samples[i];
    smooth[i] = (left + samples[i] + right) / 3.0f;
}

static void sim_use_after_free(const cusim_thread *thread, void *const *arguments)
{
    const float *table = ARGUMENT(const float *, 0);
    const int *keys = ARGUMENT(const int *, 1);
    float *values = ARGUMENT(float *, 2);
    int count = ARGUMENT(int, 3), i = (int)thread_number(thread);
    if (i < count)
        values[i] = table[keys[i]];
}

/* Lines of the faults, marked "planted" in demo.cu; tests/sim/test_demo.c compares them. */
static const size_t overrun_arguments[] = {8, 8, 8, 4, 4};
static const size_t underrun_arguments[] = {8, 8, 4};
static const size_t free_arguments[] = {8, 8, 8, 4};
static const cusim_kernel sim_kernels[] = {
    {"demo_overrun", sim_overrun, overrun_arguments, 5, "demo.cu", 16, 4, 0, 0},
    {"demo_underrun", sim_underrun, underrun_arguments, 3, "demo.cu", 30, 4, 0, 0},
    {"demo_use_after_free", sim_use_after_free, free_arguments, 4, "demo.cu", 41, 4, 0, 0},
};

/* ---- what the fault handler saw ---- */

static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static pthread_cond_t seen_change = PTHREAD_COND_INITIALIZER;
static int seen;                             /* under seen_lock: whether a fault was reported */
static char seen_kind[64], seen_kernel[128]; /* under seen_lock: the first one */

static void on_fault(const cufence_fault *fault, void *user)
{
    (void)user;
    pthread_mutex_lock(&seen_lock);
    if (!seen) {
        seen = 1;
        snprintf(seen_kind, sizeof seen_kind, "%s", fault->kind);
        snprintf(seen_kernel, sizeof seen_kernel, "%s", fault->kernel ? fault->kernel : "");
        pthread_cond_signal(&seen_change);
    }
    pthread_mutex_unlock(&seen_lock);
}

static int wait_for_report(void)
{
    const struct timespec until = clock_after(CLOCK_REALTIME, REPORT_SECONDS * NS_PER_S);
    pthread_mutex_lock(&seen_lock);
    while (!seen && pthread_cond_timedwait(&seen_change, &seen_lock, &until) == 0)
        ;
    int reported = seen;
    pthread_mutex_unlock(&seen_lock);
    return reported;
}

/* ---- the bugs ---- */

#define complain(...) arguments_complain("demo", EXIT_NOT_FOUND, __VA_ARGS__)

static int complain_of(const char *what)
{
    return complain("%s: %s", what, cufence_error_detail());
}

/* Allocates a labelled buffer of COUNT elements and zeroes it. Returns NULL after a message. */
static void *make_buffer(const char *label, size_t element)
{
    void *pointer = NULL;
    cufence_label_push(label);
    cufence_status status = cufence_malloc(&pointer, COUNT * element, 0, NULL);
    cufence_label_pop();
    if (status == CUFENCE_OK)
        status =
            driver_check(driver->cuMemsetD8Async((CUdeviceptr)(uintptr_t)pointer, 0, COUNT * element, NULL), "cuMemsetD8Async");
    if (status != CUFENCE_OK) {
        complain_of("cannot make a buffer");
        return NULL;
    }
    return pointer;
}

static int launch(CUfunction function, void **arguments)
{
    CUresult result =
        driver->cuLaunchKernel(function, (COUNT + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL);
    return driver_check(result, "cuLaunchKernel") == CUFENCE_OK ? EXIT_FOUND : complain_of("cannot launch the kernel");
}

static int launch_overrun(const struct bug *bug, CUfunction function)
{
    (void)bug;
    void *lengths = make_buffer("row lengths", sizeof(int));
    void *offsets = make_buffer("row offsets", sizeof(int));
    void *blurred = make_buffer("blurred lengths", sizeof(float));
    int rows = COUNT, radius = BLUR_RADIUS;
    if (!lengths || !offsets || !blurred)
        return EXIT_NOT_FOUND;
    return launch(function, (void *[]){&lengths, &offsets, &blurred, &rows, &radius});
}

static int launch_underrun(const struct bug *bug, CUfunction function)
{
    (void)bug;
    void *samples = make_buffer("samples", sizeof(float));
    void *smooth = make_buffer("smoothed samples", sizeof(float));
    int count = COUNT;
    if (!samples || !smooth)
        return EXIT_NOT_FOUND;
    return launch(function, (void *[]){&samples, &smooth, &count});
}

/* Waits until the freed buffer is unmapped. A background thread does that once the stream has passed the free. */
static int is_retired(const void *pointer)
{
    const struct timespec millisecond = {0, 1000000};
    cufence_description what;
    for (int i = 0; i < RETIRE_SECONDS * 1000; i++) {
        if (cufence_describe(pointer, &what) == CUFENCE_OK && what.place == CUFENCE_PLACE_FREED && !what.buffer.is_mapped)
            return 1;
        nanosleep(&millisecond, NULL);
    }
    return 0;
}

static int launch_use_after_free(const struct bug *bug, CUfunction function)
{
    void *table = make_buffer("look-up table", sizeof(float));
    void *keys = make_buffer("keys", sizeof(int));
    void *values = make_buffer("values", sizeof(float));
    int count = COUNT;
    if (!table || !keys || !values)
        return EXIT_NOT_FOUND;
    if (cufence_free(table, NULL) != CUFENCE_OK)
        return complain_of("cannot free a buffer");
    driver->cuCtxSynchronize();
    if (!is_retired(table))
        return complain("the freed buffer is still mapped after %d s; %s needs uaf=strict", RETIRE_SECONDS, bug->name);
    return launch(function, (void *[]){&table, &keys, &values, &count});
}

static const struct bug bugs[] = {
    {"overrun", "overrun", "demo_overrun", "exitcode=0",
     "A kernel fills the row offsets of a sparse matrix with 1000 rows: 1001 numbers, in a buffer for 1000.",
     "Found. In the report above, see the address, 0 bytes past the end of \"row offsets\": the first byte behind that buffer; "
     "and the source line in demo.cu, where `row + 1` reaches 1000.",
     launch_overrun},
    {"underrun", "underrun", "demo_underrun", "exitcode=0,side=start",
     "A kernel averages each of 1000 samples with its neighbours and forgets that the first has none on its left. "
     "(side=start: the buffers begin flush with unmapped memory, instead of ending flush.)",
     "Found. In the report above, see the address, 4 bytes before the start of \"samples\"; and the source line in demo.cu, "
     "where `i - 1` is -1.",
     launch_underrun},
    {"use-after-free", "use-after-free", "demo_use_after_free", "exitcode=0,uaf=strict",
     "A program frees a look-up table and launches a kernel that reads it. "
     "(uaf=strict: a freed buffer is unmapped and its address is not given out again.)",
     "Found. In the report above, see the buffer: \"look-up table\" was freed before the kernel was launched.",
     launch_use_after_free},
};
enum { BUG_COUNT = sizeof bugs / sizeof *bugs };

/* ---- the device ---- */

static cufence_status open_device(void)
{
    int count = 0;
    cufence_status status = driver_load();
    if (status == CUFENCE_OK)
        status = driver_check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (status == CUFENCE_OK && count < 1)
        status =
            error_set(CUFENCE_ERROR_UNSUPPORTED, "the driver %s has no device; CUFENCE_DRIVER=sim simulates one", driver->path);
    return status;
}

static int simulate(const char *reason)
{
    printf("Runs on the simulated device: %s\n", reason);
    setenv("CUFENCE_DRIVER", "sim", 1);
    return open_device() == CUFENCE_OK ? EXIT_FOUND : complain_of("no simulated device");
}

/* Opens the driver that CUFENCE_DRIVER names, else the GPU's, else the simulated device. */
static int choose_device(void)
{
    const char *named = env_get("CUFENCE_DRIVER");
    if (named && *named) {
        if (open_device() != CUFENCE_OK)
            return complain("CUFENCE_DRIVER=%s: %s", named, cufence_error_detail());
        if (driver->is_sim)
            printf("Runs on the simulated device, as CUFENCE_DRIVER asks.\n");
        else if (!HAS_KERNELS)
            return complain("this cufence was built without nvcc, so it has no kernel for a GPU; set CUFENCE_DRIVER=sim");
        return EXIT_FOUND;
    }
    if (!HAS_KERNELS)
        return simulate("this cufence was built without nvcc, so it has no kernel for a GPU.");
    cufence_status status = open_device();
    if (status == CUFENCE_OK)
        return EXIT_FOUND;
    if (driver) /* a loaded driver stays, so the simulated one cannot replace it */
        return complain("%s", cufence_error_detail());
    return simulate(status == CUFENCE_ERROR_DRIVER_NOT_FOUND ? "no CUDA driver (libcuda.so.1) was found here."
                                                             : cufence_error_detail());
}

/* Loads the demo's kernels into the current context. */
static int find_kernel(const struct bug *bug, CUfunction *function)
{
    CUmodule module;
    if (driver->is_sim) {
        void (*register_kernel)(const cusim_kernel *) =
            (__typeof__(register_kernel))dlsym(driver->library, "cusim_register_kernel");
        for (size_t i = 0; i < sizeof sim_kernels / sizeof *sim_kernels; i++)
            register_kernel(&sim_kernels[i]);
    }
    if (driver_check(driver->cuModuleLoadData(&module, demo_fatbin), "cuModuleLoadData") != CUFENCE_OK ||
        driver_check(driver->cuModuleGetFunction(function, module, bug->kernel), "cuModuleGetFunction") != CUFENCE_OK)
        return complain_of("cannot load the demo's kernels");
    return EXIT_FOUND;
}

/* Makes the first device's primary context current. */
static int enter_context(void)
{
    CUdevice device;
    CUcontext context;
    char name[128] = "";
    if (driver_check(driver->cuDeviceGet(&device, 0), "cuDeviceGet") != CUFENCE_OK ||
        driver_check(driver->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain") != CUFENCE_OK ||
        driver_check(driver->cuCtxSetCurrent(context), "cuCtxSetCurrent") != CUFENCE_OK)
        return complain_of("cannot use device 0");
    if (!driver->is_sim && driver->cuDeviceGetName(name, sizeof name, device) == CUDA_SUCCESS)
        printf("Runs on GPU 0, %s.\n", name);
    return EXIT_FOUND;
}

static int judge(const struct bug *bug)
{
    if (!wait_for_report())
        return complain("the planted %s was not reported within %d s; `cufence doctor` may say why", bug->name, REPORT_SECONDS);
    cufence_wait_reports(REPORT_SECONDS * 1000);
    pthread_mutex_lock(&seen_lock);
    int is_right = strcmp(seen_kind, bug->kind) == 0 && strstr(seen_kernel, bug->kernel);
    pthread_mutex_unlock(&seen_lock);
    if (!is_right)
        return complain("the planted %s in %s was reported as \"%s\" in \"%s\"", bug->name, bug->kernel, seen_kind,
                        seen_kernel);
    putchar('\n');
    words_print(stdout, bug->advice, 0);
    return EXIT_FOUND;
}

static int run(const struct bug *bug, const char *options)
{
    CUfunction function = NULL;
    int status = choose_device();
    if (status != EXIT_FOUND)
        return status;
    cufence_set_fault_handler(on_fault, NULL);
    if (cufence_init(options) != CUFENCE_OK)
        return complain_of("cannot start");
    status = enter_context();
    if (status == EXIT_FOUND)
        status = find_kernel(bug, &function);
    if (status != EXIT_FOUND)
        return status;
    putchar('\n');
    words_print(stdout, bug->story, 0);
    putchar('\n');
    fflush(stdout); /* the report on stderr should follow this */
    status = bug->launch(bug, function);
    if (status != EXIT_FOUND)
        return status;
    driver->cuCtxSynchronize(); /* returns the planted fault */
    return judge(bug);
    /* The buffers are not freed: the context may have stopped, and process exit releases them. */
}

static int usage(void)
{
    printf("usage: cufence demo [overrun | underrun | use-after-free]\n"
           "                    [--set key=value[,key=value]]... [--KEY VALUE]...\n\n"
           "Plants that bug (overrun if none is named), runs a kernel into it and shows the\n"
           "report. Runs on GPU 0, or on the simulated device where there is no GPU or with\n"
           "CUFENCE_DRIVER=sim.\n\n"
           "  --KEY VALUE      an option that `cufence options` lists: --align auto\n"
           "  --set key=value  the same for several\n\n"
           "Example: cufence demo underrun\n\n"
           "Exit status: 0 if the bug was reported as what it is, 1 if not, 2 for a wrong\n"
           "command line.\n");
    return 0;
}

static const struct bug *bug_find(const char *name)
{
    for (size_t i = 0; i < BUG_COUNT; i++)
        if (strcmp(name, bugs[i].name) == 0)
            return &bugs[i];
    return NULL;
}

enum { SET, KNOWN };
static const struct argument known[KNOWN] = {
    [SET] = {"set", "uaf=strict", "options of the library, key=value,key=value", NULL}};
const struct arguments demo_arguments = {"demo", known, KNOWN, "overrun underrun use-after-free", .has_library = 1};

/* Returns the exit status. Sets *is_done if nothing is left to do: after an error, and after --help. */
static int read_arguments(int argc, char **argv, struct settings *settings, int *is_done)
{
    int option, status = 0;
    while (status == 0 && (option = arguments_next(&demo_arguments, argc, argv)) != ARGUMENTS_END) {
        if (option < 0) {
            *is_done = 1;
            return option == ARGUMENTS_HELP ? usage() : CLI_USAGE;
        }
        status = option == SET ? settings_add(settings, "--set", optarg)
                               : settings_take_row(settings, (size_t)option - KNOWN, optarg);
    }
    *is_done = status != 0;
    return status;
}

static int find_bug(int argc, char **argv, const struct bug **bug)
{
    *bug = optind < argc ? bug_find(argv[optind++]) : &bugs[0];
    if (!*bug)
        return arguments_complain("demo", CLI_USAGE, "unknown bug '%s'; allowed are overrun, underrun and use-after-free",
                                  argv[optind - 1]);
    return optind < argc ? arguments_surplus("demo", argv[optind]) : 0;
}

/* Runs a bug with its own options, followed by the user's. */
static int run_with(const struct bug *bug, const struct settings *settings)
{
    char *given = settings_text(settings), *options = NULL;
    struct options scratch;
    if (!given)
        return complain("no host memory");
    options_default(&scratch);
    int status = settings_check(settings, given, &scratch);
    if (status == 0 && asprintf(&options, "%s%s%s", bug->options, *given ? "," : "", given) < 0) {
        options = NULL;
        status = complain("no host memory");
    } else if (status == 0)
        status = run(bug, options);
    free(options);
    free(given);
    return status;
}

int cli_demo(int argc, char **argv)
{
    struct settings settings = {.command = "demo"};
    const struct bug *bug = NULL;
    int is_done, status = read_arguments(argc, argv, &settings, &is_done);
    if (!is_done)
        status = find_bug(argc, argv, &bug);
    if (!is_done && status == 0)
        status = run_with(bug, &settings);
    settings_free(&settings);
    return status;
}
