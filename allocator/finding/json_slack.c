#include "json_slack.h"

static void put_bytes(struct members to, const struct slack_write *write)
{
    char text[2 * sizeof write->bytes + 1] = "";
    for (size_t i = 0; i < write->byte_count; i++)
        snprintf(text + 2 * i, 3, "%02x", write->bytes[i]);
    put_text(to, "found", text);
}

static void put_launch(struct members launch, const struct fault_launch *from, uint64_t now_ns)
{
    const struct launch_entry *entry = from->entry;
    put_text(launch, "symbol", entry->function ? entry->function->name : NULL);
    put_dim(launch, "grid", entry->grid);
    put_dim(launch, "block", entry->block);
    put_number(launch, "ns", entry->time_ns);
    if (now_ns >= entry->time_ns)
        put_number(launch, "ago_ns", now_ns - entry->time_ns);
    put_number(launch, "tid", entry->tid);
    put_hex(launch, "stream", entry->stream);
}

void json_put_slack(struct members report, const struct slack_write *write,
                    void (*put_frames)(struct members to, const struct stack_frame *from, size_t count))
{
    struct members slack = put_object(report, "slack");
    put_number(slack, "changed", write->changed);
    put_number(slack, "span", write->span);
    put_bytes(slack, write);
    put_number(slack, "good_ns", write->since_ns);
    put_number(slack, "buffers", write->buffers);
    put_number(slack, "first_buffer", write->first_id);
    if (!write->launch_total)
        return;
    struct members launches = put_object(slack, "launches");
    put_certainty(launches, slack_launch_certainty(write));
    put_number(launches, "total", write->launch_total);
    json_t *list = json_array();
    for (size_t i = 0; i < write->launch_count; i++) {
        struct members launch = {json_object(), report.has_failed};
        put_launch(launch, &write->launches[i], write->now_ns);
        put_frames(launch, write->launches[i].frames, write->launches[i].frame_count);
        append(list, launch.object, report.has_failed);
    }
    put(launches, "list", list);
}
