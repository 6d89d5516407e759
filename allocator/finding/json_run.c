#include "json_run.h"

#include "json.h"
#include "json_members.h"
#include "base/version.h"

#include <string.h>

static void put_known(struct members process, const struct finding_process *known)
{
    put_text(process, "host", known->host);
    if (known->command_bytes) {
        json_t *command = json_array();
        for (size_t at = 0; at < known->command_bytes; at += strlen(known->command + at) + 1)
            append(command, text_to_json(known->command + at), process.has_failed);
        put(process, "command", command);
    }
    if (known->job_count) {
        struct members job = put_object(process, "job");
        for (size_t i = 0; i < known->job_count; i++)
            put_text(job, known->job[i].name, known->job[i].value);
    }
}

void json_put_process(struct members report, const struct finding_origin *origin)
{
    if (origin->process)
        put_text(report, "time", origin->process->time);
    struct members process = put_object(report, "process");
    put(process, "pid", json_integer(origin->pid));
    if (origin->rank >= 0)
        put(process, "rank", json_integer(origin->rank));
    if (origin->process)
        put_known(process, origin->process);
}

static struct members begin(const char *kind, const struct finding_origin *origin, int *has_failed)
{
    struct members line = {json_object(), has_failed};
    put(line, "schema", json_integer(JSON_SCHEMA));
    put_text(line, "cufence", VERSION_TEXT);
    put_text(line, "kind", kind);
    json_put_process(line, origin);
    return line;
}

char *json_of_run(const struct finding_origin *origin)
{
    int has_failed = 0;
    return members_line(begin(KIND_RUN, origin, &has_failed));
}

char *json_of_guarded(const struct finding_origin *origin, const struct guarded *guarded)
{
    int has_failed = 0;
    struct members line = begin(KIND_GUARDED, origin, &has_failed), told = put_object(line, "guarded");
    put_number(told, "allocations", guarded->allocations);
    put_number(told, "peak_bytes", guarded->peak_bytes);
    put_number(told, "launches", guarded->launches);
    put_number(told, "left_to_driver", guarded->left);
    put_number(told, "left_to_driver_bytes", guarded->left_bytes);
    put_number(told, "findings", guarded->findings);
    put_number(told, "known", guarded->known);
    return members_line(line);
}
