#include "tell.h"

#include "delivery.h"
#include "base/clock.h"
#include "base/known_findings.h"
#include "base/env.h"
#include "base/output.h"
#include "base/lost_reports.h"
#include "contexts/contexts.h"
#include "driver/driver.h"
#include "finding/finding.h"
#include "finding/json.h"
#include "finding/report.h"
#include "rerun_source.h"
#include "saving.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEVICE_NAME 128
#define VALUE_BYTES 64

static const struct options *wanted; /* constant after tell_open(), like rank */
static struct known_names known;     /* likewise */
static int rank;                     /* in a distributed job, or -1 */
static int is_annotated;             /* in a job of GitHub Actions */
static char checkout[512];           /* its folder, "" if unknown */

/* ---- what a finding says about the process ---- */

static const char *const job_names[PROCESS_JOB] = {"RANK",         "LOCAL_RANK",   "WORLD_SIZE",           "SLURM_JOB_ID",
                                                   "SLURM_PROCID", "SLURM_NODEID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};

/* Constant after process_open(). */
static char host[256], command[4096], values[PROCESS_JOB][VALUE_BYTES];
static const char *words[sizeof command]; /* of the command */
static size_t word_count;

/* Reads the command line, truncated to fit. */
static void read_command(void)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, command, sizeof command - 1) : 0;
    if (fd >= 0)
        close(fd);
    size_t size = got > 0 ? (size_t)got : 0;
    command[size] = '\0';
    word_count = 0;
    for (size_t at = 0; at < size; at += strlen(command + at) + 1)
        words[word_count++] = command + at;
}

void process_open(void)
{
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    for (int i = 0; i < PROCESS_JOB; i++) {
        const char *value = env_get(job_names[i]);
        snprintf(values[i], sizeof values[i], "%s", value ? value : "");
    }
    read_command();
}

struct finding_process process_now(char time_text[32])
{
    struct finding_process process = {
        .time = time_text, .host = host[0] ? host : NULL, .command = words, .word_count = word_count};
    time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || !strftime(time_text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc))
        process.time = NULL;
    for (int i = 0; i < PROCESS_JOB; i++) {
        if (!values[i][0])
            continue;
        process.job[process.job_count].name = job_names[i];
        process.job[process.job_count++].value = values[i];
    }
    return process;
}

/* The origin of a finding, and the strings that it points to. */
struct setting {
    struct finding_source origin;
    struct finding_process process;
    char name[DEVICE_NAME], time[32];
};

static const struct finding_source *setting_of(struct setting *setting, int device)
{
    driver_describe(device, setting->name, DEVICE_NAME);
    setting->process = process_now(setting->time);
    setting->origin = (struct finding_source){.pid = (int)getpid(),
                                              .rank = rank,
                                              .device = device,
                                              .device_name = setting->name[0] ? setting->name : NULL,
                                              .process = &setting->process};
    return &setting->origin;
}

/* For the rest of the block. */
#define ORIGIN(device) setting_of(&(struct setting){.name = ""}, device)

static void add_json(char *line)
{
    delivery_print(NULL, line);
    free(line);
}

cufence_status tell_open(const struct options *options)
{
    wanted = options;
    rank = options_rank();
    process_open();
    const char *actions = env_get("GITHUB_ACTIONS"), *workspace = env_get("GITHUB_WORKSPACE");
    is_annotated = actions && !strcmp(actions, "true");
    snprintf(checkout, sizeof checkout, "%s", workspace ? workspace : "");
    known_free(&known);
    cufence_status status = delivery_open(options) ?: known_read_option(&known, options->known);
    /* So that the file is there, and says that it is cufence's, although nothing may ever be found. */
    if (status == CUFENCE_OK && delivery_needs_head())
        add_json(json_of_guarded(ORIGIN(-1), NULL));
    return status ?: saving_open(options);
}

void tell_guarded(const struct guarded *guarded)
{
    add_json(json_of_guarded(ORIGIN(-1), guarded));
}

