/* The mode `deep` of `cufence hunt`. */
#include "hunt.h"

#include "analysis/verdict/diagnosis.h"
#include "arguments.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/text.h"
#include "finding/finding.h"
#include "finding/json.h"
#include "opened.h"
#include "program.h"
#include "sanitizer.h"
#include "supervise.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "compute-sanitizer"

enum { MOST_LAUNCHES = 256, PAUSE_MS = 200 };
#define MOST_OUTPUT ((size_t)64 << 20)
#define SMALL (UINT64_C(256) << 20) /* bytes of buffers of a launch that all tools look at at once */

#define complain(status, ...) arguments_complain("hunt", status, __VA_ARGS__)

static const char *const tools[DEEP_TOOL_COUNT] = {"memcheck", "racecheck", "initcheck", "synccheck"};

/* ---- the folder ---- */

int deep_open(struct plan *plan)
{
    char found[PATH_MAX];
    const char *parent = env_get("TMPDIR");
    if (program_find(PROGRAM, env_get("PATH"), found) != PROGRAM_FITS)
        return complain(STATUS_MISSING, "--deep needs " PROGRAM ", which comes with the CUDA toolkit: %s", error_detail());
    int length = plan->folder[0] ? snprintf(plan->launches, sizeof plan->launches, "%s/deep", plan->folder)
                                 : snprintf(plan->launches, sizeof plan->launches, "%s/cufence-deep-XXXXXX",
                                            parent && *parent ? parent : "/tmp");
    if (strpbrk(plan->launches, ",%"))
        return complain(STATUS_USAGE, "%s: the launches of --deep need a folder without , and %% in its name", plan->launches);
    int is_made = plan->folder[0] ? mkdir(plan->launches, 0700) == 0 : mkdtemp(plan->launches) != NULL;
    if (length >= (int)sizeof plan->launches || !is_made)
        return complain(STATUS_USAGE, "%s: %s; it is to hold the launches of --deep", plan->launches, strerror(errno));
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    return remove(path);
}

static void folder_remove(const char *folder)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void deep_close(const struct plan *plan)
{
    if (plan->launches[0] && !plan->folder[0])
        folder_remove(plan->launches);
}

/* ---- one launch under one tool ---- */

/* A saved launch, and what it is called. */
struct saved {
    char path[PATH_MAX + 300];
    struct opened opened;
    char *kernel; /* demangled; NULL: that is not known */
};

struct look {
    const struct plan *plan;
    const char *tool;
    const char *path;
    FILE *file; /* the tool's output; NULL: it was not started */
    int output; /* its descriptor */
    pid_t pid;
    uint64_t began_ns;
};

/* In the new process: what the tool and the replay say goes to the file. */
static int become(void *argument)
{
    const struct look *look = argument;
    char program[PATH_MAX];
    char *words[] = {"cufence", "replay", "--seconds", NULL, "--under", NULL, (char *)look->path, NULL};
    const char *more = !strcmp(look->tool, "memcheck")    ? " --report-api-errors no"
                       : !strcmp(look->tool, "initcheck") ? " --check-api-memory-access no"
                                                          : "";
    if (asprintf(&words[3], "%llu", (unsigned long long)look->plan->seconds) < 0 ||
        asprintf(&words[5], PROGRAM " --tool %s --show-backtrace no%s", look->tool, more) < 0)
        return STATUS_UNFIT;
    if (!installed_program(program) || dup2(look->output, 1) < 0 || dup2(look->output, 2) < 0)
        return STATUS_UNFIT;
    execv(program, words);
    return STATUS_UNFIT;
}

/* How a look has ended. */
struct end {
    int status; /* of waitpid() */
    int is_late, is_stopped;
};

/* The tool has a group of its own with all that it starts. */
static struct end wait_for(const struct look *look, struct signals *signals)
{
    struct end end = {0};
    while (look->pid > 0 && waitpid(look->pid, &end.status, WNOHANG) == 0) {
        end.is_stopped |= signals_wait(signals, PAUSE_MS);
        end.is_late |= monotonic_ns() - look->began_ns > look->plan->seconds * 1000000000;
        if (end.is_late || end.is_stopped)
            kill(-look->pid, SIGKILL);
    }
    return end;
}

