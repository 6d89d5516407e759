/* `cufence demo`: plays a program with one planted bug under `cufence run`, and checks that the bug is reported as what it is.
 */
#include "command_line.h"
#include "program.h"
#include "findings_file.h"
#include "demo_bugs.h"
#include "environment.h"
#include "settings.h"

#include "base/files.h"
#include "base/env.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "driver/driver.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_FOUND = 0, EXIT_NOT_FOUND = 1 };

#define SIM_OPTIONS "wait_ms=1000/60000," /* a busy machine is slow to start two processes of the simulated device */

#define complain(...) arguments_complain("demo", EXIT_NOT_FOUND, __VA_ARGS__)

struct bug {
    const char *name;
    const char *kind;    /* of the finding: docs/report.md */
    const char *also;    /* its kind with other options, NULL: none */
    const char *kernel;  /* what its name holds; NULL: the finding has none */
    const char *options; /* the user's follow, and so win */
    const char *teaches; /* for --list */
    const char *story;   /* what is wrong */
    const char *advice;  /* what to look at in the report */
    const char *own;     /* how to look for such bugs in a program of one's own */
};

static const struct bug bugs[] = {
    {"overrun", "overrun", "slack write", "demo_overrun", "explain=rerun",
     "A write past the end of a buffer faults at the access itself.",
     "A kernel fills the row offsets of a sparse matrix with 1000 rows: 1001 numbers, in a buffer for 1000.",
     "Found. In the report, see the address, 0 bytes past the end of \"row offsets\": the first byte after that buffer; the "
     "source line in demo.cu, where `row + 1` reaches 1000; and, if the kernel could be launched again, the value that it "
     "writes there.",
     "cufence run -- PROGRAM"},
    {"underrun", "underrun", NULL, "demo_underrun", "explain=rerun,side=start",
     "With side=start, a read before the start of a buffer faults too.",
     "A kernel averages each of 1000 samples with its neighbours and forgets that the first has none on its left. "
     "(side=start: the buffers begin flush with unmapped memory, instead of ending flush.)",
     "Found. In the report, see the address, 4 bytes before the start of \"samples\"; and the source line in demo.cu, "
     "where `i - 1` is -1.",
     "cufence run --side start -- PROGRAM"},
    {"use-after-free", "use-after-free", NULL, "demo_use_after_free", "explain=rerun,uaf=strict",
     "With uaf=strict, freed memory faults, and the report says who freed it.",
     "A program frees a look-up table and launches a kernel that reads it. "
     "(uaf=strict: a freed buffer is unmapped and its address is not given out again.)",
     "Found. In the report, see the buffer: \"look-up table\" was freed before the kernel was launched, and where.",
     "cufence run --uaf strict -- PROGRAM"},
    {"slack-write", "slack write", "overrun", NULL, "slack=on",
     "Bytes after the end that cannot be unmapped are checked for writes.",
     "A kernel copies a text of 1001 letters and ends it with a NUL: byte 1001 of a buffer of 1001 bytes. Buffers are aligned "
     "to 16 bytes, so 7 more bytes are mapped after its end, and the write does not fault. They hold a pattern, which a small "
     "kernel checks.",
     "Found, without a fault. In the report, see which bytes changed, and the launches that may have written them. "
     "With --align auto the buffer ends flush with unmapped memory, and the write faults.",
     "cufence run --align auto -- PROGRAM"},
    {"stream-race", "stream race", NULL, NULL, "streams=on",
     "With streams=on, a buffer that is freed too early on another stream is found.",
     "A program launches a kernel on one stream and frees the kernel's input on another, without an event between the two. The "
     "memory may be handed out again while the kernel still reads it. (streams=on: cufence follows what orders the streams.)",
     "Found. In the report, see who frees \"samples\", and the launch that may still use it. The order of the calls tells; "
     "whether the kernel was late in this run makes no difference.",
     "cufence run --streams on -- PROGRAM"},
    {"first-nan", "first NaN", NULL, "demo_first_nan", "nan=report",
     "With nan=report, the launch that makes the first NaN is named.",
     "A kernel computes the sign of each sample as x / |x|. One sample is 0. "
     "(nan=report: what launches read and write is searched for NaN.)",
     "Found. In the report, see the kernel and the element: 417, whose sample is 0; and that the inputs had no NaN.",
     "cufence run --nan report -- PROGRAM"},
    {"graph", "use-after-free", NULL, "demo_use_after_free", "explain=rerun,uaf=strict",
     "A CUDA graph that is replayed with a freed buffer faults, too.",
     "A program captures a kernel into a CUDA graph and replays it. Then it frees the look-up table that the kernel reads, and "
     "replays the graph again: the address of the table is still in the graph.",
     "Found. In the report, see the kernel in the graph, and \"look-up table\", which was freed after the capture.",
     "cufence run --uaf strict -- PROGRAM"},
};
enum { BUG_COUNT = sizeof bugs / sizeof *bugs };

