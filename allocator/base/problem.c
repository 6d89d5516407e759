#include "error.h"

#include <stdarg.h>
#include <stdio.h>

cufence_status problem_set(struct problem *problem, cufence_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->text, sizeof problem->text, format, arguments);
    va_end(arguments);
    return status;
}
