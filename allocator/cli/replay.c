/* `cufence replay`: launches a saved kernel again, as it faulted. */
#include "replay.h"

#include "analysis/lines/fatbin.h"
#include "base/env.h"
#include "base/error.h"
#include "base/options.h"
#include "cli.h"
#include "statuses.h"
#include "driver/driver.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AROUND ((uint64_t)64 << 30) /* the largest guard */

#define SIMULATED "cufence simulated device" /* its cuDeviceGetName() */

enum { MOST_CHANGES = 64 };

/* ---- the GPU ---- */

static uint32_t compute_of(CUdevice device)
{
    int major = 0, minor = 0;
    driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    return (uint32_t)(major * 10 + minor);
}

/* Code for 9.0 runs on 9.x. Code that is for 9.0 alone (sm_90a) the driver refuses elsewhere. */
static int is_fit(uint32_t compute, uint32_t wanted)
{
    return compute / 10 == wanted / 10 && compute >= wanted;
}

static int complain(const struct replay *replay, const char *why)
{
    fprintf(stderr, "cufence replay: %s: %s\n", replay->folder, why);
    return 0;
}

/* Returns 0 after a message. */
static int use_device(struct replay *replay, int number, CUdevice device)
{
    CUuuid uuid;
    size_t total = 0;
    char text[160];
    if (!driver->cuDeviceGetUuid || driver->cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS)
        return complain(replay, "the driver is too old");
    memcpy(replay->input.device, uuid.bytes, sizeof replay->input.device);
    replay->device = number;
    driver->cuDeviceGetName(replay->device_name, sizeof replay->device_name, device);
    driver->cuDeviceTotalMem(&total, device);
    if (replay->opened.mapped <= total)
        return 1;
    snprintf(text, sizeof text, "its buffers need %" PRIu64 " MiB, but the GPU has %zu MiB", replay->opened.mapped >> 20,
             total >> 20);
    return complain(replay, text);
}

/* Takes the first GPU that fits. Returns 0 after a message. */
static int find_device(struct replay *replay)
{
    uint32_t wanted = replay->opened.bundle->compute, seen = 0;
    int count = 0;
    char text[320];
    const char *named = env_get("CUFENCE_DRIVER");
    if (!strcmp(replay->opened.bundle->device_name, SIMULATED) && (!named || !*named))
        setenv("CUFENCE_DRIVER", "sim", 1); /* no GPU has its kernels */
    if (driver_load() != CUFENCE_OK)
        return complain(replay, error_detail());
    driver->cuDeviceGetCount(&count);
    for (int i = 0; i < count; i++) {
        CUdevice device;
        if (driver->cuDeviceGet(&device, i) != CUDA_SUCCESS)
            continue;
        seen = replay->compute = compute_of(device);
        if (is_fit(seen, wanted))
            return use_device(replay, i, device);
    }
    snprintf(text, sizeof text, "the kernel is compiled for compute capability %u.%u (%.128s), but the GPU here has %u.%u",
             wanted / 10, wanted % 10, replay->opened.bundle->device_name, seen / 10, seen % 10);
    return complain(replay, text);
}

/* ---- the input ---- */

/* Of the program's address space only what lies around the buffers is reserved: elsewhere this machine's driver may have
 * something of its own. */
static void set_arena(struct rerun_input *input, const struct bundle *bundle)
{
    uint64_t first = bundle->arena_end, last = bundle->arena_start;
    for (size_t i = 0; i < bundle->buffer_count; i++) {
        first = bundle->buffers[i].mapping_start < first ? bundle->buffers[i].mapping_start : first;
        last = bundle->buffers[i].mapping_end > last ? bundle->buffers[i].mapping_end : last;
    }
    int is_near_start = first > last || first - bundle->arena_start <= AROUND;
    int is_near_end = first > last || bundle->arena_end - last <= AROUND;
    input->arena_start = is_near_start ? bundle->arena_start : (first - AROUND) / REPLAY_UNIT * REPLAY_UNIT;
    input->arena_end = is_near_end ? bundle->arena_end : (last + AROUND + REPLAY_PAGE - 1) / REPLAY_PAGE * REPLAY_PAGE;
}

