/* `cufence run`: sets up the environment and executes the program in this process. */
#include "command_line.h"
#include "cli/environment.h"
#include "cli/program.h"
#include "cli/settings.h"
#include "base/env.h"
#include "base/error.h"
#include "base/known_findings.h"
#include "base/options.h"
#include "base/output.h"
#include "base/tally.h"
#include "api/lifecycle.h"
#include "finding/json.h"
#include "fault/tell.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct request {
    struct settings settings;
    int is_verbose;
    int is_guarded_required; /* --require-guarded */
    unsigned exitcode;       /* after a finding */
    int is_if_asked;         /* leave the program alone unless PyTorch's variables ask for cufence */
    int is_left;             /* they do not */
    char **command;          /* ends with NULL */
};

#define COMMAND_BYTES 4096 /* of the words that are told, as docs/json.md says */
#define complain(status, ...) arguments_complain("run", status, __VA_ARGS__)

/* ---- the environment ---- */

/* Puts the settings that the environment gives in front of those of the command line, which so win. */
static int inherit_settings(struct request *request, const struct alloc_conf confs[ALLOC_CONFS])
{
    int status = settings_insert(&request->settings, 0, "CUFENCE_OPTIONS", env_get("CUFENCE_OPTIONS"));
    for (size_t i = 0; i < ALLOC_CONFS && status == 0; i++)
        status = settings_insert(&request->settings, 1 + i, alloc_conf_names[i], confs[i].options);
    return status;
}

static void refuse(const char *option, const char *sentence)
{
    (void)option;
    complain(0, "%s", sentence);
}

/* Whether the file can be read that names findings (base/known_findings.h). */
static int check_known(const char *file)
{
    struct known_names names = {0};
    cufence_status status = known_read_option(&names, file);
    known_free(&names);
    return status == CUFENCE_OK ? 0 : complain(STATUS_USAGE, "known=%s", error_detail());
}

/* So that the file says what was run although nothing may ever be found. */
static int begin_json(const struct request *request, const struct options *options)
{
    char path[PATH_MAX];
    char time[32];
    struct stat found;
    if (!options->json[0] || options_expand_path(options->json, path, sizeof path) != CUFENCE_OK ||
        (stat(path, &found) == 0 && !S_ISREG(found.st_mode)))
        return 0;
    process_open();
    struct finding_process process = process_now(time);
    process.command = (const char *const *)request->command;
    process.word_count = 0;
    for (size_t room = COMMAND_BYTES, size; request->command[process.word_count]; process.word_count++, room -= size) {
        size = strlen(request->command[process.word_count]) + 1;
        if (size > room)
            break;
    }
    char *line = json_of_guarded(
        &(const struct finding_source){.pid = (int)getpid(), .rank = options_rank(), .process = &process}, NULL);
    int error = line ? output_append(path, line, strlen(line)) : ENOMEM;
    free(line);
    int may_come = strchr(options->json, '%') != NULL; /* then the folder may be there when a process writes to it */
    return error && !may_come ? complain(STATUS_USAGE, "json=%s: %s", path, strerror(error)) : 0;
}

static int set_options(struct request *request)
{
    char *merged = settings_text(&request->settings);
    struct options options;
    if (!merged)
        return complain(STATUS_UNFIT, "no host memory");
    options_default(&options);
    int status = settings_check(&request->settings, &options) ?: check_known(options.known);
    request->exitcode = (unsigned)options.exitcode;
    if (status == 0 && writable_check(&options, 0, refuse))
        status = STATUS_USAGE;
    if (status == 0 && lifecycle_inspect(&options, 0) != CUFENCE_OK)
        status = complain(STATUS_USAGE, "%s", error_detail());
    status = status ?: begin_json(request, &options);
    if (status == 0 && merged[0] && environment_set("CUFENCE_OPTIONS", merged) != CUFENCE_OK)
        status = complain(STATUS_UNFIT, "%s", error_detail());
    free(merged);
    return status;
}

/* Finds the preload library. `own` gets this program's path. */
static int find_preload(char own[PATH_MAX], char preload[PATH_MAX])
{
    if (!installed_program(own))
        return complain(STATUS_UNFIT, "cannot tell where cufence is installed: /proc/self/exe: %s", strerror(errno));
    if (!installed_preload(own, preload))
        return complain(STATUS_UNFIT,
                        "cannot find " INSTALLED_PRELOAD " from where %s lies: " INSTALLED_PLACES
                        " were looked into; reinstall cufence, with its libraries",
                        own);
    return 0;
}

