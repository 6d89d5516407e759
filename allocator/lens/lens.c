#include "lens.h"

#include "base/error.h"
#include "lens/values/machine.h"
#include "launch/code.h"
#include "lens/nan/nan.h"
#include "lens/values/show.h"
#include "lens/values/told.h"
#include "lens/values/types.h"
#include "lens/visits/visits.h"

cufence_status values_check(const struct options *options)
{
    char problem[512];
    if (!types_override(options->values_type, problem, sizeof problem))
        return error_set(CUFENCE_ERROR_OPTION, "values_type=%s: %s", options->values_type, problem);
    return CUFENCE_OK;
}

cufence_status values_open(const struct options *options)
{
    visits_open(options);
    cufence_status status = values_check(options);
    if (status == CUFENCE_OK)
        status = show_open(options);
    return status == CUFENCE_OK ? nan_open(options) : status;
}

void values_module_gone(const void *module)
{
    if (!code_is_kept)
        return;
    machine_gone(module);
    told_gone(module);
}
