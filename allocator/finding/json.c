#include "json.h"

#include "base/text.h"
#include "facts.h"

char *finding_json(const struct finding *finding)
{
    return text_of_json(record_to_json_at(&finding_facts, finding, finding->now_ns), JSON_COMPACT);
}

char *json_of_run(const struct finding_origin *origin)
{
    return finding_json(&(struct finding){.origin = *origin, .kind = KIND_RUN});
}

char *json_of_guarded(const struct finding_origin *origin, const struct guarded *guarded)
{
    return finding_json(&(struct finding){.origin = *origin, .kind = KIND_GUARDED, .guarded = guarded});
}
