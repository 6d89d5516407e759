#include "json.h"

#include "base/text.h"

#include <stdlib.h>

char *finding_json(const struct finding *finding)
{
    return text_of_json(json_table_write_at(&finding_facts, finding, finding->now_ns), JSON_COMPACT);
}

/* Not on the stack: these are made on a thread of the program's. */
char *json_of_guarded(const struct finding_source *origin, const struct guarded *guarded)
{
    struct finding *line = calloc(1, sizeof *line);
    if (!line)
        return NULL;
    line->origin = *origin;
    line->kind = guarded ? KIND_GUARDED : KIND_RUN;
    line->guarded = guarded;
    char *text = finding_json(line);
    free(line);
    return text;
}