static void take_pinned(struct rerun_input *input, const struct bundle *bundle)
{
    for (size_t i = 0; i < bundle->pinned_count; i++)
        input->pinned[i] = (struct rerun_range){bundle->pinned[i].address, bundle->pinned[i].size};
    input->pinned_count = bundle->pinned_count;
}

/* Returns the cubin of a fat binary that the driver would take for the kernel: the newest one that fits. Returns 0 if there is
 * none, or several of an architecture (sm_90 and sm_90a). */
static int find_cubin(struct span file, const struct replay *replay, struct fatbin_image *found)
{
    struct fatbin_image image;
    uint64_t at = 0;
    int count = 0;
    if (file.size < FATBIN_HEADER || !fatbin_size(file.bytes))
        return 0;
    while (fatbin_next(file, &at, &image) == 1) {
        if (image.kind != FATBIN_CUBIN || !is_fit(replay->compute, image.sm) || (count && image.sm < found->sm))
            continue;
        count = count && image.sm == found->sm ? 2 : 1;
        *found = image;
    }
    return count == 1;
}

/* Takes the module, or its cubin for this GPU, in which barriers can be put. */
static void take_image(struct replay *replay)
{
    struct span file = {replay->opened.image.at, replay->opened.image.size};
    struct fatbin_image cubin;
    replay->input.image = file.bytes;
    replay->input.image_bytes = file.size;
    if (!find_cubin(file, replay, &cubin))
        return;
    replay->image = malloc(cubin.size);
    if (!replay->image || !fatbin_unpack(&cubin, replay->image))
        return;
    replay->input.image = replay->image;
    replay->input.image_bytes = cubin.size;
}

static int make_input(struct replay *replay)
{
    const struct opened *opened = &replay->opened;
    if (readlink("/proc/self/exe", replay->program, sizeof replay->program - 1) <= 0)
        return complain(replay, "/proc is not mounted");
    take_image(replay);
    replay->input.symbol = opened->bundle->symbol;
    if (opened->snapshot)
        rerun_input_describe(&replay->input, opened->launches, &opened->snapshot->memory);
    set_arena(&replay->input, opened->bundle);
    take_pinned(&replay->input, opened->bundle);
    replay->input.launches = opened->launches;
    replay->input.is_compared = (uint32_t)opened->bundle->has_outputs;
    replay->input.launch_count = opened->bundle->launch_count;
    return 1;
}

static void tell_left_out(const struct replay *replay)
{
    const struct bundle *bundle = replay->opened.bundle;
    for (size_t i = 0; i < bundle->pinned_count; i++)
        if (!bundle->pinned[i].file[0])
            fprintf(stderr,
                    "cufence replay: pinned host memory at 0x%" PRIx64 " (%" PRIu64
                    " bytes) is not in the bundle: it holds zeros\n",
                    bundle->pinned[i].address, bundle->pinned[i].size);
    for (size_t i = 0; i < bundle->buffer_count; i++)
        if (!bundle->buffers[i].file[0])
            fprintf(stderr, "cufence replay: buffer #%" PRIu64 " (%" PRIu64 " bytes) is not in the bundle: it holds zeros\n",
                    bundle->buffers[i].id, bundle->buffers[i].size);
}

/* ---- the command ---- */

struct changes {
    const char *text[MOST_CHANGES];
    int is_buffer[MOST_CHANGES];
    size_t count;
};

/* Returns 0 after a message. */
static int apply(struct replay *replay, const struct changes *changes)
{
    struct problem problem;
    for (size_t i = 0; i < changes->count; i++) {
        cufence_status status =
            (changes->is_buffer[i] ? opened_set_buffer : opened_set_argument)(&replay->opened, changes->text[i], &problem);
        if (status != CUFENCE_OK) {
            fprintf(stderr, "cufence replay: --%s %s: %s\n", changes->is_buffer[i] ? "buffer" : "set-arg", changes->text[i],
                    problem.text);
            return 0;
        }
    }
    return 1;
}

