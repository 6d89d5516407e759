#include "rerun.h"

#include "analysis/dump/kernel_module.h"
#include "analysis/sass/fence.h"
#include "analysis/verdict/cause.h"
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

/* Puts barriers in front of the exits, into a copy of the image. Returns 0 if they cannot be put there. */
static int put_barriers(struct rerun *rerun)
{
    struct rerun_input *input = &rerun->input;
    struct problem ignored;
    struct fence fence;
    size_t size = input->image_bytes;
    uint64_t held = rerun->holds_stores ? FENCE_STORES : rerun->has_access ? rerun->access_at : FENCE_NO_ACCESS;
    rerun->plain = (struct span){input->image, size};
    uint8_t *copy = malloc(size);
    if (copy)
        memcpy(copy, input->image, size);
    if (!copy || fence_put(&copy, &size, input->bundle.symbol, held, &fence, &ignored) != CUFENCE_OK ||
        !(fence.fenced || fence.held)) {
        free(copy);
        return 0;
    }
    input->image = rerun->fenced = copy;
    input->image_bytes = size;
    rerun->is_held = fence.held > 0;
    return 1;
}

static void take_barriers_off(struct rerun *rerun)
{
    rerun->input.image = rerun->plain.bytes;
    rerun->input.image_bytes = rerun->plain.size;
    free(rerun->fenced);
    rerun->fenced = NULL;
}

/* The same for code that has barriers, now that it is known what faults. Returns 0 if that access can't be held. */
static int hold(struct rerun *rerun)
{
    if (rerun->fenced)
        take_barriers_off(rerun);
    return put_barriers(rerun) && rerun->is_held;
}

void rerun_aim(struct rerun *rerun, const struct diagnosis *diagnosis)
{
    const struct evidence_stop *stop = fault_stop(diagnosis);
    rerun->has_access = !fault_is_address_sure(diagnosis) && stop && stop->symbol &&
                        !strcmp(stop->symbol, rerun->input.bundle.symbol) && !stop->is_in_driver &&
                        (stop->exception.class == CLASS_ADDRESS || stop->exception.class == CLASS_GIVEN_ONLY);
    rerun->access_at = rerun->has_access ? stop->kernel_offset : 0;
}

/* ---- one process ---- */

/* The process gets `count` launches from number `first` on. */
static void narrow(const struct rerun *rerun, struct rerun_run *run, size_t first, size_t count)
{
    run->first = first;
    run->input.bundle.launches = rerun->input.bundle.launches + first;
    run->input.bundle.launch_count = count;
}

static struct rerun_run run_of(const struct rerun *rerun, size_t first, size_t count, struct rerun_result *result)
{
    struct rerun_run run = {.input = rerun->input, .result = result};
    run.input.dump = MESSAGE_DUMP;
    narrow(rerun, &run, first, count);
    return run;
}

static cufence_status start(struct rerun *rerun, struct rerun_run *run)
{
    uint64_t ms = (uint64_t)ms_left(rerun) + (run->input.is_saved ? rerun->saving_ms : 0);
    struct rerun_message message = {.type = MESSAGE_INPUT, .number = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX};
    int ends[2] = {-1, -1}, input = -1;
    cufence_status status = CUFENCE_OK;
    run->is_amid_patterns = 0;
    run->said = RERUN_FAILURE;
    if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        status = error_set(CUFENCE_ERROR_SYSTEM, "a pipe cannot be made: %s", strerror(errno));
    else if ((input = rerun_input_write(&run->input)) < 0)
        status = error_set(CUFENCE_ERROR_SYSTEM, "the input cannot be written: %s", strerror(errno));
    status = status ?: rerun_process_start(rerun->program, rerun->is_verbose, ends[1], &run->process);
    if (status == CUFENCE_OK) {
        run->dump_pipe = ends[0];
        rerun_send(run->process.socket, &message, input);
    } else if (ends[0] >= 0) {
        close(ends[0]);
    }
    if (ends[1] >= 0)
        close(ends[1]);
    if (input >= 0)
        close(input);
    return status == CUFENCE_OK ? status : rerun_result_fail(run->result, error_detail());
}

static void end_late(struct rerun *rerun)
{
    if (rerun->late.pid)
        rerun_process_end(&rerun->late);
    rerun->late.pid = 0;
}

static void stop(struct rerun *rerun, struct rerun_run *run, int is_late)
{
    if (!run->process.pid)
        return;
    if (is_late) {
        end_late(rerun);
        rerun_process_kill(&run->process);
        rerun->late = run->process;
    } else {
        rerun_process_end(&run->process);
    }
    close(run->dump_pipe);
    run->process.pid = 0;
}

