#include "inspect/inspect.h"

#include "base/output.h"
#include "measure.h"
#include "tell_values.h"

#include <stdlib.h>
#include <string.h>

#define MOST_POINTERS 32 /* of a launch */

static struct {
    struct filter filter; /* constant after the start, like the file's name */
    char file[1024];
} show;

/* ---- what is measured ---- */

static const struct plan_rules rules = {.most_pointers = MOST_POINTERS};

static size_t size(const struct visit *visit)
{
    return plan_make(&rules, visit, NULL, 0);
}

static void before(struct visit_part *part)
{
    plan_make(&rules, part->visit, part->memory, part->bytes);
    plan_submit(&rules, part, PLAN_BEFORE);
}

static void after(struct visit_part *part)
{
    plan_submit(&rules, part, PLAN_AFTER);
}

/* ---- showing ---- */

static void fill(struct shown_pointer *pointers, const struct visit *visit, const uint8_t *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct reached *reached = &visit->reached[i];
        const size_t first = visit_first_pointer(visit, i); /* it has been measured once */
        const struct plan_item *item = results && first == i ? plan_find(results, i) : NULL;
        struct shown_pointer *pointer = &pointers[i];
        *pointer = pointers[first];
        if (item) {
            pointer->type = (struct known_type){item->type, item->from};
            measure_read(results + item->before, item->bytes, item->type, &pointer->before);
            measure_read(results + item->after, item->bytes, item->type, &pointer->after);
            pointer->is_measured = 1;
        }
        if (item && pointer->before.hash != pointer->after.hash)
            beside_named(visit, &reached->range, reached->pointer, reached->pointer + reached->bytes, pointer->beside);
        pointer->reached = reached;
        arguments_describe(&reached->range, &pointer->buffer);
    }
}

static void put_out(const struct shown_launch *launch)
{
    char *text = show.file[0] ? values_json(launch) : values_text(launch);
    int error = text && show.file[0] ? output_append(show.file, text, strlen(text)) : 0;
    if (!text)
        output_say("cufence: the host has no memory for the values of launch #%llu\n",
                   (unsigned long long)launch->visit->number);
    else if (!show.file[0])
        output_print(text, 1);
    if (error)
        output_say("cufence: cannot write values to %s: %s\n", show.file, strerror(error));
    free(text);
}

static void finished(const struct visit *visit, uint8_t *results, size_t bytes, enum visit_end how)
{
    struct stack_frame *frames = malloc(STACK_READ * sizeof *frames);
    struct shown_pointer *pointers = calloc(MOST_POINTERS, sizeof *pointers);
    char kernels[1024] = "";
    struct shown_launch launch = {.visit = visit,
                                  .how = how,
                                  .names = visit->function ? types_names(visit->function) : NULL,
                                  .frames = frames,
                                  .pointers = pointers,
                                  .graph_kernels = kernels};
    if (frames)
        launch.frame_count = stack_frames(&visit->stack, frames, STACK_READ);
    if (pointers)
        launch.pointer_count = visit->reached_count < MOST_POINTERS ? visit->reached_count : MOST_POINTERS;
    fill(pointers, visit, bytes >= sizeof(struct plan) ? results : NULL, launch.pointer_count);
    if (!visit->function)
        names_kernels(visit, kernels, sizeof kernels);
    put_out(&launch);
    free(pointers);
    free(frames);
}

cufence_status show_open(const struct options *options)
{
    static struct visit_user user = {.kernels = MEASURE_KERNELS,
                                     .filter = &show.filter,
                                     .wants_graphs = 1,
                                     .size = size,
                                     .before = before,
                                     .after = after,
                                     .finished = finished};
    cufence_status status = options_place_path(options->values_out, show.file, sizeof show.file);
    if (status != CUFENCE_OK || !options->values[0])
        return status;
    filter_parse(&show.filter, options->values);
    user.ptx = measure_ptx();
    visits_add(&user);
    return CUFENCE_OK;
}
