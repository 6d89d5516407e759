#include "staging.h"

#include "base/error.h"

#include <poll.h>
#include <stdio.h>
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
    uint64_t now = dump_clock();
    uint64_t saved = (staging->saved_ns + (staging->saving_since_ns ? now - staging->saving_since_ns : 0)) / 1000000;
    uint64_t passed = (now - staging->begin_ns) / 1000000;
    uint64_t limit = staging->limit_ms + (saved < staging->saving_ms ? saved : staging->saving_ms);
    return passed < limit ? (int)(limit - passed) : 0;
}

/* ---- the process ---- */

cufence_status staging_begin(struct staging *staging)
{
    uint64_t ms = (uint64_t)ms_left(staging) + (staging->scene.is_saved ? staging->saving_ms : 0);
    struct stage_message message = {.type = STAGE_SCENE, .number = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX};
    if (fifo_make(&staging->fifo) != CUFENCE_OK)
        return staging_fail(staging, error_detail());
    staging->fifo_fd = dump_open(staging->fifo.path);
    staging->scene.dump = staging->fifo.path;
    int scene = scene_write(&staging->scene);
    cufence_status status = scene < 0 ? error_set(CUFENCE_ERROR_SYSTEM, "the scene cannot be written")
                                      : stage_start(staging->program, staging->is_verbose, &staging->process);
    if (status == CUFENCE_OK) {
        staging->is_running = 1;
        stage_send(staging->process.socket, &message, scene);
    }
    if (scene >= 0)
        close(scene);
    return status == CUFENCE_OK ? status : staging_fail(staging, error_detail());
}

static void stop(struct staging *staging)
{
    if (staging->is_running)
        stage_end(&staging->process);
    staging->is_running = 0;
    if (!staging->fifo.folder[0])
        return;
    if (staging->fifo_fd >= 0)
        close(staging->fifo_fd);
    dumps_remove_fifo(&staging->fifo);
    staging->fifo.folder[0] = '\0';
}

/* ---- what the stage says ---- */

static void take_write(struct staging *staging, const struct stage_message *message)
{
    struct restaged *result = &staging->result;
    result->written_bytes += message->bytes;
    if (result->write_count == sizeof result->writes / sizeof *result->writes)
        return;
    struct restaged_write *write = &result->writes[result->write_count++];
    *write = (struct restaged_write){.address = message->address, .bytes = message->bytes};
    write->value_bytes = message->value_bytes < sizeof write->values ? message->value_bytes : sizeof write->values;
    memcpy(write->values, message->values, write->value_bytes);
}

static void give(struct staging *staging, const struct stage_message *question)
{
    struct stage_message answer = {.type = STAGE_NONE};
    int fd = staging->answer(staging->user, question, &answer);
    stage_send(staging->process.socket, &answer, fd);
    if (fd >= 0)
        close(fd);
    if (question->type == STAGE_SAVE)
        staging->saving_since_ns = dump_clock();
}

static void take_launch(struct staging *staging, const struct stage_message *message)
{
    staging->number = message->number < staging->scene.launch_count ? message->number : 0;
    staging->has_patterns = message->address != 0;
    if (staging->result.launches_tried <= staging->number)
        staging->result.launches_tried = staging->number + 1;
}

static void take_note(struct restaged *result, const char *text)
{
    size_t length = strlen(result->note);
    snprintf(result->note + length, sizeof result->note - length, "%s%s", length ? "; " : "", text);
}

static void take_figures(struct staging *staging, const struct stage_message *message)
{
    struct restaged *result = &staging->result;
    if (result->figure_count < sizeof result->figures / sizeof *result->figures)
        result->figures[result->figure_count++] = message->figures;
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
        staging->saved_ns += dump_clock() - staging->saving_since_ns;
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
    case STAGE_NOTE:
        take_note(&staging->result, message.text);
        return 1;
    case STAGE_FAILED:
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
        state = dump_take(staging->fifo_fd, &staging->dump);
    while (state == DUMP_TAKEN);
    return state != DUMP_OVER || !staging->dump.received;
}

/* Serves the process until it ends, or until the time is over. */
static void serve(struct staging *staging)
{
    int is_talking = 1, is_dumping = 1;
    while (is_talking) {
        struct pollfd wait[] = {{.fd = staging->process.socket, .events = POLLIN}, {.fd = staging->fifo_fd, .events = POLLIN}};
        int left = ms_left(staging);
        if (!left) {
            char why[96];
            snprintf(why, sizeof why, "it took longer than %s", staging->limit);
            if (!staging->result.write_count) /* else this much is known */
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

/* It faulted beyond the patterned pages, so its first accesses out of bounds went into them. Launches that one alone, without.
 */
static void run_bare(struct staging *staging)
{
    struct scene *scene = &staging->scene;
    uint32_t number = staging->number;
    struct restaged before = staging->result;
    scene->launches += number;
    scene->launch_count = 1;
    scene->mode = SCENE_BARE;
    scene->range_count = 0;
    scene->is_saved = 0;
    if (staging_begin(staging) == CUFENCE_OK)
        run(staging);
    staging->result = before; /* its failure takes nothing away */
    staging->number = number;
}

void staging_finish(struct staging *staging)
{
    struct restaged *result = &staging->result;
    if (staging->is_running && run(staging)) {
        if (staging->has_patterns && staging->scene.mode == SCENE_WHOLE && ms_left(staging) > 0)
            run_bare(staging);
        result->outcome = RESTAGE_FAULTED;
    }
    stop(staging);
    if (result->outcome == RESTAGE_NOT_TRIED) {
        if (result->write_count)
            result->outcome = RESTAGE_WROTE;
        else if (staging->is_done)
            result->outcome = RESTAGE_NO_FAULT;
        else
            staging_fail(staging, "the process that launches it again has ended early");
    }
    result->evidence = staging->evidence;
    result->took_ms = (dump_clock() - staging->begin_ns) / 1000000;
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
}
