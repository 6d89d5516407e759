#include "option_merged.h"
#include "option_value.h"

#include <string.h>

int set_guard(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    if (!option_set_parts(row, value, length, options))
        return 0;
    if (options->guard_max < options->guard && !memmem(value, length, row->joint, strlen(row->joint)))
        options->guard_max = options->guard;
    return options->guard_max >= options->guard;
}