/* ---- the device ---- */

static int simulate(const char *reason)
{
    printf("Runs on the simulated device: %s\n", reason);
    setenv("CUFENCE_DRIVER", "sim", 1);
    return driver_load() == CUFENCE_OK ? EXIT_FOUND : complain("no simulated device: %s", error_detail());
}

#define NO_KERNELS "this cufence was built without nvcc, so it has no kernel for a GPU"

/* Opens the driver that CUFENCE_DRIVER names, else the GPU's, else the simulated device. */
static int choose_device(void)
{
    const char *named = env_get("CUFENCE_DRIVER");
    int is_named = named && *named;
    CUdevice device;
    char name[128];
    if (!is_named && !planted_has_kernels)
        return simulate(NO_KERNELS ".");
    cufence_status status = driver_load();
    if (status != CUFENCE_OK && is_named)
        return complain("CUFENCE_DRIVER=%s: %s", named, error_detail());
    if (status != CUFENCE_OK)
        return simulate(status == CUFENCE_ERROR_DRIVER_NOT_FOUND ? "no CUDA driver (libcuda.so.1) was found here."
                                                                 : error_detail());
    if (!driver->is_sim && !planted_has_kernels)
        return complain(NO_KERNELS "; set CUFENCE_DRIVER=sim");
    if (driver->is_sim)
        printf("Runs on the simulated device, as CUFENCE_DRIVER asks.\n");
    else if (driver->cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
             driver->cuDeviceGetName(name, sizeof name, device) == CUDA_SUCCESS)
        printf("Runs on GPU 0, %s.\n", name);
    return EXIT_FOUND;
}

/* ---- the planted program ---- */

struct play {
    const struct bug *bug;
    char *options;          /* the bug's and the user's */
    struct options parsed;  /* the user's, of the environment too */
    char reports[PATH_MAX]; /* a file for findings */
    char program[PATH_MAX]; /* this program */
    pid_t pid;              /* of the planted one */
};

/* In the new process: becomes the program, as `cufence run` does. */
static int become(void *argument)
{
    const struct play *play = argument;
    char *more = NULL;
    if (asprintf(&more, "%son_fault=/0,%s", driver->is_sim ? SIM_OPTIONS : "", play->options) < 0 ||
        environment_collect(play->reports) != CUFENCE_OK)
        return complain("no host memory");
    char *argv[] = {(char *)"run",
                    (char *)"--set",
                    more,
                    (char *)"--",
                    (char *)(uintptr_t)play->program,
                    (char *)"planted",
                    (char *)(uintptr_t)play->bug->name,
                    (char *)(uintptr_t)driver->path,
                    NULL};
    return cli_run((int)(sizeof argv / sizeof *argv) - 1, argv);
}

/* The source of the kernels, which has a name without a folder in their line tables. */
static void show_sources(const char *program)
{
    static const char *const folders[] = {"../", "../share/cufence/", "../../allocator/cli/"};
    char path[PATH_MAX];
    if (!installation_find(program, folders, sizeof folders / sizeof *folders, "demo.cu", path))
        return;
    *strrchr(path, '/') = '\0';
    setenv("CUFENCE_SOURCES", path, 0);
}

