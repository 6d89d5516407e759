/* Findings as text and as JSON, made from what a test has. The caller frees what it gets. */
#pragma once

#include "finding/json.h"
#include "finding/report.h"

typedef char *rendering(const struct finding *finding);

static inline char *told_rerun(rendering *render, const struct diagnosis *diagnosis, const struct rerun_result *rerun,
                               const struct finding_source *origin)
{
    struct finding finding;
    finding_of_fault(&finding, diagnosis, rerun, origin);
    char *text = render(&finding);
    finding_free(&finding);
    return text;
}

static inline char *told_fault(rendering *render, const struct diagnosis *diagnosis, const struct finding_source *origin)
{
    return told_rerun(render, diagnosis, NULL, origin);
}
