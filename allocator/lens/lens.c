#include "lens.h"

#include "base/error.h"
#include "launch/lens.h"
#include "lens/code/code.h"
#include "lens/nan/written.h"
#include "lens/values/machine.h"
#include "lens/values/declared.h"
#include "lens/values/types.h"
#include "lens/visits/visits.h"

static void unloads(const void *module)
{
    if (code_is_kept) {
        code_unloaded(module);
        machine_gone(module);
    }
    declared_gone(module);
}

void lens_register(void)
{
    static struct lens table = {.context_begun = visits_context_begun,
                                .context_gone = visits_context_gone,
                                .unloads = unloads,
                                .graph_instantiated = captured_instantiated,
                                .executable_gone = captured_executable_gone,
                                .kernel_declared = declared_add,
                                .close = visits_close};
    table.loaded = code_is_kept ? code_loaded : NULL;
    table.loaded_file = code_is_kept ? code_loaded_file : NULL;
    table.host_writes = written_is_noted() ? written_note_address : NULL;
    table.copied = visits_see_copies() ? visits_copied : NULL;
    lens = &table;
}

cufence_status lens_check(const struct options *options)
{
    char problem[512];
    if (!types_override(options->values_type, problem, sizeof problem))
        return error_set(CUFENCE_ERROR_OPTION, "values_type=%s: %s", options->values_type, problem);
    return CUFENCE_OK;
}

cufence_status lens_open(const struct options *options)
{
    static cufence_status (*const open[])(const struct options *) = {lens_check, show_open, nan_open, trace_open, saves_open};
    visits_open(options);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        cufence_status status = open[i](options);
        if (status != CUFENCE_OK)
            return status;
    }
    lens_register();
    return CUFENCE_OK;
}