static void read_output(int file, struct sanitizer_output *out)
{
    struct stat status;
    size_t size = fstat(file, &status) == 0 && status.st_size > 0 ? (size_t)status.st_size : 0;
    size = size < MOST_OUTPUT ? size : MOST_OUTPUT;
    char *text = malloc(size + 1);
    ssize_t got = text ? pread(file, text, size, 0) : 0;
    sanitizer_read(text ? text : "", got > 0 ? (size_t)got : 0, out);
    free(text);
}

/* ---- findings ---- */

static void add_finding(const struct saved *saved, const char *tool, const struct sanitizer_error *error, FILE *reports)
{
    struct evidence_lane lane = {.certainty = CERTAIN_EXACT};
    struct finding finding = {.origin = {.pid = (int)getpid(), .rank = -1, .device = -1}, .kind = tool, .reason = error->text};
    struct evidence_site *site = &finding.where.site;
    finding.where.is_known = finding.where.has_kernel = 1;
    finding.where.certainty = CERTAIN_EXACT;
    site->symbol = saved->opened.bundle->symbol;
    site->kernel = saved->kernel;
    site->kernel_offset = error->offset;
    site->file = error->file[0] ? error->file : NULL;
    site->line = error->line;
    site->has_grid = 1;
    site->shape = saved->opened.bundle->launches[0].shape;
    memcpy(site->block_index, error->block, sizeof site->block_index);
    memcpy(lane.thread, error->thread, sizeof lane.thread);
    finding.where.lane = error->has_thread ? &lane : NULL;
    finding.launch = (struct fault_origin){opened_record(&saved->opened, 0), CERTAIN_EXACT, 1};
    snprintf(finding.headline, sizeof finding.headline, "%s: %s", tool, error->text);
    finding_name(&finding, finding.name, sizeof finding.name);
    char *line = finding_json(&finding);
    for (uint64_t i = 0; line && i < error->times && i < 1000; i++)
        fputs(line, reports);
    free(line);
    finding_free(&finding);
}

/* Whether the tool counts errors that are not of the kernel's code. It prints 100 at most, and skips those that its buffer has
 * no room for: more of the same. */
static int has_others(const struct sanitizer_output *output)
{
    return output->summary > output->read && !(output->read && strstr(output->other, "errors were skipped"));
}

/* Says why the tool has no verdict on the launch, if it has none. */
static int tell_missing(const struct look *look, const struct end *end, const struct sanitizer_output *output, int is_filled)
{
    const char *said = output->other[0] ? output->other : output->said;
    const char *name = strrchr(look->path, '/') + 1;
    if (end->is_stopped)
        return 1;
    if (!is_filled && !strcmp(look->tool, "initcheck")) {
        complain(0, "deep: %s: initcheck takes all memory for written, because of fill=off: NOT LOOKED AT", name);
        return 1;
    }
    if (end->is_late)
        complain(0, "deep: %s: %s has not ended within %llu s (--seconds): NOT LOOKED AT", name, look->tool,
                 (unsigned long long)look->plan->seconds);
    else if (!output->has_summary)
        complain(0, "deep: %s: %s has FAILED (exit status %d), and said: %s", name, look->tool,
                 WIFEXITED(end->status) ? WEXITSTATUS(end->status) : 128 + WTERMSIG(end->status), said[0] ? said : "nothing");
    else if (has_others(output))
        complain(0, "deep: %s: %s counts %llu errors, of which %llu are not about a place in the kernel's code: %s", name,
                 look->tool, (unsigned long long)output->summary, (unsigned long long)(output->summary - output->read), said);
    return end->is_late || !output->has_summary || has_others(output);
}

/* Starts the tool, whose output goes to a file. */
static void begin(struct look *look, struct signals *signals)
{
    int refusal;
    look->file = tmpfile();
    look->output = look->file ? fileno(look->file) : -1;
    fcntl(look->output, F_SETFD, FD_CLOEXEC);
    look->began_ns = monotonic_ns();
    look->pid = look->file ? supervise_start("hunt", become, look, &signals->before, 1, &refusal) : -1;
}

