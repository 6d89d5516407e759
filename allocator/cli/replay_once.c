/* One run of `cufence replay`, and its report. */
#include "replay.h"
#include "command_line.h"

#include "analysis/verdict/cause.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/text.h"
#include "finding/json.h"
#include "finding/report.h"
#include "rerun/rerun.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int replay_answer(void *user, const struct rerun_message *question, struct rerun_message *to)
{
    struct replay *replay = user;
    return question->type == MESSAGE_RESULT ? compare_answer(replay, question, to)
                                            : bundle_answer(&replay->reader, question, to);
}

static struct finding_source replay_source(const struct replay *replay)
{
    struct finding_source origin = facts_source(replay->reader.facts, replay->device);
    origin.pid = replay->reader.facts ? origin.pid : (int)getpid();
    origin.device = replay->device;
    origin.device_name = replay->device_name;
    return origin;
}

static void replay_print(const struct replay *replay, struct finding *finding)
{
    finding->is_verbose = replay->is_verbose;
    char *text = replay->is_json ? finding_json(finding) : finding_text(finding);
    fputs(text ? text : "cufence: the host has no memory for the report\n", stdout);
    free(text);
    finding_free(finding);
}

/* Reports a fault. first: the program's dump of it, if there is none of this launch. */
static void print_fault(const struct replay *replay, struct rerun *rerun, const struct evidence *first)
{
    const struct finding_source origin = replay_source(replay);
    const struct fault_memory *memory = facts_memory(replay->reader.facts);
    struct diagnosis diagnosis;
    struct finding finding;
    fault_diagnose(first ? first : rerun->evidence, memory, &diagnosis);
    if (rerun_follow(rerun, &diagnosis))
        fault_diagnose(rerun->evidence, memory, &diagnosis);
    rerun->result.launch = bundle_record(&replay->reader, rerun->number);
    diagnosis_take_rerun(&diagnosis, &rerun->result);
    rerun_trace(rerun, &diagnosis);
    cause_take(&diagnosis, &rerun->result.cause);
    finding_of_fault(&finding, &diagnosis, &rerun->result, &origin);
    file_source("replay", &finding);
    replay_print(replay, &finding);
}

/* The bytes that were written out of bounds, without a dump that says more. */
static void print_writes(const struct rerun_result *rerun)
{
    for (size_t i = 0; i < rerun->write_count; i++) {
        const struct rerun_write *write = &rerun->writes[i];
        if (write->buffer)
            printf("cufence replay: wrote %" PRIu64 " byte%s, %s %" PRIu64 " byte%s %s buffer #%" PRIu64 "\n", write->bytes,
                   plural(write->bytes), write->is_before ? "ending" : "beginning", write->distance, plural(write->distance),
                   write->is_before ? "before the start of" : "past the end of", write->buffer->id);
        else
            printf("cufence replay: wrote %" PRIu64 " byte%s out of bounds at 0x%" PRIx64 "\n", write->bytes,
                   plural(write->bytes), write->address);
    }
}

/* It wrote into the guards, but did not fault without them: the first dump says the rest, if it can be read. */
static void print_written(const struct replay *replay, struct rerun *rerun)
{
    struct evidence *evidence = NULL;
    struct problem ignored;
    const struct file_bytes *dump = &replay->reader.dump;
    if (dump->at && evidence_from_coredump(dump->at, dump->size, &evidence, &ignored) == CUFENCE_OK && evidence->stop_count)
        print_fault(replay, rerun, evidence);
    else if (!replay->is_json)
        print_writes(&rerun->result);
    evidence_free(evidence);
}

/* ---- what was written into slack ---- */

/* Where the launch is not on record, *entry is what the bundle has of it. */
static struct fault_launch launch_of(const struct replay *replay, uint32_t number, const struct launch_function *function,
                                     struct launch_entry *entry)
{
    const struct rerun_launch *launch = &replay->reader.bundle->launches[number];
    const struct fault_launch *found = bundle_record(&replay->reader, number);
    if (found)
        return *found;
    *entry = (struct launch_entry){
        .function = function, .time_ns = facts_memory(replay->reader.facts)->now_ns, .device = replay->device};
    entry->shape = launch->shape;
    return (struct fault_launch){.entry = entry};
}

/* The buffer as the bundle has it: the snapshot may be missing. */
static cufence_buffer buffer_at(const struct replay *replay, uint64_t address)
{
    static const struct bundle_buffer none;
    const struct bundle_buffer *found = bundle_find(replay->reader.bundle, address) ?: &none;
    return (cufence_buffer){.id = found->id,
                            .address = found->address,
                            .size = found->size,
                            .mapping_start = found->mapping_start,
                            .mapping_end = found->mapping_end,
                            .device = replay->device};
}

