/*
 * The figures of what an argument points to, in the JSON of a finding. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_JSON_FIGURES_H
#define CUFENCE_FINDING_JSON_FIGURES_H

#include "finding.h"
#include "json_members.h"

/* Adds the member "figures", nothing if there are none. */
void json_put_figures(struct members to, const struct value_fact *value);

#endif