/* Reads what has arrived of the dump. Returns 0 once it is complete. */
static int take_dump(struct rerun_run *run)
{
    enum dump_state state;
    do
        state = dump_take(run->dump_pipe, &run->dump);
    while (state == DUMP_TAKEN);
    return state != DUMP_OVER || !run->dump.received;
}

static void note_late(const struct rerun *rerun, const struct rerun_run *run)
{
    char why[160];
    snprintf(why, sizeof why, "it took longer than %s", rerun->limit);
    if (rerun->is_choosing)
        snprintf(why, sizeof why, "%u of %zu launches that it may have been were tried until %s was over, and none faulted",
                 rerun->result.launches_tried, rerun->input.bundle.launch_count, rerun->limit);
    if (rerun_has_left(run->result)) /* this much is known */
        rerun_take_note(run->result, why);
    else
        rerun_result_fail(run->result, why);
}

/* Serves the process until it ends, or until the time is over. */
static void serve(struct rerun *rerun, struct rerun_run *run)
{
    int is_talking = 1, is_dumping = 1, is_late = 0;
    while (is_talking) {
        struct pollfd wait[] = {{.fd = run->process.socket, .events = POLLIN}, {.fd = run->dump_pipe, .events = POLLIN}};
        int left = ms_left(rerun);
        if (!left) {
            note_late(rerun, run);
            is_late = 1;
            break;
        }
        if (poll(wait, is_dumping ? 2 : 1, left < 50 ? left : 50) <= 0)
            continue;
        if (is_dumping && wait[1].revents)
            is_dumping = take_dump(run);
        if (wait[0].revents)
            is_talking = rerun_converse(rerun, run);
    }
    if (is_dumping)
        take_dump(run);
    stop(rerun, run, is_late);
}

static void forget_evidence(struct rerun *rerun)
{
    evidence_free(rerun->evidence);
    coredump_close(&rerun->opened);
    dump_forget(&rerun->second);
    rerun->evidence = NULL;
}

/* Takes the dump in place of an earlier one, and forgets it if it cannot be read. Returns whether it can. */
static int take_evidence(struct rerun *rerun, struct dump *dump)
{
    struct problem ignored;
    struct coredump opened = {0};
    struct evidence *evidence = NULL;
    if (!dump->received || !dump_is_complete(dump) || coredump_open(dump->bytes, dump->size, &opened, &ignored) != CUFENCE_OK ||
        evidence_read(&opened, &evidence, &ignored) != CUFENCE_OK) {
        coredump_close(&opened);
        dump_forget(dump);
        return 0;
    }
    forget_evidence(rerun);
    rerun->evidence = evidence;
    rerun->opened = opened;
    rerun->second = *dump;
    *dump = (struct dump){0};
    return 1;
}

/* Serves a process that was started. */
static enum rerun_event finish(struct rerun *rerun, struct rerun_run *run)
{
    serve(rerun, run);
    if (take_evidence(rerun, &run->dump))
        return run->is_amid_patterns ? RERUN_FAULT_AMID_PATTERNS : RERUN_FAULT;
    if (run->said == RERUN_CODE_REFUSED && rerun->fenced)
        return RERUN_BARRIERS_REFUSED;
    if (run->result->outcome == RERUN_NOT_TRIED && rerun_has_left(run->result))
        return RERUN_WRITES;
    return run->said;
}

static enum rerun_event play(struct rerun *rerun, struct rerun_run *run)
{
    return start(rerun, run) == CUFENCE_OK ? finish(rerun, run) : RERUN_FAILURE;
}

/* ---- the launch, or each that may have been it ---- */

cufence_status rerun_begin(struct rerun *rerun)
{
    struct rerun_input *input = &rerun->input;
    put_barriers(rerun);
    rerun->is_choosing = input->mode == RERUN_WHOLE && input->bundle.launch_count > 1;
    rerun->run = run_of(rerun, 0, input->bundle.launch_count, &rerun->result);
    if (rerun->is_choosing)
        rerun->run.input.mode = RERUN_BARE;
    return start(rerun, &rerun->run);
}

/* Serves the process that rerun_begin() has started, and if the driver refuses the barriers, one without them. */
static enum rerun_event finish_first(struct rerun *rerun)
{
    struct rerun_run *run = &rerun->run;
    enum rerun_event event = run->process.pid ? finish(rerun, run) : RERUN_FAILURE;
    if (event != RERUN_BARRIERS_REFUSED)
        return event;
    take_barriers_off(rerun);
    rerun_result_clear(&rerun->result);
    run->input.image = rerun->input.image;
    run->input.image_bytes = rerun->input.image_bytes;
    return play(rerun, run);
}