/* The exit status after a fault: that of the option exitcode. */
static int fault_status(void)
{
    struct options options;
    options_default(&options);
    options_parse(&options, env_get("CUFENCE_OPTIONS"), "CUFENCE_OPTIONS");
    return (int)options.exitcode;
}

static void print_runs(const struct replay *replay, uint64_t times, uint64_t faulted, uint64_t different)
{
    int has_outputs = replay->opened.bundle->has_outputs;
    if (replay->is_json)
        return;
    if (times > 1)
        printf("cufence replay: faulted in %" PRIu64 " of %" PRIu64 " runs\n", faulted, times);
    else if (!faulted && !has_outputs)
        printf("cufence replay: the launch did not fault\n");
    if (times > 1 && has_outputs && faulted < times)
        printf("cufence replay: outputs equal in %" PRIu64 " of %" PRIu64 " runs that ended well\n",
               times - faulted - different, times - faulted);
}

/* Of several runs, the first that faults and the first whose outputs differ are described, or the last. */
static int run_times(struct replay *replay, uint64_t times)
{
    uint64_t faulted = 0, different = 0;
    for (uint64_t i = 0; i < times; i++) {
        enum replay_outcome outcome = replay_once(replay, !faulted);
        if (outcome == REPLAY_FAILED)
            return 1;
        int differs = outcome == REPLAY_QUIET && replay->comparison.different;
        faulted += outcome == REPLAY_FAULTED;
        different += (uint64_t)differs;
        if (outcome == REPLAY_QUIET && ((differs && different == 1) || (!different && i + 1 == times)))
            compare_tell(replay);
    }
    print_runs(replay, times, faulted, different);
    return faulted ? fault_status() : different ? REPLAY_DIFFERS : 0;
}

static int usage(void)
{
    printf("usage: cufence replay [--times N] [--no-guards] [--set-arg K=VALUE]\n"
           "                      [--buffer K=FILE.npy] [--under TOOL] [--seconds N]\n"
           "                      [--json] [--verbose] FOLDER\n\n"
           "Launches a kernel again, on any GPU of the same kind, with the same arguments\n"
           "and the same memory at the same addresses, and reports. keep=FOLDER saves a\n"
           "kernel that faults; save_values=KERNEL=FOLDER one that does not, and then what\n"
           "it writes is compared to what it wrote then. If FOLDER holds one saved launch,\n"
           "that is taken; if several, they are listed. `cufence docs replay` says more.\n\n"
           "  --times N            N launches, and how many of them faulted\n"
           "  --no-guards          with memory after the buffers, as without cufence\n"
           "  --set-arg K=VALUE    another value of argument K, from 0: 999, -1, 0x3e7,\n"
           "                       1.5f (float), 1.5d (double)\n"
           "  --buffer K=FILE.npy  other bytes in the buffer that argument K points to\n"
           "  --under TOOL         one launch under a tool, such as compute-sanitizer or\n"
           "                       cuda-gdb\n"
           "  --seconds N          max seconds for a launch, 60 by default\n"
           "  --json               the report as one line of JSON (`cufence docs json`)\n"
           "  --verbose            print also what the launching process prints\n\n"
           "Example: cufence replay --set-arg 1=999 faults/fault-4242-1\n");
    statuses_print("replay");
    return 0;
}