/* ---- what it reported ---- */

/* Whether the finding is about the planted bug: of that kind, if one is given. */
static int is_planted(const struct play *play, const struct finding *finding, const char *wanted)
{
    const char *kernel = finding->by && finding->by->kernel ? finding->by->kernel : finding->where.stop.kernel;
    return wanted && !strcmp(finding->kind, wanted) && (!play->bug->kernel || !kernel || strstr(kernel, play->bug->kernel));
}

/* Returns EXIT_FOUND if the bug was reported correctly. */
static int judge(const struct play *play)
{
    struct collected collected = {0};
    const struct bug *bug = play->bug;
    const char *said = NULL, *other = NULL;
    int status = EXIT_FOUND;
    collected_read(&collected, NULL, play->reports);
    for (size_t i = 0; i < collected.count && said != bug->advice; i++) {
        const struct finding *finding = collected.findings[i].facts;
        if (is_planted(play, finding, bug->kind))
            said = bug->advice;
        else if (is_planted(play, finding, bug->also))
            said = "Found, in the way that these options allow.";
        other = finding->kind;
    }
    if (said) {
        putchar('\n');
        words_print(stdout, said, 0);
    } else if (other) {
        status = complain("the planted bug (%s) was reported as: %s", bug->name, other);
    } else {
        status = complain("the planted bug (%s) was not reported; `cufence doctor` may say why", bug->name);
    }
    collected_free(&collected);
    return status;
}

/* Returns 1 if the launch was saved, with its folder in `path`. */
static int find_saved(const struct play *play, char path[PATH_MAX])
{
    const char *folder = play->parsed.save;
    return *folder && !strchr(folder, '%') && snprintf(path, PATH_MAX, "%s/fault-%d-1", folder, (int)play->pid) < PATH_MAX &&
           access(path, F_OK) == 0;
}

/* Says what to type next. */
static void tell_next(const struct play *play)
{
    char saved[PATH_MAX];
    const char *bug = play->bug->name;
    printf("\nWhat to type next:\n");
    if (find_saved(play, saved))
        printf("  cufence replay %s\n      launches the kernel again as it faulted, alone\n"
               "  cufence explain %s\n      reads its core dump again, without a GPU\n",
               saved, saved);
    else if (strstr(play->bug->options, "rerun") && strcmp(bug, "graph") != 0)
        printf("  cufence demo %s --keep faults, then cufence replay faults\n"
               "      saves the launch that faults, and launches it again, alone\n",
               bug);
    printf("  %s\n      looks for such bugs in a program of yours\n"
           "  cufence hunt -- PROGRAM\n      runs it again and again, once for each kind of bug\n"
           "  cufence demo --list\n      lists the other bugs that can be planted\n",
           play->bug->own);
}

static int run(struct play *play)
{
    int status = choose_device(), ended;
    if (status != EXIT_FOUND)
        return status;
    putchar('\n');
    words_print(stdout, play->bug->story, 0);
    putchar('\n');
    show_sources(play->program);
    environment_tell("demo");
    child_pass_signals();
    play->pid = child_start("demo", become, play, 0, &status);
    while (play->pid > 0 && !child_wait(1000, &ended))
        ;
    if (status == 0)
        status = judge(play);
    if (status == EXIT_FOUND)
        tell_next(play);
    return status;
}

/* ---- the command line ---- */

static int list(void)
{
    for (size_t i = 0; i < BUG_COUNT; i++)
        printf("%-16s %s\n", bugs[i].name, bugs[i].teaches);
    return 0;
}

/* Returns NULL after a message. */
static const struct bug *bug_find(const char *name)
{
    size_t edits, found = text_nearest(name, strlen(name), bugs, sizeof *bugs, BUG_COUNT, &edits);
    const struct bug *nearest = found < BUG_COUNT ? &bugs[found] : NULL;
    if (edits == 0)
        return nearest;
    complain("unknown bug '%s'%s%s%s `cufence demo --list` lists them", name, nearest ? ", did you mean '" : ";",
             nearest ? nearest->name : "", nearest ? "'?" : "");
    return NULL;
}

