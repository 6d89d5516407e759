#include "rerun.h"

#include "analysis/dump/image.h"
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
    if (!copy || fence_put(&copy, &size, input->symbol, held, &fence, &ignored) != CUFENCE_OK ||
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
    const struct evidence_site *site = fault_site(diagnosis);
    rerun->has_access = !fault_is_address_sure(diagnosis) && site && site->symbol &&
                        !strcmp(site->symbol, rerun->input.symbol) && !site->is_in_driver &&
                        (site->exception.class == CLASS_ADDRESS || site->exception.class == CLASS_GIVEN_ONLY);
    rerun->access_at = rerun->has_access ? site->kernel_offset : 0;
}

/* ---- the process ---- */

static cufence_status start(struct rerun *rerun)
{
    uint64_t ms = (uint64_t)ms_left(rerun) + (rerun->input.is_saved ? rerun->saving_ms : 0);
    struct rerun_message message = {.type = MESSAGE_INPUT, .number = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX};
    int ends[2] = {-1, -1}, input = -1;
    rerun->input.dump = MESSAGE_DUMP;
    rerun->progress = RERUN_STARTED;
    rerun->said = RERUN_FAILURE;
    cufence_status status = CUFENCE_OK;
    if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        status = error_set(CUFENCE_ERROR_SYSTEM, "a pipe cannot be made: %s", strerror(errno));
    else if ((input = rerun_input_write(&rerun->input)) < 0)
        status = error_set(CUFENCE_ERROR_SYSTEM, "the input cannot be written: %s", strerror(errno));
    status = status ?: rerun_process_start(rerun->program, rerun->is_verbose, ends[1], &rerun->process);
    if (status == CUFENCE_OK) {
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
    struct rerun_input *input = &rerun->input;
    put_barriers(rerun);
    rerun->is_choosing = input->mode == RERUN_WHOLE && input->launch_count > 1;
    if (rerun->is_choosing)
        input->mode = RERUN_BARE;
    return start(rerun);
}

static void stop(struct rerun *rerun)
{
    if (!rerun->process.pid)
        return;
    rerun_process_end(&rerun->process);
    close(rerun->dump_pipe);
    rerun->process.pid = 0;
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
            char why[160];
            snprintf(why, sizeof why, "it took longer than %s", rerun->limit);
            if (rerun->is_choosing)
                snprintf(why, sizeof why,
                         "%u of %zu launches that it may have been were tried until %s was over, and none faulted",
                         rerun->result.launches_tried, rerun->passed + rerun->input.launch_count, rerun->limit);
            if (!rerun_has_left(&rerun->result)) /* else this much is known */
                rerun_fail(rerun, why);
            break;
        }
        if (poll(wait, is_dumping ? 2 : 1, left < 50 ? left : 50) <= 0)
            continue;
        if (is_dumping && wait[1].revents)
            is_dumping = take_dump(rerun);
        if (wait[0].revents)
            is_talking = rerun_converse(rerun);
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
static int has_faulted(struct rerun *rerun)
{
    struct problem problem;
    struct evidence *evidence = NULL;
    serve(rerun);
    stop(rerun);
    if (rerun->dump.received && dump_is_complete(&rerun->dump) &&
        evidence_from_coredump(rerun->dump.bytes, rerun->dump.size, &evidence, &problem) == CUFENCE_OK) {
        forget_evidence(rerun);
        rerun->evidence = evidence;
        rerun->second = rerun->dump;
        rerun->dump = (struct dump){0};
    }
    dump_forget(&rerun->dump);
    return evidence != NULL;
}

/* Serves one process. */
static enum rerun_event run(struct rerun *rerun)
{
    if (has_faulted(rerun))
        return rerun->progress == RERUN_AMID_PATTERNS ? RERUN_FAULT_AMID_PATTERNS : RERUN_FAULT;
    if (rerun->said == RERUN_CODE_REFUSED && rerun->fenced)
        return RERUN_BARRIERS_REFUSED;
    if (rerun->result.outcome == RERUN_NOT_TRIED && rerun_has_left(&rerun->result))
        return RERUN_WRITES;
    return rerun->said;
}

static enum rerun_event start_and_run(struct rerun *rerun)
{
    return start(rerun) == CUFENCE_OK ? run(rerun) : RERUN_FAILURE;
}

/* From here on the input has launch `number` of those that it had first, and `count` in all. */
static void narrow(struct rerun *rerun, size_t number, size_t count)
{
    rerun->input.launches += number - rerun->passed;
    rerun->input.launch_count = count;
    rerun->passed = number;
}

/* With the launch that ran last, if one did. */
static enum rerun_event run_again(struct rerun *rerun, enum rerun_mode mode)
{
    struct rerun_input *input = &rerun->input;
    const struct rerun_input whole = *input;
    size_t passed = rerun->passed;
    uint32_t number = rerun->number;
    int has_launched = rerun->result.launches_tried > 0;
    input->mode = mode;
    input->is_saved = input->is_compared = 0;
    if (has_launched) {
        narrow(rerun, number, 1);
        input->range_count = 0; /* their figures are there */
    }
    enum rerun_event event = start_and_run(rerun);
    *input = whole;
    rerun->passed = passed;
    if (has_launched)
        rerun->number = number;
    return event;
}

/* ---- the states ---- */

struct rerun_step rerun_step(enum rerun_state state, enum rerun_event event)
{
    static const struct rerun_step after_launches[RERUN_EVENTS] = {
        [RERUN_FAULT] = {RERUN_OVER, RERUN_FAULTED},
        [RERUN_FAULT_AMID_PATTERNS] = {RERUN_UNMAPPED, RERUN_FAULTED},
        [RERUN_WRITES] = {RERUN_OVER, RERUN_WROTE},
        [RERUN_SILENCE] = {RERUN_OVER, RERUN_NO_FAULT},
        [RERUN_BARRIERS_REFUSED] = {RERUN_PLAIN, RERUN_NOT_TRIED},
        [RERUN_CODE_REFUSED] = {RERUN_OVER, RERUN_FAILED},
        [RERUN_FAILURE] = {RERUN_OVER, RERUN_FAILED},
        [RERUN_SKIPPED] = {RERUN_OVER, RERUN_FAILED},
    };
    if (state == RERUN_FIRST || state == RERUN_PLAIN)
        return after_launches[event];
    return (struct rerun_step){RERUN_OVER, RERUN_NOT_TRIED}; /* the others look again at what has an outcome */
}

/* Takes the code that ran out of the dump of the second launch. Returns 0 if it is not there. */
static int take_dumped(struct rerun *rerun)
{
    struct rerun_input *input = &rerun->input;
    struct coredump dump;
    struct problem ignored;
    cufence_status status = coredump_open(rerun->second.bytes, rerun->second.size, &dump, &ignored);
    status = status ?: image_of_kernel(&dump, input->symbol, 0, &rerun->dumped, &input->image_bytes, &ignored);
    coredump_close(&dump);
    if (status == CUFENCE_OK)
        input->image = rerun->dumped;
    return status == CUFENCE_OK;
}

/* The driver has made the code, of PTX, or has chosen one of several: it was given no cubin. */
static int is_made_by_driver(const struct rerun *rerun)
{
    struct image given;
    return !image_open(rerun->plain.bytes, rerun->plain.size, &given);
}

/* Whether the second launch's dump has a warp at the access, with its address. */
static int has_address(const struct rerun *rerun)
{
    for (size_t i = 0; i < rerun->evidence->site_count; i++) {
        const struct evidence_site *site = &rerun->evidence->sites[i];
        int is_there = site->symbol && !strcmp(site->symbol, rerun->input.symbol) && site->kernel_offset == rerun->access_at;
        for (size_t k = 0; is_there && k < site->lane_count; k++)
            if (site->lanes[k].certainty != CERTAIN_NOT)
                return 1;
    }
    return 0;
}

/* Prepares the code for a state. Returns 0 if there is no cause for it. */
static int enter(struct rerun *rerun, enum rerun_state state)
{
    int may_look = rerun->input.mode == RERUN_WHOLE && ms_left(rerun) > 0;
    switch (state) {
    case RERUN_FIRST:
        return rerun->process.pid != 0;
    case RERUN_PLAIN:
        take_barriers_off(rerun);
        rerun_result_clear(&rerun->result);
        return 1;
    case RERUN_UNMAPPED:
        return may_look;
    case RERUN_DUMPED:
        if (!may_look || !rerun->has_access || !rerun->evidence)
            return 0;
        return is_made_by_driver(rerun) ? take_dumped(rerun) && put_barriers(rerun) : !has_address(rerun) && hold(rerun);
    case RERUN_OVER:
        break;
    }
    return 0;
}

static enum rerun_event play(struct rerun *rerun, enum rerun_state state)
{
    const struct rerun_result before = rerun->result;
    if (!enter(rerun, state))
        return RERUN_SKIPPED;
    if (state == RERUN_FIRST)
        return run(rerun);
    if (state == RERUN_PLAIN)
        return start_and_run(rerun);
    enum rerun_event event = run_again(rerun, RERUN_BARE);
    rerun->result = before; /* a failure takes nothing away */
    if (state == RERUN_DUMPED && event == RERUN_BARRIERS_REFUSED)
        take_barriers_off(rerun);
    return event;
}

/* Takes the outcome, and returns the next state. */
static enum rerun_state take_step(struct rerun *rerun, struct rerun_step step)
{
    if (step.outcome == RERUN_FAILED)
        rerun_fail(rerun, "the process that launches it again has ended early"); /* unless there is a better reason */
    else if (step.outcome != RERUN_NOT_TRIED)
        rerun->result.outcome = step.outcome;
    return step.next;
}

static void play_from(struct rerun *rerun, enum rerun_state state)
{
    while (state != RERUN_OVER)
        state = take_step(rerun, rerun_step(state, play(rerun, state)));
    rerun->result.evidence = rerun->evidence;
    rerun->result.took_ms = (monotonic_ns() - rerun->begin_ns) / 1000000;
}

/* ---- which of several launches ---- */

/* Returns whether the launch faulted where the program's did, as far as that is known. */
static int is_at_place(const struct rerun *rerun)
{
    for (size_t i = 0; i < rerun->evidence->site_count; i++) {
        const struct evidence_site *site = &rerun->evidence->sites[i];
        if (site->symbol && !strcmp(site->symbol, rerun->input.symbol) &&
            (!rerun->has_access || site->kernel_offset == rerun->access_at))
            return 1;
    }
    return 0;
}

/* Lets the process that was begun, and others after a fault at another place, try the launches until one faults. Returns how
 * the last one ended, and in *found the number of the launch that faulted: if none did so at the place, of the first that
 * faulted anywhere; else SIZE_MAX. */
static enum rerun_event try_each(struct rerun *rerun, size_t *found)
{
    size_t end = rerun->input.launch_count;
    enum rerun_event event = run(rerun);
    *found = SIZE_MAX;
    if (event == RERUN_BARRIERS_REFUSED && enter(rerun, RERUN_PLAIN))
        event = start_and_run(rerun);
    while (event == RERUN_FAULT) {
        size_t number = rerun->number;
        int is_over = is_at_place(rerun);
        if (is_over || *found == SIZE_MAX)
            *found = number;
        if (is_over || number + 1 == end || !ms_left(rerun))
            break;
        narrow(rerun, number + 1, end - number - 1);
        event = start_and_run(rerun);
    }
    return event;
}

/* Finds the launch that faults, and looks at that one as if it had been the only one. */
static void choose(struct rerun *rerun)
{
    struct rerun_input *input = &rerun->input;
    size_t found;
    input->is_saved &= input->launch_count <= BUNDLE_LAUNCHES;
    enum rerun_event event = try_each(rerun, &found);
    input->mode = RERUN_WHOLE;
    rerun->is_choosing = 0;
    if (found == SIZE_MAX) {
        play_from(rerun, take_step(rerun, rerun_step(RERUN_FIRST, event)));
        return;
    }
    narrow(rerun, found, 1);
    input->is_saved = rerun->saving_ms > 0;
    if (rerun->memory)
        rerun_input_describe(input, input->launches, rerun->memory);
    rerun->result.outcome = RERUN_NOT_TRIED;
    start(rerun);
    play_from(rerun, RERUN_FIRST);
    if (rerun->result.outcome == RERUN_FAILED || rerun->result.outcome == RERUN_NO_FAULT)
        rerun->result.outcome = RERUN_FAULTED; /* it did before */
}

void rerun_finish(struct rerun *rerun)
{
    if (rerun->is_choosing)
        choose(rerun);
    else
        play_from(rerun, RERUN_FIRST);
}

void rerun_follow(struct rerun *rerun, const struct diagnosis *diagnosis)
{
    rerun_aim(rerun, diagnosis);
    play_from(rerun, RERUN_DUMPED);
}

void rerun_trace(struct rerun *rerun, const struct diagnosis *diagnosis)
{
    struct rerun_input *input = &rerun->input;
    struct rerun_result before = rerun->result;
    size_t at = before.launches_tried ? rerun->number - rerun->passed : 0;
    if (rerun->fenced)
        take_barriers_off(rerun);
    if (!input->image || at >= input->launch_count || !cause_access(diagnosis, &input->traced) ||
        cause_find((struct span){input->image, input->image_bytes}, input->symbol, &input->launches[at], &input->traced, NULL,
                   &rerun->result.cause) ||
        !ms_left(rerun))
        return;
    run_again(rerun, RERUN_TRACED);
    before.cause = rerun->result.cause;
    rerun->result = before;
}

void rerun_void(struct rerun *rerun, const char *why)
{
    const struct rerun_result before = rerun->result;
    rerun_result_clear(&rerun->result);
    rerun->result.launches_tried = before.launches_tried;
    rerun->result.took_ms = before.took_ms;
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
