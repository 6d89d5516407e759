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
    int is_killed = WIFSIGNALED(run->status);
    return json_pack("{ss ss sf si sb sI}", "mode", modes[mode].name, "options", modes[mode].options, "seconds", run->seconds,
                     is_killed ? "signal" : "exit_status", is_killed ? WTERMSIG(run->status) : WEXITSTATUS(run->status),
                     "guarded", run->is_guarded, "findings", (json_int_t)merged_by(merged, mode));
}

int hunt_put_json(FILE *out, const struct plan *plan, const struct run runs[MODES], const struct collected *merged,
                  int is_complete)
{
    json_t *command = json_array(), *ran = json_array(), *findings = json_array();
    for (char **word = plan->command; *word; word++)
        json_array_append_new(command, text_to_json(*word));
    for (unsigned mode = 0; mode < MODES; mode++)
        if (runs[mode].is_started)
            json_array_append_new(ran, run_object(&runs[mode], merged, mode));
    for (size_t i = 0; i < merged->count; i++) {
        const struct collected_finding *finding = &merged->findings[i];
        json_array_append_new(findings, json_pack("{so sI sO}", "modes", names_of(finding->tags), "reports",
                                                  (json_int_t)finding->count, "report", finding->first));
    }
    json_t *document =
        json_pack("{si ss so sb so so sI}", "schema", SCHEMA, "cufence", cufence_version_string(), "command", command,
                  "complete", is_complete, "runs", ran, "findings", findings, "known", (json_int_t)merged->known_count);
    int is_ok = document && json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(4)) == 0;
    json_decref(document);
    return is_ok && fputc('\n', out) != EOF && fflush(out) == 0;
}
