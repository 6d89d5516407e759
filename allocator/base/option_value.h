/*
 * What a user writes as an option's value: the check and the number behind it.
 * Pure; any thread.
 */
#pragma once

#include "options.h"

/* Sets the row's field in *options. Returns 0 if the row does not allow the value. */
option_setter option_set;

/* ---- options that set several fields; each function is the `set` of a row (options.h) ---- */

option_setter set_guard;       /* MIN, which raises the maximum if need be, or MIN..MAX */
option_setter set_on_fault;    /* VALUE or VALUE/STATUS; /STATUS leaves the value as it is */
option_setter set_keep;        /* FOLDER, but not dump=FOLDER or replay=FOLDER, which were before */
option_setter set_save_values; /* LAUNCHES=FOLDER, neither without the other */
option_setter set_skip;        /* rules (filter.h), of which one may be smaller:BYTES, for row->rest */

/* The name of a file or folder within a value of that option, NULL if there is none. */
const char *option_path_in(const struct option_row *row, const char *value);
