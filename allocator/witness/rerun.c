#include "rerun.h"

#include "analysis/dump/image.h"
#include "analysis/sass/fence.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/image.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cufence_status rerun_fail(struct rerun *rerun, const char *why)
{
    if (rerun->result.outcome == RERUN_FAILED)
        return CUFENCE_ERROR_UNSUPPORTED;
    rerun->result.outcome = RERUN_FAILED;
    snprintf(rerun->result.reason, sizeof rerun->result.reason, "%s", why);
    return CUFENCE_ERROR_UNSUPPORTED;
}

/* The time that is left. While memory is saved it does not pass, up to saving_ms. */
static int ms_left(const struct rerun *rerun)
{
    uint64_t now = monotonic_ns();
    uint64_t saved = (rerun->saved_ns + (rerun->saving_since_ns ? now - rerun->saving_since_ns : 0)) / 1000000;
    uint64_t passed = (now - rerun->begin_ns) / 1000000;
    uint64_t limit = rerun->limit_ms + (saved < rerun->saving_ms ? saved : rerun->saving_ms);
    return passed < limit ? (int)(limit - passed) : 0;
}

/* ---- the kernel's code ---- */

/* Puts barriers in front of the exits, into a copy of the image. */
static void put_barriers(struct rerun *rerun)
{
    struct rerun_input *input = &rerun->input;
    struct problem ignored;
    struct fence fence;
    size_t size = input->image_bytes;
    rerun->plain = (struct span){input->image, size};
    rerun->is_open = 1;
    uint8_t *copy = malloc(size);
    if (copy)
        memcpy(copy, input->image, size);
    if (!copy || fence_put(&copy, &size, input->symbol, &fence, &ignored) != CUFENCE_OK || !fence.fenced) {
        free(copy);
        return;
    }
    input->image = rerun->fenced = copy;
    input->image_bytes = size;
    rerun->is_open = fence.fenced < fence.exits;
}

static void take_barriers_off(struct rerun *rerun)
{
    rerun->input.image = rerun->plain.bytes;
    rerun->input.image_bytes = rerun->plain.size;
    rerun->is_open = 1;
    free(rerun->fenced);
    rerun->fenced = NULL;
}

void rerun_aim(struct rerun *rerun, const struct diagnosis *diagnosis)
{
    const struct evidence_site *site = fault_site(diagnosis);
    int is_known = diagnosis->address_certainty != CERTAIN_NOT && !diagnosis->is_completed;
    rerun->has_access = !is_known && site && site->symbol && !strcmp(site->symbol, rerun->input.symbol) &&
                        !site->is_in_driver &&
                        (site->exception.class == CLASS_ADDRESS || site->exception.class == CLASS_GIVEN_ONLY);
    rerun->input.access_at = rerun->has_access ? site->kernel_offset : 0;
}

/* ---- the process ---- */

static cufence_status start(struct rerun *rerun)
{
    uint64_t ms = (uint64_t)ms_left(rerun) + (rerun->input.is_saved ? rerun->saving_ms : 0);
    struct rerun_message message = {.type = MESSAGE_INPUT, .number = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX};
    int ends[2] = {-1, -1}, input = -1;
    rerun->input.dump = MESSAGE_DUMP;
    cufence_status status = CUFENCE_OK;
    if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        status = error_set(CUFENCE_ERROR_SYSTEM, "a pipe cannot be made: %s", strerror(errno));
    else if ((input = rerun_input_write(&rerun->input)) < 0)
        status = error_set(CUFENCE_ERROR_SYSTEM, "the input cannot be written: %s", strerror(errno));
    if (status == CUFENCE_OK)
        status = rerun_process_start(rerun->program, rerun->is_verbose, ends[1], &rerun->process);
    if (status == CUFENCE_OK) {
        rerun->is_running = 1;
        rerun->dump_pipe = ends[0];
        rerun_send(rerun->process.socket, &message, input);
    } else if (ends[0] >= 0) {
        close(ends[0]);
    }
    if (ends[1] >= 0)
        close(ends[1]);
    if (input >= 0)
        close(input);
    return status == CUFENCE_OK ? status : rerun_fail(rerun, error_detail());
}