/* Waits for its end, and adds what it has found. Returns 0 if the tool came to no verdict. */
static int finish(struct look *look, const struct saved *saved, struct signals *signals, struct sanitizer_output *output)
{
    struct end end = wait_for(look, signals);
    FILE *reports = fopen(look->plan->reports, "ae");
    read_output(look->output, output);
    for (size_t i = 0; reports && i < output->count; i++)
        add_finding(saved, look->tool, &output->errors[i], reports);
    int is_written = reports && fclose(reports) == 0;
    if (!is_written)
        complain(0, "deep: %s: %s", look->plan->reports, strerror(errno));
    if (look->file)
        fclose(look->file);
    return look->pid > 0 && is_written && !tell_missing(look, &end, output, saved->opened.bundle->filled != 0);
}

/* ---- all of them ---- */

static int open_saved(struct saved *saved)
{
    struct problem problem;
    if (opened_open(saved->path, &saved->opened, &problem) != CUFENCE_OK)
        return complain(0, "deep: %s: %s: NOT LOOKED AT", saved->path, problem.text);
    saved->kernel = text_demangled(saved->opened.bundle->symbol);
    return 1;
}

static uint64_t bytes_of(const struct bundle *bundle)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < bundle->buffer_count; i++)
        bytes += bundle->buffers[i].mapping_end - bundle->buffers[i].mapping_start;
    return bytes;
}

/* All tools at once where the device has room for that: each has a copy of the buffers. Returns how many had no verdict. */
static unsigned look_at(const struct plan *plan, struct saved *saved, struct signals *signals)
{
    struct sanitizer_output *output = malloc(sizeof *output);
    struct look looks[DEEP_TOOL_COUNT];
    unsigned missing = 0, begun = 0, done = 0, at_once = bytes_of(saved->opened.bundle) > SMALL ? 1 : DEEP_TOOL_COUNT;
    char found[160] = "";
    uint64_t began = monotonic_ns();
    for (unsigned i = 0; output && i < DEEP_TOOL_COUNT; i++) {
        if (plan->tools & 1u << i) {
            looks[begun] = (struct look){.plan = plan, .tool = tools[i], .path = saved->path};
            begin(&looks[begun++], signals);
        }
        for (; done < begun && (begun - done == at_once || i == DEEP_TOOL_COUNT - 1); done++) {
            int is_done = finish(&looks[done], saved, signals, output);
            missing += !is_done;
            snprintf(found + strlen(found), sizeof found - strlen(found), is_done ? "%s%s %llu" : "%s%s -", *found ? ", " : "",
                     looks[done].tool, (unsigned long long)output->read);
        }
    }
    complain(0, "deep: %s: %s (%.1f s)", strrchr(saved->path, '/') + 1, found, (double)(monotonic_ns() - began) / 1e9);
    missing += !output;
    free(output);
    return missing;
}

static int is_launch(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

void deep_look(const struct plan *plan, struct signals *signals, struct run *run)
{
    struct dirent **entries = NULL;
    struct deep *deep = &run->deep;
    int count = scandir(plan->launches, &entries, is_launch, versionsort);
    for (int i = 0; i < count; i++) {
        struct saved saved = {.opened = {.folder = -1, .buffers = -1}};
        char list[sizeof saved.path + 16];
        snprintf(saved.path, sizeof saved.path, "%s/%s", plan->launches, entries[i]->d_name);
        snprintf(list, sizeof list, "%s/" BUNDLE_INPUT, saved.path);
        int is_bundle = access(list, F_OK) == 0,
            is_taken = is_bundle && deep->looked < MOST_LAUNCHES && !signals_wait(signals, 0);
        deep->unsaved += !is_bundle;
        deep->left += is_bundle && !is_taken;
        if (is_taken && open_saved(&saved)) {
            deep->looked++;
            deep->missing += look_at(plan, &saved, signals);
        } else if (is_taken) {
            deep->missing++;
        }
        opened_close(&saved.opened);
        free(saved.kernel);
        free(entries[i]);
    }
    free(entries);
}
