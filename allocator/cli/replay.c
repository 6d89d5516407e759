/* `cufence replay`: launches a saved kernel again, as it faulted. */
#include "replay.h"
#include "command_line.h"
#include "program.h"

#include "analysis/lines/fatbin.h"
#include "base/env.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "driver/driver.h"

#include <dirent.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AROUND ((uint64_t)64 << 30) /* the largest guard */

#define complain(...) arguments_complain("replay", 0, __VA_ARGS__)
#define SIMULATED "cufence simulated device" /* its cuDeviceGetName() */

/* ---- the folder ---- */

enum { MOST_LISTED = 20 };

static int is_bundle_in(const char *folder, const char *name, char path[PATH_MAX])
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX &&
           bundle_is(path, 1);
}

/* "  faults/fault-42-1  row_sums", names that a stranger may have made. */
static void list_bundle(const char *folder, const char *name)
{
    char path[PATH_MAX], kernel[128] = "";
    if (is_bundle_in(folder, name, path))
        bundle_kernel(path, kernel, sizeof kernel);
    text_put_line(stderr, "  %s%s%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name, kernel[0] ? "  " : "",
                  kernel);
}

/* Keeps the names of bundles, and returns how many there are. */
static int keep_bundles(const char *folder, struct dirent **entries, int count)
{
    int kept = 0;
    char path[PATH_MAX];
    for (int i = 0; i < count; i++)
        if (is_bundle_in(folder, entries[i]->d_name, path))
            entries[kept++] = entries[i];
        else
            free(entries[i]);
    return kept;
}

/* Gets the folder of the bundle that `given` means: itself, or the only one in it. Returns 0, or the exit status after a
 * message that lists those in it. */