/* Whether there is time for one more look at the launch. If not, the result says so. */
static int has_time(struct rerun *rerun)
{
    char why[160];
    if (ms_left(rerun))
        return 1;
    snprintf(why, sizeof why, "it took longer than %s, so not all was looked at", rerun->limit);
    if (!strstr(rerun->result.note, rerun->limit))
        rerun_take_note(&rerun->result, why);
    return 0;
}

static int may_look(struct rerun *rerun)
{
    return rerun->input.mode == RERUN_WHOLE && has_time(rerun);
}

/* Looks again at the launch that ran last, if one did. *found is apart from the result: a failure takes nothing away. */
static enum rerun_event look_again(struct rerun *rerun, enum rerun_mode mode, struct rerun_result *found)
{
    int has_launched = rerun->result.launches_tried > 0;
    *found = (struct rerun_result){0};
    struct rerun_run run =
        run_of(rerun, has_launched ? rerun->number : 0, has_launched ? 1 : rerun->input.bundle.launch_count, found);
    run.input.mode = mode;
    run.input.bundle.has_outputs = 0;
    run.input.is_saved = 0;
    if (has_launched)
        run.input.range_count = 0; /* their figures are there */
    enum rerun_event event = play(rerun, &run);
    if (event == RERUN_FAILURE)
        has_time(rerun);
    return event;
}

/* The launch that was cut is told as it was. */
static void restore_grid(struct rerun *rerun)
{
    for (size_t i = 0; rerun->blocks && rerun->evidence && i < rerun->evidence->stop_count; i++) {
        struct evidence_stop *stop = &rerun->evidence->stops[i];
        if (stop->has_grid && stop->symbol && !strcmp(stop->symbol, rerun->input.bundle.symbol))
            memcpy(stop->grid, rerun->input.bundle.launches[rerun->number].grid, sizeof stop->grid);
    }
}

static void complete(struct rerun *rerun)
{
    restore_grid(rerun);
    rerun->result.evidence = rerun->evidence;
    rerun->result.took_ms = (monotonic_ns() - rerun->begin_ns) / 1000000;
}

/* Whether the second launch's dump has a warp of the kernel at the access, if that is known; has_address: with its address. */
static int is_at_access(const struct rerun *rerun, int has_address)
{
    for (size_t i = 0; i < rerun->evidence->stop_count; i++) {
        const struct evidence_stop *stop = &rerun->evidence->stops[i];
        int is_there = stop->symbol && !strcmp(stop->symbol, rerun->input.bundle.symbol) &&
                       (!rerun->has_access || stop->kernel_offset == rerun->access_at);
        if (is_there && !has_address)
            return 1;
        for (size_t k = 0; is_there && k < stop->lane_count; k++)
            if (stop->lanes[k].certainty != CERTAIN_NOT)
                return 1;
    }
    return 0;
}

static void note_cut(struct rerun *rerun)
{
    const uint32_t *grid = rerun->input.bundle.launches[rerun->number].grid;
    char why[128];
    snprintf(why, sizeof why, "to save time, the thread was looked for in the first %llu of %llu blocks alone",
             (unsigned long long)rerun->blocks, (unsigned long long)grid[0] * grid[1] * grid[2]);
    rerun_take_note(&rerun->result, why);
}

/* Takes the outcome of what rerun_begin() has started. */
static void take_outcome(struct rerun *rerun, enum rerun_event event)
{
    static const enum rerun_outcome outcomes[RERUN_EVENTS] = {[RERUN_FAULT] = RERUN_FAULTED,
                                                              [RERUN_FAULT_AMID_PATTERNS] = RERUN_FAULTED,
                                                              [RERUN_WRITES] = RERUN_WROTE,
                                                              [RERUN_SILENCE] = RERUN_NO_FAULT};
    struct rerun_result unmapped;
    if (outcomes[event] == RERUN_NOT_TRIED) /* unless there is a better reason */
        rerun_result_fail(&rerun->result, "the process that launches it again has ended early");
    else
        rerun->result.outcome = outcomes[event];
    int is_other = event == RERUN_FAULT && rerun->blocks && !is_at_access(rerun, 0);
    if (is_other)
        rerun->input.first_blocks = 0;
    if ((event == RERUN_FAULT_AMID_PATTERNS || is_other) && may_look(rerun))
        look_again(rerun, RERUN_BARE, &unmapped);
    if (outcomes[event] == RERUN_FAULTED && rerun->blocks)
        note_cut(rerun);
    complete(rerun);
}

/* Lets the process that was begun, and others after a fault at another place, try the launches until one faults. Returns how
 * the last one ended, and in *found the number of the launch that faulted: if none did so at the place, of the first that
 * faulted anywhere; else SIZE_MAX. */
