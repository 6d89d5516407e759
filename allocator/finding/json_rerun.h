/*
 * What the second launch of a kernel did, as members of the JSON. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_JSON_RERUN_H
#define CUFENCE_FINDING_JSON_RERUN_H

#include "analysis/verdict/rerun_result.h"
#include "json_members.h"

/* Adds "rerun" and, if it wrote out of bounds, "written". Requires an outcome other than RERUN_NOT_TRIED. */
void json_put_rerun(struct members report, const struct rerun_result *rerun);

#endif
