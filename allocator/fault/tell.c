#include "tell.h"

#include "delivery.h"
#include "analysis/verdict/launches.h"
#include "analysis/verdict/cause.h"
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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICE_NAME 128

static const struct options *wanted; /* constant after tell_open(), like rank */
static struct known_names known;     /* likewise */
static int rank;                     /* in a distributed job, or -1 */
static int is_annotated;             /* in a job of GitHub Actions */
static char checkout[512];           /* its folder, "" if unknown */

/* The origin of a finding, and the strings that it points to. */
struct setting {
    struct finding_origin origin;
    struct finding_process process;
    char name[DEVICE_NAME], time[32];
};

static const struct finding_origin *setting_of(struct setting *setting, int device)
{
    driver_describe(device, setting->name, DEVICE_NAME);
    setting->process = process_now(setting->time);
    setting->origin = (struct finding_origin){.pid = (int)getpid(),
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

static void call_handler(const struct finding *finding, const char *text)
{
    const struct evidence_site *site = finding->where.is_known ? &finding->where.site : NULL;
    cufence_fault fault = {.text = text,
                           .kind = finding->kind,
                           .kernel = site ? site->kernel : NULL,
                           .file = site ? site->file : NULL,
                           .line = site ? site->line : 0,
                           .is_address_known = finding->address.certainty != CERTAIN_NOT,
                           .address = finding->address.value,
                           .buffer = finding->buffer.buffer,
                           .device = finding->origin.device};
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
    uint64_t own = (uint64_t)(uint32_t)finding->origin.device ^ (finding->slack ? 0 : finding->where.site.kernel_offset << 16);
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

struct telling {
    const struct fault *fault;
    struct surroundings *around;
    struct variables_kept *variables; /* NULL: none */
    struct rerun_source *source;      /* NULL: the kernel is not launched again */
    struct saving *saving;            /* NULL: nothing is saved */
};

struct telling *tell_begin(const struct fault *fault)
{
    struct telling *telling = malloc(sizeof *telling);
    struct variables_kept *variables = rerun_source_is_wanted(wanted) ? variables_keep(fault) : NULL;
    struct surroundings *around = surroundings_of(fault->evidence, fault->device);
    if (!telling || !around) {
        variables_free(variables);
        free(telling);
        free(around);
        return NULL;
    }
    boxes_place(fault->evidence, &around->memory);
    surroundings_add(around, fault->evidence);
    *telling = (struct telling){fault, around, variables, NULL, saving_begin(wanted)};
    telling->source = rerun_source_begin(wanted, fault, around, telling->saving, variables);
    return telling;
}

int telling_takes_time(const struct telling *telling)
{
    return telling && telling->source;
}

/* Waits for the second launch, and adds the buffers that it concerns. Returns NULL if there is none. */
static const struct rerun_result *second_launch(struct telling *telling)
{
    if (!telling->source)
        return NULL;
    struct rerun_result *rerun = rerun_source_finish(telling->source);
    if (rerun->evidence)
        surroundings_add(telling->around, rerun->evidence);
    for (size_t i = 0; i < rerun->write_count; i++)
        surroundings_add_address(telling->around, rerun->writes[i].address);
    rerun_result_name_buffers(rerun, &telling->around->memory);
    return rerun;
}

/* Completes the bundle of a fault that was printed. */
static void save(struct telling *telling, const struct rerun_result *rerun, const struct finding *finding,
                 const struct report *report)
{
    if (!telling->saving)
        return;
    if (!report->is_printed || !report->text) {
        saving_drop(telling->saving);
        return;
    }
    int is_launched = rerun && rerun->launches_tried;
    const struct saving_rest rest = {.dump = telling->fault->dump,
                                     .second = rerun_source_dump(telling->source),
                                     .memory = &telling->around->memory,
                                     .rerun = rerun,
                                     .report = report->text,
                                     .finding = finding_json(finding),
                                     .no_launch = is_launched ? NULL
                                                  : rerun && rerun->reason[0]
                                                      ? rerun->reason
                                                      : "the fault is not one of a memory access, or explain=dump"};
    if (is_launched)
        rerun_source_describe(telling->source, saving_bundle(telling->saving));
    saving_finish(telling->saving, &rest);
}

/* Diagnoses the fault, and finds what its address is made of; *cause is for that, as the dump alone tells it. */
static void diagnose(struct telling *telling, const struct rerun_result *rerun, struct diagnosis *diagnosis,
                     struct origin *cause)
{
    struct surroundings *around = telling->around;
    fault_diagnose_rerun(telling->fault->evidence, rerun, &around->memory, diagnosis);
    if (rerun)
        rerun_source_trace(telling->source, diagnosis);
    if (rerun && rerun->cause.is_known) {
        surroundings_add_address(around, rerun->cause.base);
        for (uint32_t i = 0; i < rerun->cause.term_count; i++)
            surroundings_add_address(around, rerun->cause.terms[i].from);
        fault_diagnose_rerun(telling->fault->evidence, rerun, &around->memory, diagnosis);
    }
    if (!diagnosis->cause)
        cause_in_dump(&telling->fault->opened, diagnosis, cause);
}

uint64_t tell_fault(struct telling *telling)
{
    struct diagnosis diagnosis;
    struct origin cause;
    struct finding finding;
    struct setting setting;
    if (!telling)
        return publish(NULL).made_ns;
    const struct rerun_result *rerun = second_launch(telling);
    diagnose(telling, rerun, &diagnosis, &cause);
    finding_of_fault(&finding, &diagnosis, rerun, setting_of(&setting, telling->fault->device));
    finding.where.source_count = source_read(finding.where.site.file, finding.where.site.line, finding.where.source);
    struct report report = publish(&finding);
    save(telling, rerun, &finding, &report);
    uint64_t made_ns = finish(&finding, report);
    rerun_source_free(telling->source);
    variables_free(telling->variables);
    free(telling->around);
    free(telling);
    return made_ns;
}

uint64_t tell_unexplained(size_t size, const char *why)
{
    char reason[640];
    struct finding finding;
    snprintf(reason, sizeof reason, "its core dump (%zu bytes) cannot be read: %s", size, why);
    finding_unexplained(&finding, reason, ORIGIN(-1));
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
    finding.where.source_count = source_read(finding.where.site.file, finding.where.site.line, finding.where.source);
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
