/* `cufence hunt`: runs a program in each mode in turn, and merges what was found. */
#include "program.h"
#include "command_line.h"
#include "environment.h"
#include "hunt.h"
#include "settings.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/files.h"
#include "base/tally.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALL_MODES = (1u << MODE_FRESH) - 1, PAUSE_MS = 200 };

struct hunt {
    struct plan plan;
    struct settings settings; /* the environment's CUFENCE_OPTIONS first */
    struct run runs[MODES];
    struct collected merged;
    const char *json;    /* the file of --json */
    struct stat written; /* what is there; of a pipe nothing */
    const char *kept;    /* the folder of --keep */
    int exitcode;
};

#define complain(status, ...) arguments_complain("hunt", status, __VA_ARGS__)

/* ---- before the first run ---- */

/* Refuses an option of the command line that every mode sets otherwise. */
static int check_effect(const struct plan *plan, const char *options)
{
    char word[64];
    for (const char *at = options; *at; at += strcspn(at, ","), at += *at == ',') {
        unsigned without = plan->modes;
        snprintf(word, sizeof word, ",%.*s=", (int)strcspn(at, "=,"), at);
        for (unsigned mode = 0; mode < MODES; mode++)
            if (!strncmp(modes[mode].options, word + 1, strlen(word + 1)) || strstr(modes[mode].options, word))
                without &= ~(1u << mode);
        if (!without)
            return complain(STATUS_USAGE, "%.*s has no effect: each mode of --modes sets %.*s itself", (int)strcspn(at, ","),
                            at, (int)strlen(word) - 2, word + 1);
    }
    return 0;
}

/* Checks the options, and leaves those of the command line in plan.options. */
static int check_settings(struct hunt *hunt, char **own)
{
    struct options options;
    options_default(&options);
    int status = settings_check(&hunt->settings, &options);
    if (status != 0)
        return status;
    hunt->exitcode = (int)options.exitcode;
    free(hunt->settings.all[0].text); /* the program gets it by itself */
    hunt->settings.all[0].text = NULL;
    *own = settings_text(&hunt->settings);
    if (!*own)
        return complain(STATUS_UNFIT, "no host memory");
    hunt->plan.options = *own;
    for (size_t i = hunt->settings.presets; i < hunt->settings.count && status == 0; i++)
        status = check_effect(&hunt->plan, hunt->settings.all[i].text);
    return status;
}

/* The file for the reports of a run, in the folder of --keep. */
static const char *kept_reports(const struct plan *plan, unsigned mode, char path[PATH_MAX])
{
    int length = snprintf(path, PATH_MAX, "%.4000s/%s.json", plan->folder, modes[mode].name);
    (void)length;
    return path;
}

/* Of --keep. */
static int make_folder(struct hunt *hunt)
{
    struct plan *plan = &hunt->plan;
    char file[PATH_MAX];
    if ((mkdir(hunt->kept, 0777) != 0 && errno != EEXIST) || snprintf(file, PATH_MAX, "%s/.", hunt->kept) >= PATH_MAX ||
        !realpath(file, plan->folder) || access(plan->folder, W_OK | X_OK) != 0)
        return complain(STATUS_USAGE, "--keep %s: %s", hunt->kept, strerror(errno));
    for (unsigned mode = 0; mode < MODES; mode++)
        if (access(kept_reports(plan, mode, file), F_OK) == 0)
            return complain(STATUS_USAGE, "--keep %s: reports of an earlier hunt are there (%s.json); name another folder",
                            hunt->kept, modes[mode].name);
    return 0;
}

/* An inode is used again for another file; when it was written differs then. */
static int is_written(const struct stat *ours, const struct stat *found)
{
    return found->st_dev == ours->st_dev && found->st_ino == ours->st_ino && found->st_size == ours->st_size &&
           found->st_mtim.tv_sec == ours->st_mtim.tv_sec && found->st_mtim.tv_nsec == ours->st_mtim.tv_nsec;
}

/* Replaces the list, whose file always holds a whole one. Returns 0 after a message. */
static int write_list(struct hunt *hunt, int is_complete)
{
    struct document document;
    struct stat found;
    char apart[PATH_MAX + 32];
    const char *path = hunt->json;
    if (!path)
        return 1;
    if (hunt->written.st_ino && stat(path, &found) == 0 && !is_written(&hunt->written, &found)) {
        snprintf(apart, sizeof apart, "%s.%d", path, (int)getpid());
        complain(0, "--json %s: somebody else has replaced it meanwhile; the list is in %s", path, apart);
        path = apart;
    }
    if (document_open(&document, path) &&
        document_close(&document, hunt_put_json(document.out, &hunt->plan, hunt->runs, &hunt->merged, is_complete)))
        return !document.temporary[0] || stat(path, &hunt->written) == 0;
    return complain(0, "--json %s: %s", path, errno ? strerror(errno) : "the host is out of memory");
}