static cufence_place place_of(const struct buffer_fact *fact)
{
    const cufence_place inside = fact->buffer && fact->buffer->freed_ns ? CUFENCE_PLACE_FREED : CUFENCE_PLACE_INSIDE;
    return fact->from == PAST_END       ? CUFENCE_PLACE_PAST_END
           : fact->from == BEFORE_START ? CUFENCE_PLACE_BEFORE_START
           : fact->from == FROM_START   ? inside
                                        : CUFENCE_PLACE_UNKNOWN;
}

static void call_handler(const struct finding *finding, const char *text)
{
    _Static_assert((int)ACCESS_ATOMIC == CUFENCE_ACCESS_ATOMIC && (int)CERTAIN_EXACT == CUFENCE_CERTAINTY_EXACT, "alike");
    const struct where_fact *where = &finding->where;
    cufence_fault fault = {
        .struct_size = sizeof fault,
        .text = text,
        .kind = finding->kind,
        .device = finding->origin.device,
        .access = (cufence_access)finding->access.kind,
        .width = finding->access.bytes,
        .is_address_known = finding->address.is_one,
        .address = finding->address.is_one ? finding->address.value : 0,
        .buffer = finding->buffer.buffer,
        .place = place_of(&finding->buffer),
        .distance = finding->buffer.distance,
        .certainty = (cufence_certainty)(finding->buffer.buffer ? finding->buffer.certainty : finding->address.certainty),
        .kernel = where->is_known ? where->stop.kernel : NULL,
        .file = where->is_known ? where->stop.file : NULL,
        .line = where->is_known ? where->stop.line : 0,
        .is_thread_known = where->lane != NULL};
    for (int i = 0; where->lane && i < 3; i++) {
        fault.block[i] = where->stop.block_index[i];
        fault.thread[i] = where->lane->thread[i];
    }
    delivery_call_handler(&fault);
}

static void annotate(const struct finding *finding)
{
    char *text = finding_annotation(finding, checkout[0] ? checkout : NULL);
    if (text)
        output_print(text, 1);
    free(text);
}

struct report {
    char *text; /* NULL if out of host memory */
    int is_printed;
    uint64_t made_ns; /* when the report was made, by monotonic_ns() */
};

/* Equal for repetitions on the same device by the same instruction; 0: that is not known. */
static uint64_t identity_of(const struct finding *finding)
{
    uint64_t own = (uint64_t)(uint32_t)finding->origin.device ^ (finding->slack ? 0 : finding->where.stop.kernel_offset << 16);
    char *key = strcmp(finding->kind, FINDING_UNEXPLAINED) ? finding_key(finding) : NULL;
    uint64_t identity = key ? finding_hash(key) + own : 0;
    free(key);
    return identity;
}

/* Makes and delivers the report. finding: NULL if out of host memory. One that the user knows is counted, and goes to the file
 * of JSON only. */
static struct report publish(struct finding *finding)
{
    struct report report = {.made_ns = monotonic_ns()};
    uint64_t identity = finding ? identity_of(finding) : 0;
    enum known as = known_as(&known, finding ? finding->name : "");
    if (finding) {
        finding->known = known_words[as];
        finding->is_verbose = wanted->say == SAY_VERBOSE;
    }
    char *json = finding ? finding_json(finding) : NULL;
    report.text = finding && as == KNOWN_NOT ? finding_text(finding) : NULL;
    if (as != KNOWN_NOT) {
        delivery_keep_known(json, identity);
    } else {
        report.made_ns = monotonic_ns();
        report.is_printed = delivery_publish(report.text, json, report.text ? identity : 0);
    }
    free(json);
    if (report.is_printed && finding && is_annotated)
        annotate(finding);
    return report;
}

/* Calls the program's handler, last because it may exit the process. Frees the report and the finding. */
static uint64_t finish(struct finding *finding, struct report report)
{
    if (report.text)
        call_handler(finding, report.text);
    free(report.text);
    finding_free(finding);
    stack_frames_done();
    return report.made_ns;
}

