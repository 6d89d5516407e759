/*
 * The plain fields of the structs in a snapshot, with their JSON names. Pure.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_FIELDS_H
#define CUFENCE_ANALYSIS_SNAPSHOT_FIELDS_H

#include "record/record.h"

extern const struct record kept_buffer, kept_frame, kept_launch, kept_memory, kept_origin, kept_rerun_launch, kept_bundle;

#endif
