/* `cufence run`: sets up the environment and executes the program in this process. */
#include "arguments.h"
#include "cli.h"
#include "cli/environment.h"
#include "cli/outputs.h"
#include "cli/program.h"
#include "cli/settings.h"
#include "cli/supervise.h"
#include "base/env.h"
#include "base/error.h"
#include "base/known.h"
#include "base/options.h"
#include "base/output.h"
#include "base/tally.h"
#include "base/text.h"
#include "api/lifecycle.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --html and --sarif: documents of everything that the program's processes report, there from its start. */
struct page {
    struct outputs outputs;
    struct collected begun; /* what was run */
    char file[PATH_MAX];    /* one for all processes: each report is appended with one write */
};

struct request {
    struct settings settings;
    int is_verbose;
    int is_guarded_required; /* --require-guarded */
    int is_if_asked;         /* leave the program alone unless PyTorch's variables ask for cufence */
    int is_left;             /* they do not */
    char **command;          /* ends with NULL */
    struct page page;
};

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

/* Whether the file can be read that names findings (base/known.h). */
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
    struct collected begun = {0};
    struct stat found;
    if (!options->json[0] || options_expand_path(options->json, path, sizeof path) != CUFENCE_OK ||
        (stat(path, &found) == 0 && !S_ISREG(found.st_mode)))
        return 0;
    collected_begin(&begun, request->command);
    json_t *line = json_array_get(begun.runs, 0);
    char *text = line ? text_of_json(json_incref(line), JSON_COMPACT) : NULL;
    int error = text ? output_append(path, text, strlen(text)) : ENOMEM;
    free(text);
    collected_free(&begun);
    int may_come = strchr(options->json, '%') != NULL; /* then the folder may be there when a process writes to it */
    return error && !may_come ? complain(STATUS_USAGE, "json=%s: %s", path, strerror(error)) : 0;
}

