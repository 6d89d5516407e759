/* What a hunt has found, for programs (docs/hunt.md). */
#include "hunt.h"

#include "base/text.h"

#include <cufence.h>
#include <sys/wait.h>

#define SCHEMA 1

static json_t *names_of(unsigned bits)
{
    json_t *names = json_array();
    for (unsigned mode = 0; mode < MODES; mode++)
        if (bits & 1u << mode)
            json_array_append_new(names, json_string(modes[mode].name));
    return names;
}

static json_t *run_object(const struct run *run, const struct collected *merged, unsigned mode)
{
    json_t *object = json_object();
    json_object_set_new(object, "mode", json_string(modes[mode].name));
    json_object_set_new(object, "options", json_string(modes[mode].options));
    json_object_set_new(object, "seconds", json_real(run->seconds));
    if (WIFSIGNALED(run->status))
        json_object_set_new(object, "signal", json_integer(WTERMSIG(run->status)));
    else
        json_object_set_new(object, "exit_status", json_integer(WEXITSTATUS(run->status)));
    json_object_set_new(object, "guarded", json_boolean(run->is_guarded));
    json_object_set_new(object, "findings", json_integer((json_int_t)merged_by(merged, mode)));
    return object;
}

static json_t *finding_object(const struct collected_finding *finding)
{
    json_t *object = json_object();
    json_object_set_new(object, "modes", names_of(finding->tags));
    json_object_set_new(object, "reports", json_integer((json_int_t)finding->count));
    json_object_set(object, "report", finding->first);
    return object;
}

int hunt_put_json(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged,
                  int is_complete)
{
    json_t *document = json_object(), *command = json_array(), *ran = json_array(), *findings = json_array();
    for (char **word = plan->command; *word; word++)
        json_array_append_new(command, text_to_json(*word));
    for (unsigned mode = 0; mode < MODES; mode++)
        if (runs[mode].is_started)
            json_array_append_new(ran, run_object(&runs[mode], merged, mode));
    for (size_t i = 0; i < merged->count; i++)
        json_array_append_new(findings, finding_object(&merged->findings[i]));
    json_object_set_new(document, "schema", json_integer(SCHEMA));
    json_object_set_new(document, "cufence", json_string(cufence_version_string()));
    json_object_set_new(document, "command", command);
    json_object_set_new(document, "complete", json_boolean(is_complete));
    json_object_set_new(document, "runs", ran);
    json_object_set_new(document, "findings", findings);
    json_object_set_new(document, "known", json_integer((json_int_t)merged->known_count));
    int is_well = json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(4)) == 0;
    json_decref(document);
    return is_well && fputc('\n', out) != EOF && fflush(out) == 0;
}
