#include "lifecycle.h"

#include "base/error.h"
#ifdef CUFENCE_HAS_INSPECT
#include "inspect/inspect.h"
#endif
#include "fault/rerun_source.h"

/* The option that asks for it, NULL if none does. */
static const char *asking(const struct options *options)
{
    return options->values[0] ? "values" : options->nan != NAN_OFF ? "nan" : options->save_values[0] ? "save_values" : NULL;
}

/* The code of modules is kept for a write into slack, which leaves no core dump. */
cufence_status lifecycle_inspect(const struct options *options, int is_start)
{
    const char *option = asking(options);
#ifdef CUFENCE_HAS_INSPECT
    int wants_code = is_start && options->slack && rerun_source_is_wanted(options);
    return is_start && (option || wants_code) ? inspect_open(options, wants_code) : CUFENCE_OK;
#else
    (void)is_start;
    return option ? error_set(CUFENCE_ERROR_UNSUPPORTED, "%s: this cufence was built without inspect/ (CUFENCE_INSPECT=OFF)",
                              option)
                  : CUFENCE_OK;
#endif
}

struct span lifecycle_code(const char *symbol, int device)
{
#ifdef CUFENCE_HAS_INSPECT
    return inspect_code(symbol, device);
#else
    (void)symbol;
    (void)device;
    return (struct span){NULL, 0};
#endif
}
