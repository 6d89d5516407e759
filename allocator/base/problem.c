#include "error.h"
#include "text.h"

#include <stdarg.h>

cufence_status problem_set(struct problem *problem, cufence_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_vformat(problem->text, sizeof problem->text, format, arguments);
    va_end(arguments);
    text_make_plain(problem->text);
    return status;
}
