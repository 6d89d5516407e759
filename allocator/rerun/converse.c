#include "rerun.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void take_rest(struct rerun_result *result, uint64_t start, uint64_t end)
{
    if (result->rest_start == result->rest_end)
        result->rest_start = start;
    result->rest_start = start < result->rest_start ? start : result->rest_start;
    result->rest_end = end > result->rest_end ? end : result->rest_end;
}

static void take_write(struct rerun_result *result, const struct rerun_message *message)
{
    int is_full = result->write_count == RERUN_PLACES || message->data_bytes;
    result->written_bytes += message->data_bytes ? message->data_bytes : message->bytes;
    if (is_full && !message->number)
        take_rest(result, message->address, message->address + message->bytes);
    if (is_full)
        return;
    struct rerun_write *write = &result->writes[result->write_count++];
    *write = (struct rerun_write){.is_slack = message->number != 0, .address = message->address, .bytes = message->bytes};
    write->value_bytes = message->value_bytes < sizeof write->values ? message->value_bytes : sizeof write->values;
    memcpy(write->values, message->values, write->value_bytes);
}

int rerun_has_left(const struct rerun_result *result)
{
    return result->write_count && !result->writes[0].is_slack;
}

static void give(struct rerun *rerun, const struct rerun_run *run, const struct rerun_message *question)
{
    struct rerun_message answer = {.type = MESSAGE_NONE};
    int fd = rerun->answer(rerun->user, question, &answer);
    rerun_answer(run->process.socket, &answer, fd);
    if (question->type == MESSAGE_SAVE)
        rerun->saving_since_ns = monotonic_ns();
}

static void take_launch(struct rerun *rerun, struct rerun_run *run, const struct rerun_message *message)
{
    rerun->number = (uint32_t)run->first + (message->number < run->input.bundle.launch_count ? message->number : 0);
    run->is_amid_patterns = message->address != 0;
    rerun->blocks = message->bytes;
    if (run->result->launches_tried <= rerun->number)
        run->result->launches_tried = rerun->number + 1;
}

void rerun_take_note(struct rerun_result *result, const char *text)
{
    size_t length = strlen(result->note);
    snprintf(result->note + length, sizeof result->note - length, "%s%s", length ? "; " : "", text);
}

static void take_figures(struct rerun_result *result, const struct rerun_message *message)
{
    if (result->figure_count < sizeof result->figures / sizeof *result->figures)
        result->figures[result->figure_count++] = message->figures;
}

/* What comes from the other process is checked, as what comes from a file. */
static void take_cause(struct rerun_result *result, struct origin *cause)
{
    for (uint32_t i = 0; i < ORIGIN_TERMS; i++)
        cause->terms[i].place.file[sizeof cause->terms[i].place.file - 1] = '\0';
    for (uint32_t i = 0; i < ORIGIN_WRAPS; i++)
        cause->wraps[i].place.file[sizeof cause->wraps[i].place.file - 1] = '\0';
    result->cause = *cause;
}

int rerun_converse(struct rerun *rerun, struct rerun_run *run)
{
    struct rerun_result *result = run->result;
    struct rerun_message message;
    int fd;
    if (!rerun_receive(run->process.socket, &message, &fd))
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
        give(rerun, run, &message);
        return 1;
    case MESSAGE_LAUNCHES:
        take_launch(rerun, run, &message);
        return 1;
    case MESSAGE_WROTE:
        take_write(result, &message);
        return 1;
    case MESSAGE_FIGURES:
        take_figures(result, &message);
        return 1;
    case MESSAGE_CAUSE:
        take_cause(result, &message.cause);
        return 1;
    case MESSAGE_UNSET:
        rerun_result_add_unset(result, message.text);
        return 1;
    case MESSAGE_NOTE:
        rerun_take_note(result, message.text);
        return 1;
    case MESSAGE_FAILED:
        run->said = message.number ? RERUN_CODE_REFUSED : RERUN_FAILURE;
        rerun_result_fail(result, message.text);
        return 0;
    default:
        run->said = message.type == MESSAGE_DONE ? RERUN_SILENCE : RERUN_FAILURE;
        return 0;
    }
}
