#include "diff.h"

#include "arguments.h"
#include "cli.h"
#include "words.h"

#include "base/text.h"

#include <jansson.h>
#include <stddef.h>

/* ---- --json: one document (docs/diff.md) ---- */

#define SCHEMA 1

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *of_file(const struct trace_file *file)
{
    const struct trace_header *header = &file->header;
    return json_pack("{so so so sI so* so* sb sI}", "file", text_to_json(file->path), "program", text_to_json(header->program),
                     "device", text_to_json(header->device), "driver", (json_int_t)header->driver, "filter",
                     *header->filter ? text_to_json(header->filter) : NULL, "every",
                     header->every > 1 ? number(header->every) : NULL, "is_whole", file->is_whole, "missed",
                     (json_int_t)file->missed);
}

/* The event as its line has it, and the number of the line. */
static cufence_status add_event(struct diff *diff, int side, struct trace_at at, const char *name, json_t *to,
                                struct problem *problem)
{
    struct trace_event event;
    struct trace_file *file = &diff->files[side];
    cufence_status status = trace_file_again(file, at, &event, problem);
    if (status != CUFENCE_OK)
        return status;
    trace_event_free(&event);
    json_t *object = json_loadb(file->line, file->size, 0, NULL);
    json_object_set_new(object, "line", number(at.line));
    json_object_set_new(to, name, object);
    return CUFENCE_OK;
}

static cufence_status add_writer(struct diff *diff, int side, const struct diff_shown *shown, json_t *to,
                                 struct problem *problem)
{
    static const char *const names[] = {"a_came_from", "b_came_from"};
    struct trace_write write;
    const struct trace_buffer *buffer = &shown->events[side].buffers[shown->found->what.index];
    if (trace_writers_find(diff->files[side].writers, buffer->name, shown->found->at[side].line, &write) != 1)
        return CUFENCE_OK;
    return add_event(diff, side, (struct trace_at){.line = write.line, .offset = write.offset}, names[side], to, problem);
}

static cufence_status add_found(struct diff *diff, const struct diff_found *found, json_t *list, struct problem *problem)
{
    static const char *const names[] = {"a", "b"};
    struct diff_shown shown;
    json_t *object = json_pack("{ss ss sI so* so*}", "kind", diff_kinds[found->what.kind].name, "words",
                               diff_kinds[found->what.kind].words, "stream", (json_int_t)found->stream, "index",
                               found->what.index != SIZE_MAX ? number(found->what.index) : NULL, "more",
                               found->more ? number(found->more) : NULL);
    json_array_append_new(list, object);
    cufence_status status = diff_show(diff, found, &shown, problem);
    for (int i = 0; i < DIFF_SIDES && status == CUFENCE_OK; i++) {
        if (found->at[i].line)
            status = add_event(diff, i, found->at[i], names[i], object, problem);
        if (status == CUFENCE_OK && found->what.kind == TRACE_OTHER_INPUT)
            status = add_writer(diff, i, &shown, object, problem);
    }
    diff_hide(&shown);
    return status;
}

static cufence_status print_json(struct diff *diff, struct problem *problem)
{
    cufence_status status = CUFENCE_OK;
    json_t *list = json_array();
    json_t *document = json_pack("{si sb sI sI so so so}", "schema", SCHEMA, "equal", !diff->found_count, "compared",
                                 (json_int_t)diff->compared, "streams", (json_int_t)diff->stream_count, "a",
                                 of_file(&diff->files[DIFF_A]), "b", of_file(&diff->files[DIFF_B]), "differences", list);
    for (size_t i = 0; i < diff->found_count && status == CUFENCE_OK; i++)
        status = add_found(diff, &diff->found[i], list, problem);
    if (status == CUFENCE_OK)
        text_put_json(stdout, json_incref(document), JSON_INDENT(1));
    json_decref(document);
    return status;
}

/* ---- the command ---- */

/* Returns the exit status. */
static int compare(struct diff *diff, const char *a, const char *b, int is_json)
{
    struct problem problem;
    cufence_status status = diff_open(diff, a, b, &problem) ?: diff_compare(diff, &problem);
    if (status == CUFENCE_OK && is_json)
        status = print_json(diff, &problem);
    else if (status == CUFENCE_OK) {
        FILE *terminal = words_hold();
        status = diff_print_text(diff, &problem);
        words_release(terminal);
    }
    if (status != CUFENCE_OK)
        return arguments_complain("diff", STATUS_USAGE, "%s", problem.text);
    return diff->found_count ? 1 : 0;
}

/* In the order of enum TRACE_IGNORE_...: scalars is the bit 1. */
#define IGNORED "scalars place grid buffers"

struct wanted {
    uint64_t all;
    unsigned ignored;
    int is_json;
};

static const struct argument arguments[] = {
    {"all", "N", "the first N differences; one by default", NULL, offsetof(struct wanted, all), arguments_number,
     .most = 100000},
    {"ignore", "WHAT", "scalars, place, grid, buffers (their names); several with commas", IGNORED,
     offsetof(struct wanted, ignored), .take = arguments_bits},
    {"json", NULL, "one JSON document", NULL, .offset = offsetof(struct wanted, is_json)},
};

static int run(int argc, char **argv)
{
    struct wanted wanted = {.all = 1};
    int status;
    if (!arguments_read(&diff_command, argc, argv, &wanted, &status))
        return status;
    struct diff diff = {.most = wanted.all, .ignored = wanted.ignored};
    status = compare(&diff, argv[optind], argv[optind + 1], wanted.is_json);
    diff_close(&diff);
    return status;
}

const struct command diff_command = {
    .name = "diff",
    .help = "find the first launch in which two runs differ",
    .run = run,
    ARGUMENTS(arguments),
    .operands = "A B",
    .values = ARGUMENT_FILE,
    .least = 2,
    .most = 2,
    .missing = "two traces are needed; `cufence run --trace FILE -- PROGRAM` makes one (`cufence docs diff`)",
    .about =
        "Compares the traces of two runs and shows the first launch that differs, and how: another kernel, other arguments, "
        "other inputs and where they came from, or equal inputs and other outputs: a race, an order of atomics, or another "
        "compiler or GPU. Each stream is compared by itself (`cufence docs diff`).",
    .examples = "Example: cufence run --trace a.jsonl -- python train.py\n"
                "         cufence run --trace b.jsonl -- python train.py\n"
                "         cufence diff a.jsonl b.jsonl\n",
};
