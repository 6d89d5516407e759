/*
 * What the second launch of a kernel did, as members of the JSON. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_JSON_RESTAGED_H
#define CUFENCE_FINDING_JSON_RESTAGED_H

#include "analysis/verdict/restaged.h"
#include "json_members.h"

/* Adds "rerun" and, if it wrote out of bounds, "written". Requires an outcome other than RESTAGE_NOT_TRIED. */
void json_put_restaged(struct members report, const struct restaged *restaged);

#endif
