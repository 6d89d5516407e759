#include "error.h"

#include "text.h"
#include "thread.h"

#include <stdarg.h>

#define DETAIL_BYTES 1024

static struct thread_memory details = {.size = DETAIL_BYTES};

cufence_status error_set(cufence_status status, const char *format, ...)
{
    va_list arguments;
    char *detail = thread_memory(&details);
    if (!detail)
        return status;
    va_start(arguments, format);
    text_vformat(detail, DETAIL_BYTES, format, arguments);
    va_end(arguments);
    text_make_plain(detail);
    return status;
}

const char *error_detail(void)
{
    const char *detail = thread_memory(&details);
    return detail ? detail : "the host has no memory to say why";
}
