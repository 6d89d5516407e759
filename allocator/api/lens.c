#include "lifecycle.h"

#include "base/error.h"
#include "base/output.h"
#ifdef CUFENCE_HAS_LENS
#include "lens/lens.h"
#endif

#include <unistd.h>

/* The option that asks for it, NULL if none does. */
static const char *asking(const struct options *options)
{
    return options->values[0]        ? "values"
           : options->nan != NAN_OFF ? "nan"
           : options->trace[0]       ? "trace"
           : options->save_values[0] ? "save_values"
                                     : NULL;
}

cufence_status lifecycle_lens(const struct options *options, int is_start)
{
    const char *option = asking(options);
    if (is_start && options->every > 1 && !options->trace[0] && options->nan == NAN_OFF)
        output_say("==%d== cufence: every= does nothing without trace= or nan=\n", (int)getpid());
#ifdef CUFENCE_HAS_LENS
    return is_start && option ? lens_open(options) : lens_check(options);
#else
    return option
               ? error_set(CUFENCE_ERROR_UNSUPPORTED, "%s: this cufence was built without its lens (CUFENCE_LENS=OFF)", option)
               : CUFENCE_OK;
#endif
}