/* Fills in the play. Returns 0, or the exit status after a message. */
static int prepare(struct play *play, const struct settings *settings)
{
    char *given = settings_text(settings);
    options_default(&play->parsed);
    options_parse(&play->parsed, env_get("CUFENCE_OPTIONS"), ""); /* `cufence run` says what is wrong with them */
    if (!given)
        return complain("no host memory");
    int status = settings_check(settings, &play->parsed);
    if (status == 0 && asprintf(&play->options, "%s%s%s", play->bug->options, *given ? "," : "", given) < 0) {
        play->options = NULL;
        status = complain("no host memory");
    }
    free(given);
    if (status == 0 && !installed_program(play->program))
        status = complain("/proc/self/exe: %s", strerror(errno));
    if (status == 0 && collected_open("demo", NULL, play->reports) != 0)
        status = EXIT_NOT_FOUND;
    return status;
}

static int demonstrate(const struct bug *bug, const struct settings *settings)
{
    struct play play = {.bug = bug};
    int status = prepare(&play, settings);
    if (status == 0)
        status = run(&play);
    if (play.reports[0])
        unlink(play.reports);
    free(play.options);
    return status;
}

/* --program: becomes the planted program, for `cufence run` and others to look at. Returns the exit status after a message. */
static int play_alone(const struct bug *bug, const struct settings *settings)
{
    char program[PATH_MAX];
    if (settings->count)
        return arguments_complain("demo", STATUS_USAGE,
                                  "--program has no options; they are for `cufence run`, as in cufence run --uaf strict -- "
                                  "cufence demo --program %s",
                                  bug->name);
    if (choose_device() != EXIT_FOUND)
        return EXIT_NOT_FOUND;
    if (!installed_program(program))
        return complain("/proc/self/exe: %s", strerror(errno));
    show_sources(program);
    fflush(stdout);
    execl(program, "cufence", "planted", bug->name, driver->path, (char *)NULL);
    return complain("%s: %s", program, strerror(errno));
}

struct wanted {
    struct settings settings;
    int is_list, is_program;
};

static const struct argument arguments[] = {
    {"list", NULL, "the bugs, and what each teaches", .offset = offsetof(struct wanted, is_list)},
    {"program", NULL, "only the program with the bug, as one to try other commands on: cufence run -- cufence demo --program",
     .offset = offsetof(struct wanted, is_program)},
    {SETTINGS_SET, .offset = offsetof(struct wanted, settings)},
};

static int start(int argc, char **argv)
{
    struct wanted wanted = {.settings.command = "demo"};
    int status;
    if (arguments_read(&demo_command, argc, argv, &wanted, &status)) {
        const struct bug *bug = optind < argc && !wanted.is_list ? bug_find(argv[optind]) : &bugs[0];
        if (wanted.is_list)
            status = optind < argc ? arguments_surplus("demo", argv[optind]) : list();
        else
            status = bug ? (wanted.is_program ? play_alone : demonstrate)(bug, &wanted.settings) : STATUS_USAGE;
    }
    settings_free(&wanted.settings);
    return status;
}

const struct command demo_command = {
    .name = "demo",
    .help = "plant a bug and show its report; on a simulated GPU if need be",
    .run = start,
    ARGUMENTS(arguments),
    .operands = "[BUG]",
    .most = 1,
    .about =
        "Plays a program with that bug (overrun if none is named) under `cufence run`, and checks that it is reported. Runs "
        "on GPU 0, or on the simulated device where there is no GPU or with CUFENCE_DRIVER=sim.",
    .examples = "Example: cufence demo underrun\n"
                "The launch that faults, saved and launched again; what kernels read and write:\n"
                "  cufence demo --keep faults; cufence replay faults\n"
                "  cufence demo --values '*'\n",
    SETTINGS_ROWS(struct wanted),
};