cufence_status rerun_begin(struct rerun *rerun)
{
    put_barriers(rerun);
    return start(rerun);
}

static void stop(struct rerun *rerun)
{
    if (!rerun->is_running)
        return;
    rerun_process_end(&rerun->process);
    close(rerun->dump_pipe);
    rerun->is_running = 0;
}

/* ---- what the second process says ---- */

static void take_write(struct rerun *rerun, const struct rerun_message *message)
{
    struct rerun_result *result = &rerun->result;
    result->written_bytes += message->bytes;
    if (result->write_count == sizeof result->writes / sizeof *result->writes)
        return;
    struct rerun_write *write = &result->writes[result->write_count++];
    *write = (struct rerun_write){.is_slack = message->number != 0, .address = message->address, .bytes = message->bytes};
    write->value_bytes = message->value_bytes < sizeof write->values ? message->value_bytes : sizeof write->values;
    memcpy(write->values, message->values, write->value_bytes);
}

/* Whether anything was written where an access faults. */
static int has_left(const struct rerun_result *result)
{
    return result->write_count && !result->writes[0].is_slack;
}

static void give(struct rerun *rerun, const struct rerun_message *question)
{
    struct rerun_message answer = {.type = MESSAGE_NONE};
    int fd = rerun->answer(rerun->user, question, &answer);
    rerun_answer(rerun->process.socket, &answer, fd);
    if (question->type == MESSAGE_SAVE)
        rerun->saving_since_ns = monotonic_ns();
}

static void take_launch(struct rerun *rerun, const struct rerun_message *message)
{
    rerun->number = message->number < rerun->input.launch_count ? message->number : 0;
    rerun->has_patterns = message->address != 0;
    if (rerun->result.launches_tried <= rerun->number)
        rerun->result.launches_tried = rerun->number + 1;
}

/* why: is added to the text. */
static void take_note(struct rerun_result *result, const char *text, const char *why)
{
    size_t length = strlen(result->note);
    snprintf(result->note + length, sizeof result->note - length, "%s%s%s", length ? "; " : "", text, why);
}

static void take_lost(struct rerun_result *result, const char *why)
{
    take_note(result, "the kernel's threads could not be emulated: ", why);
}

static void take_figures(struct rerun *rerun, const struct rerun_message *message)
{
    struct rerun_result *result = &rerun->result;
    if (result->figure_count < sizeof result->figures / sizeof *result->figures)
        result->figures[result->figure_count++] = message->figures;
}

static void take_lane(struct rerun *rerun, const struct rerun_message *message)
{
    struct rerun_result *result = &rerun->result;
    rerun->has_followed = 1;
    if (result->emulated_count == sizeof result->emulated / sizeof *result->emulated)
        return;
    struct evidence_lane *lane = &result->emulated[result->emulated_count++];
    *lane = (struct evidence_lane){.lane = message->number,
                                   .address = message->address,
                                   .known_bits = UINT64_MAX,
                                   .certainty = CERTAIN_DERIVED,
                                   .is_replayed = 1};
    memcpy(lane->thread, message->thread, sizeof lane->thread);
    memcpy(result->emulated_block, message->block, sizeof result->emulated_block);
}

/* Handles one message. Returns 0 at the end of the conversation. */
static int converse(struct rerun *rerun)
{
    struct rerun_message message;
    int fd;
    if (!rerun_receive(rerun->process.socket, &message, &fd))
        return 0;
    if (fd >= 0)
        close(fd);
    if (rerun->saving_since_ns)
        rerun->saved_ns += monotonic_ns() - rerun->saving_since_ns;
    rerun->saving_since_ns = 0;
    switch (message.type) {
    case MESSAGE_NEED:
    case MESSAGE_SAVE:
    case MESSAGE_RESULT:
        give(rerun, &message);
        return 1;
    case MESSAGE_LAUNCHES:
        take_launch(rerun, &message);
        return 1;
    case MESSAGE_WROTE:
        take_write(rerun, &message);
        return 1;
    case MESSAGE_FIGURES:
        take_figures(rerun, &message);
        return 1;
    case MESSAGE_LANE:
        take_lane(rerun, &message);
        return 1;
    case MESSAGE_LOST:
        take_lost(&rerun->result, message.text);
        rerun->has_followed = 1;
        return 1;
    case MESSAGE_NOTE:
        take_note(&rerun->result, message.text, "");
        return 1;
    case MESSAGE_FAILED:
        rerun->is_refused = message.number != 0;
        rerun_fail(rerun, message.text);
        return 0;
    default:
        rerun->is_done = message.type == MESSAGE_DONE;
        return 0;
    }
}