static enum rerun_event try_each(struct rerun *rerun, size_t *found)
{
    size_t end = rerun->input.bundle.launch_count;
    enum rerun_event event = finish_first(rerun);
    *found = SIZE_MAX;
    while (event == RERUN_FAULT) {
        size_t number = rerun->number;
        int is_over = is_at_access(rerun, 0);
        if (is_over || *found == SIZE_MAX)
            *found = number;
        if (is_over || number + 1 == end || !ms_left(rerun))
            break;
        narrow(rerun, &rerun->run, number + 1, end - number - 1);
        event = play(rerun, &rerun->run);
    }
    return event;
}

/* Finds the launch that faults, and looks at that one as if it had been the only one. */
static void choose(struct rerun *rerun)
{
    size_t found;
    rerun->run.input.is_saved &= rerun->input.bundle.launch_count <= BUNDLE_LAUNCHES;
    enum rerun_event event = try_each(rerun, &found);
    rerun->is_choosing = 0;
    if (found == SIZE_MAX) {
        take_outcome(rerun, event);
        return;
    }
    if (rerun->memory)
        rerun_input_describe(&rerun->input, &rerun->input.bundle.launches[found], rerun->memory);
    rerun->run = run_of(rerun, found, 1, &rerun->result);
    rerun->run.input.is_saved = rerun->saving_ms > 0;
    rerun->result.outcome = RERUN_NOT_TRIED;
    start(rerun, &rerun->run);
    take_outcome(rerun, finish_first(rerun));
    if (rerun->result.outcome == RERUN_FAILED)
        rerun_take_note(&rerun->result, rerun->result.reason);
    if (rerun->result.outcome == RERUN_FAILED || rerun->result.outcome == RERUN_NO_FAULT)
        rerun->result.outcome = RERUN_FAULTED; /* it did before */
}

void rerun_finish(struct rerun *rerun)
{
    if (rerun->is_choosing)
        choose(rerun);
    else
        take_outcome(rerun, finish_first(rerun));
}

/* ---- further looks ---- */

/* Takes the code that ran out of the dump of the second launch. Returns 0 if it is not there. */
static int take_dumped(struct rerun *rerun)
{
    struct rerun_input *input = &rerun->input;
    struct problem ignored;
    if (image_of_kernel(&rerun->opened, input->bundle.symbol, 0, &rerun->dumped, &input->image_bytes, &ignored) != CUFENCE_OK)
        return 0;
    input->image = rerun->dumped;
    return 1;
}

/* The driver has made the code, of PTX, or has chosen one of several: it was given no cubin. */
static int is_made_by_driver(const struct rerun *rerun)
{
    struct image given;
    return !image_open(rerun->plain.bytes, rerun->plain.size, &given);
}

/* Prepares the code for a look that shows more than the last one: with barriers, now that the driver has made it, or with one
 * at the access that faults. Returns 0 if there is no cause for it. */
static int prepare_follow(struct rerun *rerun)
{
    int is_open = rerun->has_access && rerun->evidence && (is_made_by_driver(rerun) || !is_at_access(rerun, 1));
    if (!is_open || !may_look(rerun))
        return 0;
    return is_made_by_driver(rerun) ? take_dumped(rerun) && put_barriers(rerun) : hold(rerun);
}

int rerun_follow(struct rerun *rerun, const struct diagnosis *diagnosis)
{
    struct rerun_result found;
    rerun_aim(rerun, diagnosis);
    int is_again = prepare_follow(rerun);
    if (is_again && look_again(rerun, RERUN_BARE, &found) == RERUN_BARRIERS_REFUSED)
        take_barriers_off(rerun);
    complete(rerun);
    return is_again;
}

void rerun_trace(struct rerun *rerun, const struct diagnosis *diagnosis)
{
    struct rerun_input *input = &rerun->input;
    struct rerun_result found = {0};
    size_t at = rerun->result.launches_tried ? rerun->number : 0;
    if (rerun->fenced)
        take_barriers_off(rerun);
    if (!input->image || at >= input->bundle.launch_count || !cause_access(diagnosis, &input->traced) ||
        cause_find((struct span){input->image, input->image_bytes}, input->bundle.symbol, &input->bundle.launches[at],
                   &input->traced, NULL, &rerun->result.cause))
        return;
    if (has_time(rerun))
        look_again(rerun, RERUN_TRACED, &found);
    rerun->result.cause = found.cause;
}

void rerun_void(struct rerun *rerun, const char *why)
{
    rerun_result_clear(&rerun->result);
    forget_evidence(rerun);
    rerun_result_fail(&rerun->result, why);
}

void rerun_end(struct rerun *rerun)
{
    stop(rerun, &rerun->run, 0);
    end_late(rerun);
    forget_evidence(rerun);
    dump_forget(&rerun->run.dump);
    free(rerun->fenced);
    free(rerun->dumped);
}