/* A file has the list from the start, without findings: the program may end hours later, or never. */
static int begin_list(struct hunt *hunt)
{
    struct stat found;
    if (!hunt->json || !strcmp(hunt->json, "-") ||
        (stat(hunt->json, &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)))
        return 0;
    return write_list(hunt, 0) ? 0 : STATUS_USAGE;
}

/* ---- one run ---- */

static double now(void)
{
    return (double)monotonic_ns() / 1e9;
}

struct start {
    const struct plan *plan;
    unsigned mode;
    const char *tally;
};

/* In the new process: becomes the program, as `cufence run` does. */
static int become(void *argument)
{
    const struct start *start = argument;
    const struct plan *plan = start->plan;
    char **argv = calloc(plan->words + 10, sizeof *argv), *last = NULL;
    size_t used = 0;
    const struct mode *mode = &modes[start->mode];
    int size = asprintf(&last, "%s,on_fault=/0", mode->options);
    int told = asprintf(&run_announcement, "run %d of %d: %s (%s), %s",
                        __builtin_popcount(plan->modes & ((1u << start->mode) - 1)) + 1, __builtin_popcount(plan->modes),
                        mode->name, mode->options, mode->looks_for);
    if (!argv || size < 0 || told < 0 || environment_collect(plan->reports) != CUFENCE_OK)
        return STATUS_UNFIT;
    for (const char *const *word = (const char *const[]){"run", "--set", plan->options, "--set", last, "--", NULL}; *word;
         word++)
        argv[used++] = (char *)*word;
    memcpy(argv + used, plan->command, plan->words * sizeof *argv);
    tally_set(start->tally);
    return cli_run((int)(used + plan->words), argv);
}

/* On a terminal the program stays in our group, so that it can read from it. Elsewhere it gets a group of its own, by which it
 * and its children can be ended together. */
static int is_at_terminal(void)
{
    int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int is_ours = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
    if (terminal >= 0)
        close(terminal);
    return is_ours;
}

static void run_program(const struct plan *plan, unsigned mode, struct run *run)
{
    char name[TALLY_NAME];
    double began = now();
    int fd = tally_make(name), is_said = 0;
    struct start start = {plan, mode, name};
    *run = (struct run){0};
    int is_started = child_start("hunt", become, &start, !is_at_terminal(), &run->refusal) > 0;
    run->is_started = is_started && run->refusal == 0;
    for (int has_ended = !is_started; !has_ended;) {
        has_ended = child_wait(PAUSE_MS, &run->status);
        if (child_signals && !is_said++)
            complain(0, "%s: waiting for the program to end; a second one kills it", strsignal(child_first_signal));
    }
    run->left = is_started ? child_wait_rest("hunt", NULL) : 0;
    run->is_ended = child_signals > 0;
    run->seconds = now() - began;
    tally_read(fd, &run->tally);
    if (fd >= 0)
        close(fd);
}

/* ---- the hunt ---- */

static void tell_end(const struct hunt *hunt, unsigned mode)
{
    const struct run *run = &hunt->runs[mode];
    size_t found = merged_by(&hunt->merged, mode);
    fprintf(stderr, "cufence hunt: %s: ", modes[mode].name);
    run_end_print(stderr, run);
    fprintf(stderr, " after %.1f s, ", run->seconds);
    if (run->left)
        fprintf(stderr, "%zu process%s that it started still run%s, ", run->left, plural_es(run->left),
                run->left == 1 ? "s" : "");
    if (found)
        fprintf(stderr, "%zu finding%s\n", found, plural(found));
    else
        fprintf(stderr, "no finding%s%s\n", run_has_failed(run, &hunt->merged, mode) ? ": the program failed by itself" : "",
                run->tally.counts[TALLY_GUARDED] ? "" : "; nothing was guarded");
}

/* Returns whether there is a reason for another run. */
static int run_in(struct hunt *hunt, unsigned mode)
{
    struct run *run = &hunt->runs[mode];
    char kept[PATH_MAX];
    run->refusal = collected_open("hunt", hunt->kept ? kept_reports(&hunt->plan, mode, kept) : NULL, hunt->plan.reports);
    if (!run->refusal)
        run_program(&hunt->plan, mode, run);
    hunt->merged.tag = mode;
    if (!run->refusal)
        collected_read(&hunt->merged, NULL, hunt->plan.reports);
    collected_join(&hunt->merged);
    if (!hunt->kept)
        unlink(hunt->plan.reports);
    if (run->refusal)
        return 0;
    tell_end(hunt, mode);
    return !child_signals;
}

static int run_all(struct hunt *hunt)
{
    int refusal = 0, is_on = 1;
    environment_tell("hunt");
    child_pass_signals();
    for (unsigned mode = 0; mode < MODES; mode++) {
        if (!(hunt->plan.modes & 1u << mode) || !is_on)
            continue;
        is_on = run_in(hunt, mode);
        refusal = hunt->runs[mode].refusal;
    }
    return refusal;
}