/* Reads what has arrived of the dump. Returns 0 once it is complete. */
static int take_dump(struct rerun *rerun)
{
    enum dump_state state;
    do
        state = dump_take(rerun->dump_pipe, &rerun->dump);
    while (state == DUMP_TAKEN);
    return state != DUMP_OVER || !rerun->dump.received;
}

/* Serves the process until it ends, or until the time is over. */
static void serve(struct rerun *rerun)
{
    int is_talking = 1, is_dumping = 1;
    while (is_talking) {
        struct pollfd wait[] = {{.fd = rerun->process.socket, .events = POLLIN}, {.fd = rerun->dump_pipe, .events = POLLIN}};
        int left = ms_left(rerun);
        if (!left) {
            char why[96];
            snprintf(why, sizeof why, "it took longer than %s", rerun->limit);
            if (!has_left(&rerun->result)) /* else this much is known */
                rerun_fail(rerun, why);
            break;
        }
        if (poll(wait, is_dumping ? 2 : 1, left < 50 ? left : 50) <= 0)
            continue;
        if (is_dumping && wait[1].revents)
            is_dumping = take_dump(rerun);
        if (wait[0].revents)
            is_talking = converse(rerun);
    }
    if (is_dumping)
        take_dump(rerun);
}

static void forget_evidence(struct rerun *rerun)
{
    evidence_free(rerun->evidence);
    dump_forget(&rerun->second);
    rerun->evidence = NULL;
}

/* Serves one process. Returns 1 if the launch faulted and the dump of that could be read. */
static int run(struct rerun *rerun)
{
    serve(rerun);
    stop(rerun);
    if (!rerun->dump.received)
        return 0;
    struct problem problem;
    struct evidence *evidence = NULL;
    if (dump_is_complete(&rerun->dump) &&
        evidence_from_coredump(rerun->dump.bytes, rerun->dump.size, &evidence, &problem) == CUFENCE_OK) {
        forget_evidence(rerun);
        rerun->evidence = evidence;
        rerun->second = rerun->dump;
        rerun->dump = (struct dump){0};
    }
    dump_forget(&rerun->dump);
    return evidence != NULL;
}

/* Starts another process, with the launch that ran last, if one did. Returns 1 if it faulted and the dump could be read. */
static int run_again(struct rerun *rerun, enum rerun_mode mode)
{
    struct rerun_input *input = &rerun->input;
    const struct rerun_input whole = *input;
    uint32_t number = rerun->number;
    int has_launched = rerun->result.launches_tried > 0;
    input->mode = mode;
    input->is_saved = input->is_compared = 0;
    if (has_launched) {
        input->launches += number;
        input->launch_count = 1;
        input->range_count = 0; /* their figures are there */
    }
    int has_faulted = start(rerun) == CUFENCE_OK && run(rerun);
    stop(rerun);
    *input = whole;
    if (has_launched)
        rerun->number = number;
    return has_faulted;
}

/* It faulted beyond the patterned pages, so its first accesses out of bounds went into them. Launches that one alone, without.
 */
static void run_bare(struct rerun *rerun)
{
    struct rerun_result before = rerun->result;
    run_again(rerun, RERUN_BARE);
    rerun->result = before; /* its failure takes nothing away */
}

/* The driver does not take the code with barriers. */
static int run_plain(struct rerun *rerun)
{
    take_barriers_off(rerun);
    rerun->is_refused = 0;
    rerun->result = (struct rerun_result){.has_variables = rerun->result.has_variables};
    return start(rerun) == CUFENCE_OK && run(rerun);
}

