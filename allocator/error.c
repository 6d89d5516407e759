#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char detail[512];

cufence_status error_set(cufence_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    return status;
}

const char *error_detail(void)
{
    return detail;
}
