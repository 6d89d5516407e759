/* One run of `cufence replay`, and its report. */
#include "replay.h"

#include "base/source.h"
#include "finding/json.h"
#include "finding/report.h"
#include "witness/staging.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int answer(void *user, const struct stage_message *question, struct stage_message *to)
{
    struct replay *replay = user;
    return question->type == STAGE_RESULT ? compare_answer(replay, question, to) : opened_answer(&replay->opened, question, to);
}

static const struct fault_memory *memory_of(const struct replay *replay)
{
    static const struct fault_memory unknown = {.is_unknown = 1};
    return replay->opened.snapshot ? &replay->opened.snapshot->memory : &unknown;
}

static void print(const struct replay *replay, const struct diagnosis *diagnosis, const struct restaged *restaged)
{
    const struct snapshot *snapshot = replay->opened.snapshot;
    const struct finding_origin origin = {.pid = snapshot ? snapshot->origin.pid : (int)getpid(),
                                          .rank = snapshot ? snapshot->origin.rank : -1,
                                          .device = replay->device,
                                          .device_name = replay->device_name};
    struct finding finding;
    finding_of_fault(&finding, diagnosis, restaged, &origin);
    finding.source_count = source_read(finding.site.file, finding.site.line, finding.source);
    char *text = replay->is_json ? finding_json(&finding) : finding_text(&finding);
    printf("%s%s", text ? text : "cufence: the host has no memory for the report\n", text && replay->is_json ? "\n" : "");
    free(text);
    finding_free(&finding);
}

/* The bytes that were written out of bounds, without a dump that says more. Among zeros, those of the same value are not seen.
 */
static void print_writes(const struct restaged *restaged, const char *what)
{
    for (size_t i = 0; i < restaged->write_count; i++) {
        const struct restaged_write *write = &restaged->writes[i];
        if (write->buffer)
            printf("cufence replay: %" PRIu64 " %s were written %" PRIu64 " bytes %s buffer #%" PRIu64 "\n", write->bytes, what,
                   write->distance, write->is_before ? "before the start of" : "past the end of", write->buffer->id);
        else
            printf("cufence replay: %" PRIu64 " %s were written out of bounds at 0x%" PRIx64 "\n", write->bytes, what,
                   write->address);
    }
}

/* It wrote into the guards, but did not fault without them: the first dump says the rest, unless it cannot be read. */
static void print_written(const struct replay *replay, const struct restaged *restaged)
{
    struct evidence *evidence = NULL;
    struct diagnosis diagnosis;
    struct problem ignored;
    const struct loaded *dump = &replay->opened.dump;
    if (replay->scene.mode == SCENE_WHOLE && dump->at &&
        evidence_from_coredump(dump->at, dump->size, &evidence, &ignored) == CUFENCE_OK && evidence->site_count) {
        fault_diagnose_restaged(evidence, restaged, memory_of(replay), &diagnosis);
        print(replay, &diagnosis, restaged);
    } else if (!replay->is_json) {
        print_writes(restaged, replay->scene.mode == SCENE_ZEROS ? "bytes other than 0" : "bytes");
    }
    evidence_free(evidence);
}

static enum replay_outcome tell(const struct replay *replay, struct staging *staging, int is_told)
{
    struct restaged *restaged = &staging->result;
    struct diagnosis diagnosis;
    restaged_name_buffers(restaged, memory_of(replay));
    switch (restaged->outcome) {
    case RESTAGE_FAULTED:
        fault_diagnose_restaged(staging->evidence, restaged, memory_of(replay), &diagnosis);
        if (is_told)
            print(replay, &diagnosis, restaged);
        return REPLAY_FAULTED;
    case RESTAGE_WROTE:
        if (is_told)
            print_written(replay, restaged);
        return replay->scene.mode == SCENE_ZEROS ? REPLAY_QUIET : REPLAY_FAULTED;
    case RESTAGE_NO_FAULT:
        return REPLAY_QUIET;
    case RESTAGE_FAILED:
    case RESTAGE_NOT_TRIED:
        break;
    }
    fprintf(stderr, "cufence replay: %s: cannot be launched: %s\n", replay->folder, restaged->reason);
    return REPLAY_FAILED;
}

enum replay_outcome replay_once(struct replay *replay, int is_told)
{
    char limit[48];
    snprintf(limit, sizeof limit, "--seconds %" PRIu64, replay->seconds);
    struct staging staging = {.scene = replay->scene,
                              .program = replay->program,
                              .is_verbose = replay->is_verbose,
                              .limit_ms = replay->seconds * 1000,
                              .limit = limit,
                              .begin_ns = dump_clock(),
                              .answer = answer,
                              .user = replay};
    fflush(stdout);
    compare_begin(replay);
    staging_begin(&staging);
    staging_finish(&staging);
    compare_end(replay);
    enum replay_outcome outcome = tell(replay, &staging, is_told);
    staging_end(&staging);
    return outcome;
}