static int set_up(struct request *request, const struct alloc_conf confs[ALLOC_CONFS])
{
    char own[PATH_MAX], preload[PATH_MAX], bootstrap[PATH_MAX];
    int status = inherit_settings(request, confs) ?: set_options(request) ?: find_preload(own, preload);
    if (status != 0)
        return status;
    environment_tell("run");
    if (environment_preload(preload) != CUFENCE_OK || environment_frameworks(confs) != CUFENCE_OK ||
        (installed_bootstrap(own, bootstrap) && environment_python(bootstrap) != CUFENCE_OK))
        return complain(STATUS_UNFIT, "%s", error_detail());
    if (request->is_verbose)
        environment_show();
    return 0;
}

/* --if-asked, and neither variable asks for cufence: changes nothing, but refuses options that are meant for cufence. */
static int leave_it(const struct request *request, const struct alloc_conf confs[ALLOC_CONFS])
{
    for (int i = 0; i < ALLOC_CONFS; i++)
        if (confs[i].options[0])
            return complain(STATUS_USAGE,
                            "%s has options of cufence (%s), but does not ask for it; add backend:" ALLOC_CONF_ASKED,
                            alloc_conf_names[i], confs[i].options);
    if (request->is_guarded_required)
        return complain(STATUS_NO_VERDICT, "--require-guarded: neither %s nor %s asks for cufence", alloc_conf_names[0],
                        alloc_conf_names[1]);
    if (request->is_verbose)
        complain(0, "neither %s nor %s asks for cufence", alloc_conf_names[0], alloc_conf_names[1]);
    return 0;
}

static int prepare(struct request *request)
{
    struct alloc_conf confs[ALLOC_CONFS];
    cufence_status status = alloc_conf_rewrite_both(env_get, confs);
    if (status != CUFENCE_OK)
        return complain(status == CUFENCE_ERROR_OPTION ? STATUS_USAGE : STATUS_UNFIT, "%s", error_detail());
    request->is_left = request->is_if_asked && !alloc_conf_asking(confs);
    int outcome = request->is_left ? leave_it(request, confs) : set_up(request, confs);
    for (int i = 0; i < ALLOC_CONFS; i++)
        alloc_conf_free(&confs[i]);
    return outcome;
}

/* ---- the program ---- */

static int choose(const char *command, char path[PATH_MAX])
{
    int status = program_find(command, env_get("PATH"), path);
    if (status == PROGRAM_FITS)
        status = program_judge(path);
    return status == PROGRAM_FITS ? 0 : complain(status, "%s", error_detail());
}

static int refuse_start(const char *path, int error)
{
    return complain(STATUS_UNFIT, "%s cannot be run: %s%s", path, strerror(error),
                    error == ENOEXEC ? "; name the program that runs it, as in `cufence run -- sh FILE`" : "");
}

int run_check(char **command)
{
    char path[PATH_MAX];
    int status = choose(command[0], path), error = status ? 0 : program_try(path, command);
    return error ? refuse_start(path, error) : status;
}

/* The tally of an earlier `cufence run` that has made this process the one that speaks; -1: there is none. */
static int own_tally(const char *list)
{
    int process, fd;
    return list && sscanf(list, "/proc/%d/fd/%d", &process, &fd) == 2 && process == getpid() && tally_is_kept() ? fd : -1;
}

/* The program says at its end whether anything was guarded, and ends with another status if it had to be, or if a process that
 * it has started has a finding. Without a descriptor for that it runs all the same, unless it has to. Returns 0, or the exit
 * status after a message. */
static int keep_tally(const struct request *request)
{
    char name[TALLY_NAME];
    int fd = own_tally(env_get(TALLY_VARIABLE)), is_new = fd < 0;
    if (is_new)
        fd = tally_make(name);
    int is_kept = fd >= 0 && (!is_new || !request->is_if_asked || tally_put(fd, TALLY_TORCH, 1)) &&
                  (!request->is_guarded_required || tally_put(fd, TALLY_REQUIRED, 1)) &&
                  tally_put(fd, TALLY_EXITCODE, request->exitcode) && (!is_new || tally_set(name));
    if (is_kept)
        return 0;
    int error = errno;
    if (is_new && fd >= 0)
        close(fd);
    return request->is_guarded_required
               ? complain(STATUS_UNFIT, "--require-guarded: no memory to keep count in: %s", strerror(error))
               : 0;
}

