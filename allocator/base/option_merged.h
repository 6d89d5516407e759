/*
 * Options that set several fields: each function is the `set` of a row (options.h). Pure; any thread.
 */
#ifndef CUFENCE_BASE_OPTION_MERGED_H
#define CUFENCE_BASE_OPTION_MERGED_H

#include "options.h"

/* MIN, which raises the maximum if need be, or MIN..MAX */
option_setter set_guard;

#endif