static int conclude(struct hunt *hunt, int refusal)
{
    const struct hunt_verdict verdict = hunt_judge(&hunt->plan, hunt->runs, &hunt->merged);
    int status = hunt->merged.count    ? hunt->exitcode
                 : child_signals       ? 128 + child_first_signal
                 : verdict.is_complete ? 0
                                       : STATUS_NO_VERDICT;
    if (!refusal)
        hunt_tell(stderr, &hunt->plan, hunt->runs, &hunt->merged);
    if (!refusal && hunt->merged.known_count)
        complain(0, "%zu known finding%s (known=) left out", hunt->merged.known_count,
                 hunt->merged.known_count == 1 ? " is" : "s are");
    if (!refusal && hunt->kept)
        complain(0, "the reports of each run are in %s", hunt->plan.folder);
    if (!write_list(hunt, verdict.is_whole && !child_signals))
        status = status ? status : STATUS_FAILED;
    return refusal ? refusal : status;
}

/* ---- the command line ---- */

static int take_modes(const struct given *given, void *field)
{
    unsigned *bits = field;
    const char *at = given->value;
    do {
        size_t edits, length = strcspn(at, ","), mode = text_nearest(at, length, modes, sizeof *modes, MODES, &edits);
        int is_near = mode < MODES;
        if (edits)
            return complain(STATUS_USAGE, "--modes: \"%.*s\" is not allowed; use some of: end start align strict fresh%s%s%s",
                            (int)(length < 64 ? length : 64), at, is_near ? "; did you mean " : "",
                            is_near ? modes[mode].name : "", is_near ? "?" : "");
        *bits |= 1u << mode;
        at += length;
    } while (*at++ == ',');
    return 0;
}

static const struct argument arguments[] = {
    {"modes", "LIST", "only these, in the order below; several with commas", offsetof(struct hunt, plan.modes),
     .take = take_modes},
    {"json", "FILE", "the merged list as JSON; \"-\": on standard output, at the end. docs/hunt.md describes it",
     .offset = offsetof(struct hunt, json)},
    {"keep", "FOLDER", "keep the reports of each run in FOLDER, as MODE.json", .offset = offsetof(struct hunt, kept)},
    {SETTINGS_SET, .offset = offsetof(struct hunt, settings)},
    {SETTINGS_PRESET, .offset = offsetof(struct hunt, settings)},
    {"error-exitcode", "N", "exit with N instead of 86 if something was found", .offset = offsetof(struct hunt, settings),
     .take = settings_take_status},
    {"require-guarded", NULL, "exit with 87 if nothing was guarded in a run; the default",
     .offset = offsetof(struct hunt, plan.is_guarded_required)},
    {"no-require-guarded", NULL, "exit with 0 also if nothing was guarded in a run",
     .offset = offsetof(struct hunt, plan.is_guarded_required)},
};

static void print_modes(void)
{
    printf("\nModes, whose own options win; fresh runs only if --modes names it:\n");
    for (size_t i = 0; i < MODES; i++)
        printf("  %-7s %-20s  %s\n", modes[i].name, modes[i].options, modes[i].looks_for);
}

static int start(struct hunt *hunt, int argc, char **argv, char **own)
{
    hunt->plan.command = argv + optind;
    hunt->plan.words = (size_t)(argc - optind);
    if (!hunt->plan.modes)
        hunt->plan.modes = ALL_MODES;
    if (hunt->kept && !*hunt->kept)
        return complain(STATUS_USAGE, "--keep: the folder's name is empty");
    int status = check_settings(hunt, own) ?: run_check(hunt->plan.command) ?: hunt->kept ? make_folder(hunt) : 0;
    return status ?: begin_list(hunt) ?: conclude(hunt, run_all(hunt));
}

static int run(int argc, char **argv)
{
    struct hunt hunt = {.plan = {.is_guarded_required = 1}, .settings = {.command = "hunt", .presets = 1}};
    char *own = NULL;
    int status = settings_insert(&hunt.settings, 0, "CUFENCE_OPTIONS", env_get("CUFENCE_OPTIONS"));
    if (status == 0 && arguments_read(&hunt_command, argc, argv, &hunt, &status))
        status = start(&hunt, argc, argv, &own);
    collected_free(&hunt.merged);
    settings_free(&hunt.settings);
    free(own);
    return status;
}

const struct command hunt_command = {
    .name = "hunt",
    .help = "run it once in each mode, and list what was found",
    .run = run,
    ARGUMENTS(arguments),
    ARGUMENTS_PROGRAM("hunt"),
    .about = "Runs a program under `cufence run` once in each mode, and lists what was found, each finding once.\n"
             "The program has the terminal, input and output to itself; all that hunt says goes to stderr. Ctrl-C ends the "
             "program and lists what was found so far; a second one kills the program.",
    .more = print_modes,
    .examples = "Example: cufence hunt --modes end,start -- python train.py --steps 10\n",
    SETTINGS_ROWS(struct hunt),
};