char *run_announcement;

/* Returns only if the program can't be run: the exit status, after a message. */
static int become(struct request *request)
{
    char path[PATH_MAX];
    int status = choose(request->command[0], path) ?: prepare(request) ?: request->is_left ? 0 : keep_tally(request);
    if (status != 0)
        return status;
    if (request->is_verbose)
        complain(0, "starts %s", path);
    if (run_announcement)
        arguments_complain("hunt", 0, "%s", run_announcement);
    execv(path, request->command);
    return refuse_start(path, errno);
}

/* `cufence await FD [silent]`: what the program's first process becomes at its end, with the tally that it has had open
 * (preload/interpose.c). Its environment, with the tally's name, is gone. */
int cli_await(int argc, char **argv)
{
    struct tally tally;
    char name[TALLY_NAME], lines[1200];
    static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    sigset_t some;
    int fd = argc > 1 ? atoi(argv[1]) : 0;
    sigemptyset(&some);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        sigaddset(&some, ending[i]);
    sigprocmask(SIG_UNBLOCK, &some, NULL);
    if (fd <= STDERR_FILENO)
        return STATUS_USAGE;
    for (int other = STDERR_FILENO + 1; other < fd; other++) /* somebody may read until they are closed */
        close(other);
    syscall(SYS_close_range, (unsigned)fd + 1, ~0u, 0); /* Linux 5.9 */
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), fd);
    size_t running = child_wait_rest("run", name);
    if (!tally_read(fd, &tally))
        return STATUS_USAGE;
    int status = tally_judge(&tally, 0, running, argc > 2, lines, sizeof lines);
    fputs(lines, stderr);
    return status;
}

/* ---- the command line ---- */

static const struct argument arguments[] = {
    {SETTINGS_SET, .offset = offsetof(struct request, settings)},
    {SETTINGS_PRESET, .offset = offsetof(struct request, settings)},
    {"json", "FILE",
     "append each report as a line of JSON; in FILE, %p is the process, %r the rank, %h the host. Not \"-\": standard output "
     "is the program's",
     offsetof(struct request, settings), settings_take_key, .key = "json"},
    {"error-exitcode", "N", "the same as --on_fault /N", .offset = offsetof(struct request, settings),
     .take = settings_take_status},
    {"require-guarded", NULL,
     "exit with 87 if nothing was guarded, where the program would exit with 0. Waits for the processes that the program "
     "has started; 87 if one still runs after 30 s, or was killed",
     .offset = offsetof(struct request, is_guarded_required)},
    {"if-asked", NULL,
     "only if PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF says backend:cufence; otherwise run the program as it is",
     .offset = offsetof(struct request, is_if_asked)},
    {"verbose", NULL, "print what is set up to stderr; --say verbose: also what cufence does in the program",
     .offset = offsetof(struct request, is_verbose)},
};

static void print_presets(void)
{
    printf("\nPresets:\n");
    settings_print_presets(stdout);
}

int cli_run(int argc, char **argv)
{
    struct request request = {.settings.command = "run"};
    int status;
    if (arguments_read(&run_command, argc, argv, &request, &status)) {
        request.command = argv + optind;
        status = become(&request);
    }
    settings_free(&request.settings);
    return status;
}

const struct command run_command = {
    .name = "run",
    .help = "run a CUDA program, unmodified, with its GPU buffers guarded",
    .run = cli_run,
    ARGUMENTS(arguments),
    ARGUMENTS_PROGRAM("run"),
    .about = "Runs any program that uses CUDA, unmodified, with its GPU buffers under cufence. It sets up the environment and "
             "becomes the program: input, output, signals and exit status are the program's. At the end stderr says what was "
             "guarded, or that nothing was, and why.\n"
             "The options --KEY, --set and --preset win over CUFENCE_OPTIONS.",
    .more = print_presets,
    .examples = "Example: cufence run --preset thorough --json found.%p.json -- python train.py\n"
                "What goes into a kernel and comes out, and which launch makes the first NaN\n"
                "(see docs/values.md):\n"
                "  cufence run --values '*softmax*' -- python train.py\n"
                "  cufence run --nan report -- python train.py\n"
                "What some launches were given and wrote, as .npy files (see docs/values.md):\n"
                "  cufence run --save_values '*softmax*=saved' -- python train.py\n",
    SETTINGS_ROWS(struct request),
};