/* Emulates in a process of its own, unless that was done, or the launch was not possible for another reason than the code. */
static void follow(struct rerun *rerun)
{
    struct rerun_result *result = &rerun->result, before = *result;
    int is_faulty = before.outcome == RERUN_FAULTED || before.outcome == RERUN_WROTE;
    if (!rerun->has_access || !rerun->is_open || rerun->has_followed || rerun->input.mode != RERUN_WHOLE ||
        !(is_faulty || rerun->is_refused) || !ms_left(rerun))
        return;
    result->outcome = RERUN_NOT_TRIED;
    run_again(rerun, RERUN_FOLLOWED);
    if (!rerun->has_followed)
        take_lost(result, result->outcome == RERUN_FAILED ? result->reason : "the process for it has ended early");
    result->outcome = before.outcome;
    result->launches_tried = before.launches_tried;
    memcpy(result->reason, before.reason, sizeof result->reason);
}

/* Takes the code that ran out of the dump of the second launch. Returns 0 if it is not there. */
static int take_dumped(struct rerun *rerun)
{
    struct rerun_input *input = &rerun->input;
    struct coredump dump;
    struct problem ignored;
    cufence_status status = coredump_open(rerun->second.bytes, rerun->second.size, &dump, &ignored);
    if (status == CUFENCE_OK)
        status = image_of_kernel(&dump, input->symbol, 0, &rerun->dumped, &input->image_bytes, &ignored);
    coredump_close(&dump);
    if (status == CUFENCE_OK)
        input->image = rerun->dumped;
    return status == CUFENCE_OK;
}

/* The driver has made the code, of PTX, or has chosen one of several. It is launched once more, with barriers. */
static void run_dumped(struct rerun *rerun)
{
    struct image given;
    int is_cubin = image_open(rerun->plain.bytes, rerun->plain.size, &given);
    if (is_cubin || !rerun->has_access || !rerun->evidence || rerun->dumped || rerun->input.mode != RERUN_WHOLE ||
        !ms_left(rerun) || !take_dumped(rerun))
        return;
    put_barriers(rerun);
    if (rerun->fenced)
        run_bare(rerun);
    if (rerun->is_refused)
        take_barriers_off(rerun);
}

static void end_clock(struct rerun *rerun)
{
    rerun->result.took_ms = (monotonic_ns() - rerun->begin_ns) / 1000000;
}

void rerun_follow(struct rerun *rerun, const struct diagnosis *diagnosis)
{
    rerun_aim(rerun, diagnosis);
    run_dumped(rerun);
    follow(rerun);
    rerun->result.evidence = rerun->evidence;
    end_clock(rerun);
}

void rerun_finish(struct rerun *rerun)
{
    struct rerun_result *result = &rerun->result;
    int has_faulted = rerun->is_running && run(rerun);
    if (!has_faulted && rerun->is_refused && rerun->fenced)
        has_faulted = run_plain(rerun);
    if (has_faulted) {
        if (rerun->has_patterns && rerun->input.mode == RERUN_WHOLE && ms_left(rerun) > 0)
            run_bare(rerun);
        result->outcome = RERUN_FAULTED;
    }
    stop(rerun);
    if (result->outcome == RERUN_NOT_TRIED) {
        if (has_left(result))
            result->outcome = RERUN_WROTE;
        else if (rerun->is_done)
            result->outcome = RERUN_NO_FAULT;
        else
            rerun_fail(rerun, "the process that launches it again has ended early");
    }
    follow(rerun);
    result->evidence = rerun->evidence;
    end_clock(rerun);
}

void rerun_void(struct rerun *rerun, const char *why)
{
    rerun->result = (struct rerun_result){.has_variables = rerun->result.has_variables,
                                          .launches_tried = rerun->result.launches_tried,
                                          .took_ms = rerun->result.took_ms};
    forget_evidence(rerun);
    rerun_fail(rerun, why);
}

void rerun_end(struct rerun *rerun)
{
    stop(rerun);
    forget_evidence(rerun);
    dump_forget(&rerun->dump);
    free(rerun->fenced);
    free(rerun->dumped);
}
