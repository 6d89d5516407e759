/*
 * What a user writes as an option's value: the check and the number behind it.
 * Pure; any thread.
 */
#pragma once

#include "options.h"

/* Sets the row's field in *options. `value` has `length` bytes and needs no NUL. Returns 0 if the row does not allow it. */
int option_set(const struct option_row *row, const char *value, size_t length, struct options *options);

/* The same without row->set: the row's field, and that of row->rest; or the row's alone. */
int option_set_parts(const struct option_row *row, const char *value, size_t length, struct options *options);
int option_set_field(const struct option_row *row, const char *value, size_t length, struct options *options);

/* The position of a value in a list such as "off | strict", -1 if it is not in the list. */
int option_choice(const char *allowed, const char *value, size_t length);

/* ---- options that set several fields; each function is the `set` of a row (options.h) ---- */

option_setter set_guard;       /* MIN, which raises the maximum if need be, or MIN..MAX */
option_setter set_on_fault;    /* VALUE or VALUE/STATUS; /STATUS leaves the value as it is */
option_setter set_keep;        /* FOLDER, but not dump=FOLDER or replay=FOLDER, which were before */
option_setter set_save_values; /* LAUNCHES=FOLDER, neither without the other */
option_setter set_skip;        /* rules (filter.h), of which one may be smaller:BYTES, for row->rest */

/* The name of a file or folder within a value of that option, NULL if there is none. */
const char *option_path_in(const struct option_row *row, const char *value);
