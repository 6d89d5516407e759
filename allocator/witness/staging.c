#include "staging.h"

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

cufence_status staging_fail(struct staging *staging, const char *why)
{
    if (staging->result.outcome == RESTAGE_FAILED)
        return CUFENCE_ERROR_UNSUPPORTED;
    staging->result.outcome = RESTAGE_FAILED;
    snprintf(staging->result.reason, sizeof staging->result.reason, "%s", why);
    return CUFENCE_ERROR_UNSUPPORTED;
}

/* The time that is left. While memory is saved it does not pass, up to saving_ms. */
static int ms_left(const struct staging *staging)
{
    uint64_t now = monotonic_ns();
    uint64_t saved = (staging->saved_ns + (staging->saving_since_ns ? now - staging->saving_since_ns : 0)) / 1000000;
    uint64_t passed = (now - staging->begin_ns) / 1000000;
    uint64_t limit = staging->limit_ms + (saved < staging->saving_ms ? saved : staging->saving_ms);
    return passed < limit ? (int)(limit - passed) : 0;
}

/* ---- the kernel's code ---- */

/* Puts barriers in front of the exits, into a copy of the image. */
static void put_barriers(struct staging *staging)
{
    struct scene *scene = &staging->scene;
    struct problem ignored;
    struct fence fence;
    size_t size = scene->image_bytes;
    staging->plain = (struct span){scene->image, size};
    staging->is_open = 1;
    uint8_t *copy = malloc(size);
    if (copy)
        memcpy(copy, scene->image, size);
    if (!copy || fence_put(&copy, &size, scene->symbol, &fence, &ignored) != CUFENCE_OK || !fence.fenced) {
        free(copy);
        return;
    }
    scene->image = staging->fenced = copy;
    scene->image_bytes = size;
    staging->is_open = fence.fenced < fence.exits;
}

static void take_barriers_off(struct staging *staging)
{
    staging->scene.image = staging->plain.bytes;
    staging->scene.image_bytes = staging->plain.size;
    staging->is_open = 1;
    free(staging->fenced);
    staging->fenced = NULL;
}

void staging_aim(struct staging *staging, const struct diagnosis *diagnosis)
{
    const struct evidence_site *site = fault_site(diagnosis);
    int is_known = diagnosis->address_certainty != CERTAIN_NOT && !diagnosis->is_completed;
    staging->has_access = !is_known && site && site->symbol && !strcmp(site->symbol, staging->scene.symbol) &&
                          !site->is_in_driver &&
                          (site->exception.class == CLASS_ADDRESS || site->exception.class == CLASS_GIVEN_ONLY);
    staging->scene.access_at = staging->has_access ? site->kernel_offset : 0;
}

/* ---- the process ---- */

static cufence_status start(struct staging *staging)
{
    uint64_t ms = (uint64_t)ms_left(staging) + (staging->scene.is_saved ? staging->saving_ms : 0);
    struct stage_message message = {.type = STAGE_SCENE, .number = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX};
    int ends[2] = {-1, -1}, scene = -1;
    staging->scene.dump = STAGE_DUMP;
    cufence_status status = CUFENCE_OK;
    if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        status = error_set(CUFENCE_ERROR_SYSTEM, "a pipe cannot be made: %s", strerror(errno));
    else if ((scene = scene_write(&staging->scene)) < 0)
        status = error_set(CUFENCE_ERROR_SYSTEM, "the scene cannot be written: %s", strerror(errno));
    if (status == CUFENCE_OK)
        status = stage_start(staging->program, staging->is_verbose, ends[1], &staging->process);
    if (status == CUFENCE_OK) {
        staging->is_running = 1;
        staging->input = ends[0];
        stage_send(staging->process.socket, &message, scene);
    } else if (ends[0] >= 0) {
        close(ends[0]);
    }
    if (ends[1] >= 0)
        close(ends[1]);
    if (scene >= 0)
        close(scene);
    return status == CUFENCE_OK ? status : staging_fail(staging, error_detail());
}

cufence_status staging_begin(struct staging *staging)
{
    put_barriers(staging);
    return start(staging);
}

static void stop(struct staging *staging)
{
    if (!staging->is_running)
        return;
    stage_end(&staging->process);
    close(staging->input);
    staging->is_running = 0;
}

/* ---- what the stage says ---- */

static void take_write(struct staging *staging, const struct stage_message *message)
{
    struct restaged *result = &staging->result;
    result->written_bytes += message->bytes;
    if (result->write_count == sizeof result->writes / sizeof *result->writes)
        return;
    struct restaged_write *write = &result->writes[result->write_count++];
    *write = (struct restaged_write){.is_slack = message->number != 0, .address = message->address, .bytes = message->bytes};
    write->value_bytes = message->value_bytes < sizeof write->values ? message->value_bytes : sizeof write->values;
    memcpy(write->values, message->values, write->value_bytes);
}

/* Whether anything was written where an access faults. */
static int has_left(const struct restaged *result)
{
    return result->write_count && !result->writes[0].is_slack;
}