static int set_options(const struct request *request, struct options *options)
{
    char *merged = settings_text(&request->settings);
    if (!merged)
        return complain(STATUS_UNFIT, "no host memory");
    int status = settings_check(&request->settings, options) ?: check_known(options->known);
    if (status == 0 && writable_check(options, 0, refuse))
        status = STATUS_USAGE;
    if (status == 0 && lifecycle_lens(options, 0) != CUFENCE_OK)
        status = complain(STATUS_USAGE, "%s", error_detail());
    status = status ?: begin_json(request, options);
    if (status == 0 && merged[0]) {
        if (environment_set("CUFENCE_OPTIONS", merged) != CUFENCE_OK)
            status = complain(STATUS_UNFIT, "%s", error_detail());
        else if (request->is_verbose)
            complain(0, "CUFENCE_OPTIONS=%s", merged);
    }
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
    FILE *words = request->is_verbose ? stderr : NULL;
    struct options options;

    options_default(&options);
    if (environment_pytorch(confs, words) != CUFENCE_OK)
        return complain(STATUS_UNFIT, "%s", error_detail());
    int status = inherit_settings(request, confs) ?: set_options(request, &options) ?: find_preload(own, preload);
    if (status != 0)
        return status;
    environment_tell("run");
    if (environment_preload(preload, words) != CUFENCE_OK || environment_frameworks(words) != CUFENCE_OK ||
        (installed_bootstrap(own, bootstrap) && environment_python(bootstrap, words) != CUFENCE_OK))
        return complain(STATUS_UNFIT, "%s", error_detail());
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

/* ---- the documents ---- */

static void write_documents(struct page *page)
{
    struct collected *all = &page->begun;
    char guarded[160];
    all->is_unfinished = 0;
    int is_whole = collected_read(all, "run", page->file);
    if (!outputs_write(&page->outputs, all) || !is_whole)
        complain(0, "some reports are missing from the documents");
    collected_say_guarded(all, guarded, sizeof guarded);
    for (int i = 0; i < OUTPUTS; i++)
        if (page->outputs.paths[i])
            complain(0, "%s: %zu finding%s%s", page->outputs.paths[i], all->count, all->count == 1 ? "" : "s", guarded);
}

/* Writes the documents anew if the program has run, and removes the file for the reports. */
static void page_close(struct page *page, int has_run)
{
    if (has_run)
        write_documents(page);
    outputs_close(&page->outputs);
    collected_free(&page->begun);
    unlink(page->file);
}

/* Writes the documents, without findings, and makes the file for the reports, which the processes find in the environment.
 * Called before the program runs. Returns 0, or the exit status after a message. */
static int page_open(struct page *page, char *const *command)
{
    int refusal = outputs_collect("run", NULL, page->file) ?: outputs_begin(&page->outputs, &page->begun, command);
    if (refusal)
        page_close(page, 0);
    return refusal;
}

/* ---- the program ---- */

static int choose(const char *command, char path[PATH_MAX])
{
    int status = program_find(command, env_get("PATH"), path);
    if (status == PROGRAM_FITS)
        status = program_judge(path);
    return status == PROGRAM_FITS ? 0 : complain(status, "%s", error_detail());
}

/* Whether an earlier `cufence run` has made this process the one that speaks. */
static int has_tally(const char *list)
{
    int process;
    return list && sscanf(list, "/proc/%d/", &process) == 1 && process == getpid() && tally_is_kept();
}

/* The program says at its end whether anything was guarded. Without a descriptor for that it runs all the same. */
static void keep_tally(const struct request *request)
{
    const char *outer = env_get(TALLY_VARIABLE);
    char name[TALLY_NAME], *list = NULL;
    int fd = has_tally(outer) ? -1 : tally_make(name);
    if (fd < 0)
        return;
    int is_written = !request->is_if_asked || tally_add(fd, TALLY_TORCH);
    if (!is_written || asprintf(&list, "%s%s%s", name, outer ? ":" : "", outer ? outer : "") < 0 ||
        environment_set(TALLY_VARIABLE, list) != CUFENCE_OK)
        close(fd);
    free(list);
}

static int become(const char *path, const struct request *request)
{
    if (request->is_verbose)
        complain(0, "starts %s", path);
    if (!request->is_left)
        keep_tally(request);
    execv(path, request->command);
    return complain(STATUS_UNFIT, "%s cannot be run: %s", path, strerror(errno));
}

/* Returns only if the program can't be run: the exit status, after a message. */
static int run_it(void *argument)
{
    struct request *request = argument;
    char path[PATH_MAX];
    return choose(request->command[0], path) ?: prepare(request) ?: become(path, request);
}

/* The exit status after a program that ended with `status`, as of waitpid(). */
static int judge(int fd, int status)
{
    struct tally tally;
    int is_known = tally_read(fd, &tally);
    if ((is_known && tally.counts[TALLY_GUARDED]) || WIFSIGNALED(status))
        return supervise_end_as(status);
    int changed = WEXITSTATUS(status) ? WEXITSTATUS(status) : STATUS_NO_VERDICT;
    return complain(changed, "nothing was guarded%s; exit status %d",
                    changed == STATUS_NO_VERDICT ? " (--require-guarded)" : "", changed);
}

/* A tally that this process reads, and the program adds to. Returns its descriptor, -1 after a message. */
static int watch_tally(void)
{
    char name[TALLY_NAME];
    int fd = tally_make(name);
    if (fd < 0 || !tally_set(name))
        return complain(-1, "--require-guarded: no memory to keep count in: %s", strerror(errno));
    return fd;
}

/* The program as a process of its own. */
static int run_apart(struct request *request)
{
    char path[PATH_MAX];
    int refusal = choose(request->command[0], path); /* before a document of an earlier run is overwritten */
    int is_paged = outputs_is_any(&request->page.outputs), fd = -1;
    if (refusal == 0 && request->is_guarded_required && (fd = watch_tally()) < 0)
        refusal = STATUS_UNFIT;
    if (refusal == 0 && is_paged)
        refusal = page_open(&request->page, request->command);
    if (refusal)
        return refusal;
    int status = supervise("run", run_it, request, &refusal);
    if (is_paged)
        page_close(&request->page, !refusal);
    if (refusal)
        return refusal;
    return request->is_guarded_required ? judge(fd, status) : supervise_end_as(status);
}

/* ---- the command line ---- */

static const struct argument arguments[] = {
    {SETTINGS_SET, .offset = offsetof(struct request, settings)},
    {SETTINGS_PRESET, .offset = offsetof(struct request, settings)},
    {"json", "FILE",
     "append each report as a line of JSON; in FILE, %p is the process, %r the rank, %h the host. Not \"-\": standard output "
     "is "
     "the program's",
     ARGUMENT_FILE, offsetof(struct request, settings), settings_take_key, .key = "json"},
    {"html", "FILE",
     "all that was found as one page of HTML; the program is then a process of its own, and its exit status is passed on",
     ARGUMENT_FILE, .offset = offsetof(struct request, page.outputs.paths[OUTPUT_HTML])},
    {"sarif", "FILE", "the same as SARIF 2.1.0, for code hosts and editors", ARGUMENT_FILE,
     .offset = offsetof(struct request, page.outputs.paths[OUTPUT_SARIF])},
    {"error-exitcode", "N", "the same as --on_fault /N", NULL, .offset = offsetof(struct request, settings),
     .take = settings_take_status},
    {"require-guarded", NULL,
     "exit with 87 if nothing was guarded, where the program would exit with 0; the program is then a process of its own, as "
     "with --html",
     NULL, .offset = offsetof(struct request, is_guarded_required)},
    {"if-asked", NULL,
     "only if PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF says backend:cufence; otherwise run the program as it is", NULL,
     .offset = offsetof(struct request, is_if_asked)},
    {"verbose", NULL, "print what is set up to stderr; --say verbose: also what cufence does in the program", NULL,
     .offset = offsetof(struct request, is_verbose)},
};

static void print_presets(void)
{
    printf("\nPresets:\n");
    settings_print_presets(stdout);
}

int cli_run(int argc, char **argv)
{
    struct request request = {.settings.command = "run", .page.outputs = {.command = "run", .is_stdout_taken = 1}};
    int status;
    if (arguments_read(&run_command, argc, argv, &request, &status)) {
        request.command = argv + optind;
        status = outputs_is_any(&request.page.outputs) || request.is_guarded_required ? run_apart(&request) : run_it(&request);
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
                "(`cufence docs values`):\n"
                "  cufence run --values '*softmax*' -- python train.py\n"
                "  cufence run --nan report -- python train.py\n"
                "What some launches were given and wrote, as .npy files (`cufence docs values`):\n"
                "  cufence run --save_values '*softmax*=saved' -- python train.py\n",
    SETTINGS_ROWS(struct request),
};