/* Gives each write a buffer: one that the snapshot does not name is in `listed`. */
static void name_listed(const struct replay *replay, struct rerun_result *rerun, cufence_buffer listed[RERUN_PLACES])
{
    for (size_t i = 0; i < rerun->write_count; i++) {
        struct rerun_write *write = &rerun->writes[i];
        if (write->buffer)
            continue;
        listed[i] = buffer_at(replay, write->address);
        write->buffer = &listed[i];
        write->is_before = write->address < write->buffer->address;
    }
}

/* Ranges on one side of a buffer follow each other. The values shown are those of the first. Returns the number of ranges that
 * were taken. */
static size_t take_ranges(const struct rerun_result *rerun, size_t first, struct slack_found *all)
{
    const struct rerun_write *write = &rerun->writes[first];
    size_t i = first + 1;
    *all = (struct slack_found){.is_before = write->is_before,
                                .address = write->address,
                                .span = write->bytes,
                                .changed = write->bytes,
                                .byte_count = write->value_bytes,
                                .buffers = 1,
                                .first_id = write->buffer->id};
    memcpy(all->bytes, write->values, write->value_bytes);
    for (; i < rerun->write_count; i++) {
        const struct rerun_write *next = &rerun->writes[i];
        if (!write->buffer->id || next->buffer->id != write->buffer->id || next->is_before != write->is_before)
            break;
        all->span = next->address + next->bytes - all->address;
        all->changed += next->bytes;
    }
    return i - first;
}

/* The launch wrote outside of buffers, but where no access faults. */
static void print_slack(const struct replay *replay, struct rerun *rerun)
{
    struct rerun_result *result = &rerun->result;
    const struct bundle *bundle = replay->reader.bundle;
    const struct rerun_launch *launch = &bundle->launches[rerun->number];
    const struct launch_function function = {.name = bundle->symbol};
    const struct finding_source origin = replay_source(replay);
    struct launch_entry entry;
    cufence_buffer listed[RERUN_PLACES];
    uint64_t changed = 0;
    name_listed(replay, result, listed);
    for (size_t i = 0, taken; i < result->write_count; i += taken) {
        struct finding finding;
        struct slack_write write = {.buffer = result->writes[i].buffer,
                                    .launches = {launch_of(replay, rerun->number, &function, &entry)},
                                    .launch_count = 1,
                                    .now_ns = facts_memory(replay->reader.facts)->now_ns,
                                    .buffer_frames = facts_memory(replay->reader.facts)->frames};
        taken = take_ranges(result, i, &write.found);
        slack_take_type(&write, bundle->layout ? bundle->symbol : NULL, bundle->layout, bundle->argument_count,
                        (struct span){launch->arguments, launch->argument_bytes});
        write.launch_total = 1;
        write.found.since_ns = write.launches[0].entry->time_ns;
        changed += write.found.changed;
        finding_of_slack(&finding, &write, &origin);
        replay_print(replay, &finding);
    }
    if (changed < result->written_bytes)
        fprintf(replay->is_json ? stderr : stdout,
                "cufence replay: more was written than is listed, %" PRIu64
                " bytes in all; only the first %d places are listed\n",
                result->written_bytes, RERUN_PLACES);
}

static enum replay_outcome tell(const struct replay *replay, struct rerun *rerun, int is_shown)
{
    struct rerun_result *result = &rerun->result;
    rerun_result_name_buffers(result, facts_memory(replay->reader.facts));
    switch (result->outcome) {
    case RERUN_FAULTED:
        if (is_shown)
            print_fault(replay, rerun, NULL);
        return REPLAY_FAULTED;
    case RERUN_WROTE:
        if (is_shown)
            print_written(replay, rerun);
        return REPLAY_FAULTED;
    case RERUN_NO_FAULT:
        if (result->write_count && is_shown)
            print_slack(replay, rerun);
        return result->write_count ? REPLAY_FAULTED : REPLAY_QUIET;
    case RERUN_FAILED:
    case RERUN_NOT_TRIED:
        break;
    }
    arguments_complain("replay", 0, "%s: cannot be launched: %s", replay->folder, result->reason);
    return REPLAY_FAILED;
}

enum replay_outcome replay_once(struct replay *replay, int is_shown)
{
    char limit[48];
    snprintf(limit, sizeof limit, "--seconds %" PRIu64, replay->seconds);
    struct rerun rerun = {.input = replay->input,
                          .program = replay->program,
                          .is_verbose = replay->is_verbose,
                          .limit_ms = replay->seconds * 1000,
                          .limit = limit,
                          .begin_ns = monotonic_ns(),
                          .answer = replay_answer,
                          .user = replay};
    fflush(stdout);
    compare_begin(replay);
    rerun_begin(&rerun);
    rerun_finish(&rerun);
    compare_end(replay);
    enum replay_outcome outcome = tell(replay, &rerun, is_shown);
    rerun_end(&rerun);
    return outcome;
}