static void give(struct staging *staging, const struct stage_message *question)
{
    struct stage_message answer = {.type = STAGE_NONE};
    int fd = staging->answer(staging->user, question, &answer);
    stage_answer(staging->process.socket, &answer, fd);
    if (question->type == STAGE_SAVE)
        staging->saving_since_ns = monotonic_ns();
}

static void take_launch(struct staging *staging, const struct stage_message *message)
{
    staging->number = message->number < staging->scene.launch_count ? message->number : 0;
    staging->has_patterns = message->address != 0;
    if (staging->result.launches_tried <= staging->number)
        staging->result.launches_tried = staging->number + 1;
}

/* why: is added to the text. */
static void take_note(struct restaged *result, const char *text, const char *why)
{
    size_t length = strlen(result->note);
    snprintf(result->note + length, sizeof result->note - length, "%s%s%s", length ? "; " : "", text, why);
}

static void take_lost(struct restaged *result, const char *why)
{
    take_note(result, "the kernel's threads could not be emulated: ", why);
}

static void take_figures(struct staging *staging, const struct stage_message *message)
{
    struct restaged *result = &staging->result;
    if (result->figure_count < sizeof result->figures / sizeof *result->figures)
        result->figures[result->figure_count++] = message->figures;
}

static void take_lane(struct staging *staging, const struct stage_message *message)
{
    struct restaged *result = &staging->result;
    staging->has_followed = 1;
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
static int converse(struct staging *staging)
{
    struct stage_message message;
    int fd;
    if (!stage_receive(staging->process.socket, &message, &fd))
        return 0;
    if (fd >= 0)
        close(fd);
    if (staging->saving_since_ns)
        staging->saved_ns += monotonic_ns() - staging->saving_since_ns;
    staging->saving_since_ns = 0;
    switch (message.type) {
    case STAGE_NEED:
    case STAGE_SAVE:
    case STAGE_RESULT:
        give(staging, &message);
        return 1;
    case STAGE_LAUNCHES:
        take_launch(staging, &message);
        return 1;
    case STAGE_WROTE:
        take_write(staging, &message);
        return 1;
    case STAGE_FIGURES:
        take_figures(staging, &message);
        return 1;
    case STAGE_LANE:
        take_lane(staging, &message);
        return 1;
    case STAGE_LOST:
        take_lost(&staging->result, message.text);
        staging->has_followed = 1;
        return 1;
    case STAGE_NOTE:
        take_note(&staging->result, message.text, "");
        return 1;
    case STAGE_FAILED:
        staging->is_refused = message.number != 0;
        staging_fail(staging, message.text);
        return 0;
    default:
        staging->is_done = message.type == STAGE_DONE;
        return 0;
    }
}

/* Reads what has arrived of the dump. Returns 0 once it is complete. */
static int take_dump(struct staging *staging)
{
    enum dump_state state;
    do
        state = dump_take(staging->input, &staging->dump);
    while (state == DUMP_TAKEN);
    return state != DUMP_OVER || !staging->dump.received;
}

/* Serves the process until it ends, or until the time is over. */
static void serve(struct staging *staging)
{
    int is_talking = 1, is_dumping = 1;
    while (is_talking) {
        struct pollfd wait[] = {{.fd = staging->process.socket, .events = POLLIN}, {.fd = staging->input, .events = POLLIN}};
        int left = ms_left(staging);
        if (!left) {
            char why[96];
            snprintf(why, sizeof why, "it took longer than %s", staging->limit);
            if (!has_left(&staging->result)) /* else this much is known */
                staging_fail(staging, why);
            break;
        }
        if (poll(wait, is_dumping ? 2 : 1, left < 50 ? left : 50) <= 0)
            continue;
        if (is_dumping && wait[1].revents)
            is_dumping = take_dump(staging);
        if (wait[0].revents)
            is_talking = converse(staging);
    }
    if (is_dumping)
        take_dump(staging);
}

static void forget_evidence(struct staging *staging)
{
    evidence_free(staging->evidence);
    dump_forget(&staging->second);
    staging->evidence = NULL;
}

/* Serves one process. Returns 1 if the launch faulted and the dump of that could be read. */
static int run(struct staging *staging)
{
    serve(staging);
    stop(staging);
    if (!staging->dump.received)
        return 0;
    struct problem problem;
    struct evidence *evidence = NULL;
    if (dump_is_complete(&staging->dump) &&
        evidence_from_coredump(staging->dump.bytes, staging->dump.size, &evidence, &problem) == CUFENCE_OK) {
        forget_evidence(staging);
        staging->evidence = evidence;
        staging->second = staging->dump;
        staging->dump = (struct dump){0};
    }
    dump_forget(&staging->dump);
    return evidence != NULL;
}

/* Starts another process, with the launch that ran last, if one did. Returns 1 if it faulted and the dump could be read. */
static int run_again(struct staging *staging, enum scene_mode mode)
{
    struct scene *scene = &staging->scene;
    const struct scene whole = *scene;
    uint32_t number = staging->number;
    int has_launched = staging->result.launches_tried > 0;
    scene->mode = mode;
    scene->is_saved = scene->is_compared = 0;
    if (has_launched) {
        scene->launches += number;
        scene->launch_count = 1;
        scene->range_count = 0; /* their figures are there */
    }
    int has_faulted = start(staging) == CUFENCE_OK && run(staging);
    stop(staging);
    *scene = whole;
    if (has_launched)
        staging->number = number;
    return has_faulted;
}

/* It faulted beyond the patterned pages, so its first accesses out of bounds went into them. Launches that one alone, without.
 */
static void run_bare(struct staging *staging)
{
    struct restaged before = staging->result;
    run_again(staging, SCENE_BARE);
    staging->result = before; /* its failure takes nothing away */
}

/* The driver does not take the code with barriers. */
static int run_plain(struct staging *staging)
{
    take_barriers_off(staging);
    staging->is_refused = 0;
    staging->result = (struct restaged){.has_variables = staging->result.has_variables};
    return start(staging) == CUFENCE_OK && run(staging);
}

/* Emulates in a process of its own, unless that was done, or the launch was not possible for another reason than the code. */
static void follow(struct staging *staging)
{
    struct restaged *result = &staging->result, before = *result;
    int is_faulty = before.outcome == RESTAGE_FAULTED || before.outcome == RESTAGE_WROTE;
    if (!staging->has_access || !staging->is_open || staging->has_followed || staging->scene.mode != SCENE_WHOLE ||
        !(is_faulty || staging->is_refused) || !ms_left(staging))
        return;
    result->outcome = RESTAGE_NOT_TRIED;
    run_again(staging, SCENE_FOLLOWED);
    if (!staging->has_followed)
        take_lost(result, result->outcome == RESTAGE_FAILED ? result->reason : "the process for it has ended early");
    result->outcome = before.outcome;
    result->launches_tried = before.launches_tried;
    memcpy(result->reason, before.reason, sizeof result->reason);
}

/* Takes the code that ran out of the dump of the second launch. Returns 0 if it is not there. */
static int take_dumped(struct staging *staging)
{
    struct scene *scene = &staging->scene;
    struct coredump dump;
    struct problem ignored;
    cufence_status status = coredump_open(staging->second.bytes, staging->second.size, &dump, &ignored);
    if (status == CUFENCE_OK)
        status = image_of_kernel(&dump, scene->symbol, 0, &staging->dumped, &scene->image_bytes, &ignored);
    coredump_close(&dump);
    if (status == CUFENCE_OK)
        scene->image = staging->dumped;
    return status == CUFENCE_OK;
}

/* The driver has made the code, of PTX, or has chosen one of several. It is launched once more, with barriers. */
static void run_dumped(struct staging *staging)
{
    struct image given;
    int is_cubin = image_open(staging->plain.bytes, staging->plain.size, &given);
    if (is_cubin || !staging->has_access || !staging->evidence || staging->dumped || staging->scene.mode != SCENE_WHOLE ||
        !ms_left(staging) || !take_dumped(staging))
        return;
    put_barriers(staging);
    if (staging->fenced)
        run_bare(staging);
    if (staging->is_refused)
        take_barriers_off(staging);
}

static void end_clock(struct staging *staging)
{
    staging->result.took_ms = (monotonic_ns() - staging->begin_ns) / 1000000;
}

void staging_follow(struct staging *staging, const struct diagnosis *diagnosis)
{
    staging_aim(staging, diagnosis);
    run_dumped(staging);
    follow(staging);
    staging->result.evidence = staging->evidence;
    end_clock(staging);
}

void staging_finish(struct staging *staging)
{
    struct restaged *result = &staging->result;
    int has_faulted = staging->is_running && run(staging);
    if (!has_faulted && staging->is_refused && staging->fenced)
        has_faulted = run_plain(staging);
    if (has_faulted) {
        if (staging->has_patterns && staging->scene.mode == SCENE_WHOLE && ms_left(staging) > 0)
            run_bare(staging);
        result->outcome = RESTAGE_FAULTED;
    }
    stop(staging);
    if (result->outcome == RESTAGE_NOT_TRIED) {
        if (has_left(result))
            result->outcome = RESTAGE_WROTE;
        else if (staging->is_done)
            result->outcome = RESTAGE_NO_FAULT;
        else
            staging_fail(staging, "the process that launches it again has ended early");
    }
    follow(staging);
    result->evidence = staging->evidence;
    end_clock(staging);
}

void staging_void(struct staging *staging, const char *why)
{
    staging->result = (struct restaged){.has_variables = staging->result.has_variables,
                                        .launches_tried = staging->result.launches_tried,
                                        .took_ms = staging->result.took_ms};
    forget_evidence(staging);
    staging_fail(staging, why);
}

void staging_end(struct staging *staging)
{
    stop(staging);
    forget_evidence(staging);
    dump_forget(&staging->dump);
    free(staging->fenced);
    free(staging->dumped);
}
