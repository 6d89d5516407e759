/*
 * What a user writes as an option's value: the check and the number behind it.
 * Pure; any thread.
 */
#ifndef CUFENCE_BASE_OPTION_VALUE_H
#define CUFENCE_BASE_OPTION_VALUE_H

#include "options.h"

/* Sets the row's field in *options. `value` has `length` bytes and needs no NUL. Returns 0 if the row does not allow it. */
int option_set(const struct option_row *row, const char *value, size_t length, struct options *options);

/* The same without row->set: the row's field, and that of row->rest; or the row's alone. */
int option_set_parts(const struct option_row *row, const char *value, size_t length, struct options *options);
int option_set_field(const struct option_row *row, const char *value, size_t length, struct options *options);

/* The position of a value in a list such as "off | strict", -1 if it is not in the list. */
int option_choice(const char *allowed, const char *value, size_t length);

/* Writes bytes with the largest suffix that leaves no rest: "64M". At most `size` bytes with the NUL. */
void option_format_bytes(uint64_t bytes, char *out, size_t size);

#endif
