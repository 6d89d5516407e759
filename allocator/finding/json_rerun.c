#include "json_rerun.h"

static json_t *write_of(struct members report, const struct rerun_write *write)
{
    struct members made = {json_object(), report.has_failed};
    char values[2 * sizeof write->values + 1] = "";
    for (size_t i = 0; i < write->value_bytes; i++)
        snprintf(values + 2 * i, 3, "%02x", write->values[i]);
    if (write->buffer) {
        put_number(made, "buffer", write->buffer->id);
        put_text(made, "side", write->is_before ? "before_start" : "past_end");
        put_number(made, "distance", write->distance);
    }
    put_true(made, "slack", write->is_slack);
    put_hex(made, "address", write->address);
    put_number(made, "bytes", write->bytes);
    put_text(made, "values", values);
    return made.object;
}

static void put_writes(struct members report, const struct rerun_result *rerun)
{
    if (!rerun->write_count)
        return;
    json_t *writes = json_array();
    for (size_t i = 0; i < rerun->write_count; i++)
        append(writes, write_of(report, &rerun->writes[i]), report.has_failed);
    put(report, "written", writes);
}

void json_put_rerun(struct members report, const struct rerun_result *rerun)
{
    put_writes(report, rerun);
    struct members made = put_object(report, "rerun");
    put_text(made, "outcome", rerun_result_outcome_name(rerun->outcome));
    put_text(made, "reason", rerun->reason);
    put_number(made, "launches", rerun->launches_tried);
    if (rerun->written_bytes)
        put_number(made, "written_bytes", rerun->written_bytes);
    put_number(made, "ms", rerun->took_ms);
}