/* Makes the report, and finishes with it. stops: the device's contexts are marked first, or the handler would get memory; the
 * process waits for the report by then. */
static uint64_t tell(struct finding *finding, int stops)
{
    untold_begin();
    if (stops)
        contexts_set_faulted(finding->origin.device, CUDA_ERROR_ASSERT);
    const struct report report = publish(finding);
    untold_end();
    return finish(finding, report);
}

/* Completes the bundle of a fault that was printed. */
static void save(const struct fault *fault, const struct finding *finding, const struct report *report)
{
    const struct rerun_result *rerun = fault->rerun;
    if (!fault->saving)
        return;
    if (!report->is_printed || !report->text) {
        saving_drop(fault->saving);
        return;
    }
    int is_launched = rerun && rerun->launches_tried;
    struct saving_rest rest = {.dump = fault->dump,
                               .second = rerun_source_dump(fault->source),
                               .memory = &fault->around->memory,
                               .rerun = rerun,
                               .report = report->text,
                               .finding = finding_json(finding),
                               .no_launch = is_launched ? NULL
                                            : rerun && rerun->reason[0]
                                                ? rerun->reason
                                                : "the fault is not one of a memory access, or explain=dump"};
    if (is_launched)
        rest.launch = rerun_source_bundle(fault->source);
    saving_finish(fault->saving, &rest);
}

uint64_t tell_fault(struct fault *fault)
{
    struct finding finding;
    struct setting setting;
    if (!fault->around)
        return publish(NULL).made_ns;
    fault_finish(fault);
    finding_of_fault(&finding, &fault->diagnosis, fault->rerun, setting_of(&setting, fault->device));
    finding.where.source_count = source_read(finding.where.stop.file, finding.where.stop.line, finding.where.source);
    struct report report = publish(&finding);
    save(fault, &finding, &report);
    return finish(&finding, report);
}

uint64_t tell_unexplained(int device, const char *reason)
{
    struct finding finding;
    finding_unexplained(&finding, reason, ORIGIN(device));
    return tell(&finding, 0);
}

void tell_misuse(const struct misuse *misuse)
{
    struct finding finding;
    finding_of_misuse(&finding, misuse, ORIGIN(misuse->where->buffer.id ? misuse->where->buffer.device : -1));
    tell(&finding, 0);
}

/* Launches again as long as all of that together has taken less than what one fault may take: the program waits for it. */
static struct slack_rerun *launch_again(struct slack_write *write, kernel_code code)
{
    static uint64_t taken_ns; /* atomic */
    uint64_t began_ns = monotonic_ns();
    if (!code || __atomic_load_n(&taken_ns, __ATOMIC_RELAXED) >= wanted->rerun_ms * 1000000)
        return NULL;
    struct slack_rerun *again = slack_rerun(wanted, write, code);
    __atomic_add_fetch(&taken_ns, monotonic_ns() - began_ns, __ATOMIC_RELAXED);
    return again;
}

void tell_slack(struct slack_write *write, kernel_code code)
{
    struct finding finding;
    struct slack_rerun *again = launch_again(write, code);
    finding_of_slack(&finding, write, ORIGIN(write->buffer->device));
    finding.where.source_count = source_read(finding.where.stop.file, finding.where.stop.line, finding.where.source);
    tell(&finding, 0);
    slack_rerun_free(again);
}

void tell_leak(struct leak *leak)
{
    struct finding finding;
    finding_of_leak(&finding, leak, ORIGIN(leak->largest->device));
    tell(&finding, 0);
}

void tell_nan(const struct nan_fact *nan, int device, int stops)
{
    struct finding finding;
    finding_of_nan(&finding, nan, ORIGIN(device));
    tell(&finding, stops);
}

char *tell_stuck(struct stuck_fact *stuck, int device)
{
    struct finding finding;
    finding_of_stuck(&finding, stuck, ORIGIN(device));
    finding.where.source_count = source_read(finding.where.stop.file, finding.where.stop.line, finding.where.source);
    char *text = finding_text(&finding);
    tell(&finding, 0);
    return text;
}