static int choose(const char *given, char path[PATH_MAX])
{
    struct dirent **entries = NULL;
    int status = 0, found = bundle_is(given, 1) ? 0 : scandir(given, &entries, NULL, versionsort);
    int count = found > 0 ? keep_bundles(given, entries, found) : 0;
    snprintf(path, PATH_MAX, "%s", given);
    if (count == 1 && is_bundle_in(given, entries[0]->d_name, path))
        complain("using the only saved launch in %s", given);
    if (count > 1) {
        status = arguments_complain("replay", STATUS_USAGE, "%s holds %d saved launches; name one of them:", given, count);
        for (int i = 0; i < count && i < MOST_LISTED; i++)
            list_bundle(given, entries[i]->d_name);
        if (count > MOST_LISTED)
            fprintf(stderr, "  and %d more\n", count - MOST_LISTED);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return status;
}

/* ---- the GPU ---- */

/* Code for 9.0 runs on 9.x. Code that is for 9.0 alone (sm_90a) the driver refuses elsewhere. */
static int is_fit(uint32_t compute, uint32_t wanted)
{
    return compute / 10 == wanted / 10 && compute >= wanted;
}

/* Returns 0 after a message. */
static int use_device(struct replay *replay, int number, CUdevice device)
{
    CUuuid uuid;
    size_t total = 0;
    if (!driver->cuDeviceGetUuid || driver->cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS)
        return complain("%s: the driver is too old", replay->folder);
    memcpy(replay->input.device, uuid.bytes, sizeof replay->input.device);
    replay->device = number;
    driver->cuDeviceTotalMem(&total, device);
    if (replay->reader.mapped <= total)
        return 1;
    return complain("%s: its buffers need %" PRIu64 " MiB, but the GPU has %zu MiB", replay->folder,
                    replay->reader.mapped >> 20, total >> 20);
}

/* Takes the first GPU that fits. Returns 0 after a message. */
static int find_device(struct replay *replay)
{
    uint32_t wanted = replay->reader.bundle->compute, seen = 0;
    int count = 0;
    const char *named = env_get("CUFENCE_DRIVER");
    if (!strcmp(replay->reader.bundle->device_name, SIMULATED) && (!named || !*named))
        setenv("CUFENCE_DRIVER", "sim", 1); /* no GPU has its kernels */
    if (driver_load() != CUFENCE_OK)
        return complain("%s: %s", replay->folder, error_detail());
    driver->cuDeviceGetCount(&count);
    for (int i = 0; i < count; i++) {
        CUdevice device;
        if (driver->cuDeviceGet(&device, i) != CUDA_SUCCESS)
            continue;
        seen = replay->compute = driver_describe(i, replay->device_name, sizeof replay->device_name);
        if (is_fit(seen, wanted))
            return use_device(replay, i, device);
    }
    return complain("%s: the kernel is compiled for compute capability %u.%u (%.128s), but the GPU here has %u.%u",
                    replay->folder, wanted / 10, wanted % 10, replay->reader.bundle->device_name, seen / 10, seen % 10);
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
    input->bundle.arena_start = is_near_start ? bundle->arena_start : (first - AROUND) / REPLAY_UNIT * REPLAY_UNIT;
    input->bundle.arena_end = is_near_end ? bundle->arena_end : (last + AROUND + REPLAY_PAGE - 1) / REPLAY_PAGE * REPLAY_PAGE;
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
    struct span file = {replay->reader.image.at, replay->reader.image.size};
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
    const struct bundle_reader *reader = &replay->reader;
    if (!installed_program(replay->program))
        return complain("%s: /proc is not mounted", replay->folder);
    take_image(replay);
    replay->input.bundle = *reader->bundle;
    if (reader->facts)
        rerun_input_describe(&replay->input, reader->bundle->launches, &reader->facts->memory);
    set_arena(&replay->input, reader->bundle);
    return 1;
}

static void tell_left_out(const struct replay *replay)
{
    const struct bundle *bundle = replay->reader.bundle;
    for (size_t i = 0; i < bundle->pinned_count; i++)
        if (!bundle->pinned[i].file[0])
            complain("pinned host memory at 0x%" PRIx64 " (%" PRIu64 " bytes) is not in the bundle: it holds zeros",
                     bundle->pinned[i].address, bundle->pinned[i].size);
    for (size_t i = 0; i < bundle->buffer_count; i++)
        if (!bundle->buffers[i].file[0])
            complain("buffer #%" PRIu64 " (%" PRIu64 " bytes) is not in the bundle: it holds zeros", bundle->buffers[i].id,
                     bundle->buffers[i].size);
}

/* ---- the command ---- */

/* The exit status after a fault: that of the option on_fault. */
static int fault_status(void)
{
    struct options options;
    options_default(&options);
    options_parse(&options, env_get("CUFENCE_OPTIONS"), "CUFENCE_OPTIONS");
    return (int)options.exitcode;
}

static void print_runs(const struct replay *replay, uint64_t faulted, uint64_t equal)
{
    const uint64_t times = replay->times;
    int has_outputs = replay->reader.bundle->has_outputs;
    if (replay->is_json)
        return;
    if (times > 1)
        printf("cufence replay: faulted in %" PRIu64 " of %" PRIu64 " runs\n", faulted, times);
    else if (!faulted && !has_outputs)
        printf("cufence replay: the launch did not fault\n");
    if (times > 1 && has_outputs && faulted < times)
        printf("cufence replay: outputs equal in %" PRIu64 " of %" PRIu64 " runs that ended well\n", equal, times - faulted);
}

/* Of several runs, the first that faults and the first whose outputs differ are described, or the last. Returns the exit
 * status; -1: one faults. */
static int run_times(struct replay *replay)
{
    const uint64_t times = replay->times;
    uint64_t faulted = 0, different = 0, equal = 0;
    for (uint64_t i = 0; i < times; i++) {
        enum replay_outcome outcome = replay_once(replay, !faulted);
        if (outcome == REPLAY_FAILED)
            return 1;
        int differs = outcome == REPLAY_QUIET && replay->comparison.different;
        faulted += outcome == REPLAY_FAULTED;
        different += (uint64_t)differs;
        equal += outcome == REPLAY_QUIET && !differs && !replay->comparison.unread;
        if (outcome == REPLAY_QUIET && ((differs && different == 1) || (!different && i + 1 == times)))
            compare_tell(replay);
    }
    print_runs(replay, faulted, equal);
    return faulted ? -1 : different ? REPLAY_DIFFERS : equal < times;
}

static const struct argument arguments[] = {
    {"times", "N", "N launches, and how many of them faulted", offsetof(struct replay, times), arguments_number,
     .most = 1000000},
    {"seconds", "N", "max seconds for a launch, 60 by default", offsetof(struct replay, seconds), arguments_number,
     .most = 86400},
    {"json", NULL, "the report as one line of JSON; see docs/json.md", .offset = offsetof(struct replay, is_json)},
    {"verbose", NULL, "print also what the launching process prints", .offset = offsetof(struct replay, is_verbose)},
};

static int play(struct replay *replay)
{
    struct problem problem;
    if (bundle_open(replay->folder, &replay->reader, &problem) != CUFENCE_OK ||
        bundle_open_launch(&replay->reader, &problem) != CUFENCE_OK)
        return arguments_complain("replay", 1, "%s: %s", replay->folder, problem.text);
    if (!find_device(replay) || !make_input(replay))
        return 1;
    tell_left_out(replay);
    int status = run_times(replay);
    return status < 0 ? fault_status() : status;
}

static int run(int argc, char **argv)
{
    static struct replay replay = {.reader = {.folder = -1}, .times = 1, .seconds = 60};
    int status;
    if (!arguments_read(&replay_command, argc, argv, &replay, &status))
        return status;
    status = choose(argv[optind], replay.folder) ?: play(&replay);
    free(replay.image);
    bundle_close(&replay.reader);
    return status;
}

const struct command replay_command = {
    .name = "replay",
    .help = "launch a saved kernel again as it faulted, on any GPU of its kind",
    .run = run,
    ARGUMENTS(arguments),
    .operands = "FOLDER",
    .least = 1,
    .most = 1,
    .missing = "no folder given; keep=FOLDER makes one, and save_values=KERNEL=FOLDER (see docs/replay.md)",
    .about = "Launches a kernel again, on any GPU of the same kind, with the same arguments and the same memory at the same "
             "addresses, and reports. keep=FOLDER saves a kernel that faults; save_values=KERNEL=FOLDER one that does not, and "
             "then what it writes is compared to what it wrote then. If FOLDER holds one saved launch, that is taken; if "
             "several, they are listed. docs/replay.md says more.",
    .examples = "Example: cufence replay --times 20 faults/fault-4242-1\n",
};
