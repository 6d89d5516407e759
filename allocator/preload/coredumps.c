/* Core dumps that the program asks for by the driver's API. While cufence has armed its own, what the program sets is noted,
 * and is what it gets told; its file is written from cufence's dump (fault/program_dump.h). */
#include "preload_internal.h"

#include "fault/monitor.h"
#include "fault/program_dump.h"

/* Whether the call is about a value that is noted. The driver answers what is wrong, or only asks for a size. */
static int is_noted(CUcoredumpSettings attribute, const void *value, const size_t *size)
{
    return is_active() && monitor_is_armed() && value && size && program_dump_has(attribute);
}

CUresult coredump_set_global(coredump_call function, CUcoredumpSettings attribute, void *value, size_t *size)
{
    if (is_noted(attribute, value, size))
        return program_dump_set(NULL, attribute, value, *size);
    CUresult result = function(attribute, value, size);
    if (result == CUDA_SUCCESS && value && attribute == CU_COREDUMP_ENABLE_USER_TRIGGER && is_active())
        program_dump_triggers(*(const unsigned char *)value != 0);
    return result;
}

CUresult coredump_get_global(coredump_call function, CUcoredumpSettings attribute, void *value, size_t *size)
{
    return is_noted(attribute, value, size) ? program_dump_get(NULL, attribute, value, size) : function(attribute, value, size);
}

/* NULL: the driver answers that there is none. */
static const struct context *context_noted(CUcoredumpSettings attribute, const void *value, const size_t *size)
{
    return is_noted(attribute, value, size) ? context_current() : NULL;
}

CUresult coredump_set(coredump_call function, CUcoredumpSettings attribute, void *value, size_t *size)
{
    const struct context *context = context_noted(attribute, value, size);
    return context ? program_dump_set(context, attribute, value, *size) : function(attribute, value, size);
}

CUresult coredump_get(coredump_call function, CUcoredumpSettings attribute, void *value, size_t *size)
{
    const struct context *context = context_noted(attribute, value, size);
    return context ? program_dump_get(context, attribute, value, size) : function(attribute, value, size);
}
