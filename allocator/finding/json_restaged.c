#include "json_restaged.h"

static json_t *write_of(struct members report, const struct restaged_write *write)
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

static void put_writes(struct members report, const struct restaged *restaged)
{
    if (!restaged->write_count)
        return;
    json_t *writes = json_array();
    for (size_t i = 0; i < restaged->write_count; i++)
        append(writes, write_of(report, &restaged->writes[i]), report.has_failed);
    put(report, "written", writes);
}

void json_put_restaged(struct members report, const struct restaged *restaged)
{
    put_writes(report, restaged);
    struct members made = put_object(report, "rerun");
    put_text(made, "outcome", restaged_outcome_name(restaged->outcome));
    put_text(made, "reason", restaged->reason);
    put_number(made, "launches", restaged->launches_tried);
    if (restaged->written_bytes)
        put_number(made, "written_bytes", restaged->written_bytes);
    put_number(made, "ms", restaged->took_ms);
}
