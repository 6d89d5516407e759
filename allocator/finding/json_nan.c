#include "json_nan.h"

static json_t *input_of(const struct nan_input *input, int *has_failed)
{
    struct members made = {json_object(), has_failed};
    if (input->argument >= 0)
        put(made, "argument", json_integer(input->argument));
    put(made, "at", json_integer(input->at));
    put_number(made, "buffer", input->buffer);
    put_number(made, "offset", input->offset);
    put_text(made, "label", input->label);
    put_text(made, "type", value_name(input->type));
    put_true(made, "type_is_guess", input->is_guess);
    put_true(made, "never_written", input->is_unwritten);
    put_number(made, "count", input->count);
    put_number(made, "nan", input->nans);
    put_number(made, "inf", input->infinities);
    if (input->has_figures && input->finite) {
        put_number(made, "zeros", input->zeros);
        put(made, "min", json_real(input->min));
        put(made, "max", json_real(input->max));
        if (input->mean - input->mean == 0)
            put(made, "mean", json_real(input->mean));
        if (input->deviation - input->deviation == 0)
            put(made, "std", json_real(input->deviation));
    }
    return made.object;
}

void json_put_nan(struct members report, const struct nan_fact *nan,
                  void (*put_frames)(struct members to, const struct stack_frame *frames, size_t count))
{
    struct members made = put_object(report, "nan");
    put_text(made, "kernel", nan->kernel);
    put_text(made, "symbol", nan->symbol);
    if (!nan->kernel)
        put_text(made, "graph_kernels", nan->plain);
    if (nan->kernel) {
        put_dim(made, "grid", nan->grid);
        put_dim(made, "block", nan->block);
    }
    put_number(made, "launch", nan->launch);
    put_hex(made, "stream", nan->stream);
    put_number(made, "tid", nan->tid);
    put_frames(made, nan->frames, nan->frame_count);
    if (nan->argument >= 0)
        put(made, "argument", json_integer(nan->argument));
    if (nan->file) {
        struct members line = put_object(made, "written_at");
        put_text(line, "file", nan->file);
        put(line, "line", json_integer(nan->line));
    }
    put_number(made, "index", nan->index);
    put_number(made, "made", nan->made);
    put_number(made, "count", nan->count);
    put_text(made, "type", value_name(nan->type));
    put_true(made, "type_is_guess", nan->is_guess);
    put_true(made, "of_unwritten", nan->is_of_unwritten);
    json_t *inputs = json_array();
    for (size_t i = 0; i < nan->input_count; i++)
        append(inputs, input_of(&nan->inputs[i], made.has_failed), made.has_failed);
    put(made, "inputs", inputs);
}