enum { TIMES, NO_GUARDS, SET_ARG, BUFFER, UNDER, SECONDS, JSON, VERBOSE, KNOWN };
static const struct argument known[KNOWN] = {
    [TIMES] = {"times", "20", "launches, and how many of them faulted", NULL},
    [NO_GUARDS] = {"no-guards", NULL, "with memory after the buffers", NULL},
    [SET_ARG] = {"set-arg", "1=999", "another value of an argument", NULL},
    [BUFFER] = {"buffer", "0=values.npy", "other bytes in an argument's buffer", NULL},
    [UNDER] = {"under", "compute-sanitizer", "one launch under a tool", "compute-sanitizer cuda-gdb"},
    [SECONDS] = {"seconds", "60", "max seconds for a launch", NULL},
    [JSON] = {"json", NULL, "the report as one line of JSON", NULL},
    [VERBOSE] = {"verbose", NULL, "what the launching process prints", NULL},
};
const struct arguments replay_arguments = {"replay", known, KNOWN, ARGUMENT_FOLDER, 0, 0};

/* Returns 0 after a message unless it is a number from 1 to `most`. */
static int parse_number(const char *name, const char *text, uint64_t most, uint64_t *number)
{
    char *end = NULL;
    errno = 0;
    *number = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (end && !*end && !errno && *number >= 1 && *number <= most)
        return 1;
    arguments_complain("replay", CLI_USAGE, "--%s '%s' is not allowed; use 1..%" PRIu64, name, text, most);
    return 0;
}

struct wishes {
    uint64_t times;
    const char *under; /* NULL: none */
    struct changes changes;
};

/* Returns 0 after a message. */
static int take_option(int option, struct wishes *wishes, struct replay *replay)
{
    switch (option) {
    case TIMES:
        return parse_number("times", optarg, 1000000, &wishes->times);
    case SECONDS:
        return parse_number("seconds", optarg, 86400, &replay->seconds);
    case NO_GUARDS:
        replay->input.mode = RERUN_ZEROS;
        return 1;
    case UNDER:
        wishes->under = optarg;
        return 1;
    case JSON:
        replay->is_json = 1;
        return 1;
    case VERBOSE:
        replay->is_verbose = !optarg || strcmp(optarg, "on") == 0;
        return 1;
    default: /* SET_ARG, BUFFER */
        if (wishes->changes.count == MOST_CHANGES)
            return !arguments_complain("replay", CLI_USAGE, "at most %d arguments and buffers can be changed", MOST_CHANGES);
        wishes->changes.text[wishes->changes.count] = optarg;
        wishes->changes.is_buffer[wishes->changes.count++] = option == BUFFER;
        return 1;
    }
}

static int play(struct replay *replay, const struct wishes *wishes)
{
    struct problem problem;
    if (opened_open(replay->folder, &replay->opened, &problem) != CUFENCE_OK)
        return arguments_complain("replay", 1, "%s: %s", replay->folder, problem.text);
    if (!apply(replay, &wishes->changes))
        return CLI_USAGE;
    if (!find_device(replay) || !make_input(replay))
        return 1;
    tell_left_out(replay);
    if (!wishes->under)
        return run_times(replay, wishes->times);
    int status = replay_under(replay, wishes->under);
    return status < 0 ? fault_status() : status;
}

int cli_replay(int argc, char **argv)
{
    static struct replay replay = {.opened = {.folder = -1, .buffers = -1}, .seconds = 60};
    struct wishes wishes = {.times = 1};
    char folder[PATH_MAX];
    int option;
    while ((option = arguments_next(&replay_arguments, argc, argv)) != ARGUMENTS_END) {
        if (option == ARGUMENTS_HELP)
            return usage();
        if (option == ARGUMENTS_WRONG || !take_option(option, &wishes, &replay))
            return CLI_USAGE;
    }
    if (optind == argc)
        return arguments_complain(
            "replay", CLI_USAGE,
            "no folder given; keep=FOLDER makes one, and save_values=KERNEL=FOLDER (`cufence docs replay`)");
    if (optind + 1 < argc)
        return arguments_surplus("replay", argv[optind + 1]);
    int status = replay_choose(argv[optind], folder);
    replay.folder = folder;
    if (status == 0)
        status = play(&replay, &wishes);
    free(replay.image);
    opened_close(&replay.opened);
    return status;
}
